"""The mode ``plan`` on the command line."""

from typing import TYPE_CHECKING

from longstride.commands.mode import Call, Mode, add_verbose, always

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def _add_flags(group: "Group") -> None:
    group.add_argument("--gpu", metavar="NAME", help="a GPU from the catalogue (default: this machine)")
    add_verbose(group)


def _run(call: Call) -> int:
    from longstride.commands.plan.command import PlanOptions, run_plan

    options = PlanOptions(call.own["gpu"], call.named, call.own["verbose"])
    path = run_plan(call.settings, options, call.console, call.say)
    call.say(f"Written to {path}.")
    return 0


PLAN = Mode(
    "plan",
    "Show how a training would use this machine or another GPU.",
    _add_flags,
    _run,
    reads_settings=always,
    is_slow=True,
)
