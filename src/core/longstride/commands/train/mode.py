"""The mode ``train`` on the command line."""

from typing import TYPE_CHECKING

from longstride.commands.mode import Call, Mode, add_no_report, add_trust, add_verbose, always

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def _add_flags(group: "Group") -> None:
    group.add_argument(
        "--resume", action="store_true", help="continue the run in --run-directory with its own settings; flags win"
    )
    add_no_report(group)
    add_trust(group)
    add_verbose(group)


def _run(call: Call) -> int:
    from longstride.commands.train.command import Choices, run_train, wants_report

    own = call.own
    report, trust = wants_report(own["no_report"]), own["trust_simulator"]
    choices = Choices(own["resume"], call.named, report, own["verbose"], trust)
    return run_train(call.config, call.sources, choices, call.console, call.say)


TRAIN = Mode("train", "Train a policy.", _add_flags, _run, reads_settings=always, has_a_result=always)
