"""The mode ``front`` on the command line."""

from typing import TYPE_CHECKING

from longstride.commands.mode import Call, Mode, add_policies, always

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def add_search_flags(group: "Group", timed: str, else_metrics: str = "") -> None:
    """Add the flags of ``front`` and ``staff``: --minutes limits ``timed``, ``else_metrics`` is another default."""
    what = "a scenario (bundled name or file) or an event log (or --scenario NAME, --event-log FILE)"
    group.add_argument("process", nargs="?", metavar="SCENARIO_OR_LOG", help=what)
    metrics = f"the two metrics, lower is better (default: cost_per_case,mean_cycle_time{else_metrics})"
    group.add_argument("--metrics", metavar="A,B", help=metrics)
    minutes = f"time limit in minutes for {timed}, over all calls (default: no limit)"
    group.add_argument("--minutes", type=float, metavar="M", help=minutes)


def _add_flags(group: "Group") -> None:
    add_search_flags(group, "all trainings")
    add_policies(group)
    group.add_argument(
        "--points", type=int, metavar="N", help="policies to train, each with a different weight (default: 5)"
    )
    group.add_argument("--weights", metavar="W,...", help="weights of the second metric, instead of --points")
    checkpoint = "a run whose policy is added as a point; repeatable"
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
