"""The mode ``front`` on the command line."""

from typing import TYPE_CHECKING

from longstride.commands.mode import Call, Mode, add_policies, always

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def add_search_flags(group: "Group", timed: str) -> None:
    """Add the flags that ``front`` and ``staff`` have; ``timed`` says what --minutes limits."""
    what = "a scenario (bundled name or file) or an event log (or --scenario NAME, --event-log FILE)"
    group.add_argument("process", nargs="?", metavar="SCENARIO_OR_LOG", help=what)
    metrics = "the two metrics, of which the least is best (default: cost_per_case,mean_cycle_time)"
    group.add_argument("--metrics", metavar="A,B", help=metrics)
    minutes = f"time of {timed}, over all calls (default: no limit)"
    group.add_argument("--minutes", type=float, metavar="M", help=minutes)


def _add_flags(group: "Group") -> None:
    add_search_flags(group, "all trainings")
    add_policies(group)
    group.add_argument(
        "--points", type=int, metavar="N", help="policies to train, each for another weight (default: 5)"
    )
    group.add_argument("--weights", metavar="W,...", help="weights of the second metric, in place of --points")
    checkpoint = "a run whose policy is a point, too; several flags for several runs"
    group.add_argument("--checkpoint", action="append", metavar="DIR", help=checkpoint)


def _run(call: Call) -> int:
    from longstride.process.front.command import FrontOptions, run_front

    given = {name: value for name, value in call.own.items() if value is not None}
    return run_front(FrontOptions(**given), call)


FRONT = Mode(
    "front",
    "Trade two metrics of a process off against each other.",
    _add_flags,
    _run,
    reads_settings=always,
    has_a_result=always,
    is_slow=True,
)
