"""The mode ``recommend`` on the command line."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from longstride.commands.mode import OF_SIMULATOR, Call, Mode, add_checkpoint
from longstride.process.recommend.service.processes.signals import end_well_while_starting
from longstride.setting_groups.service import Service

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def _add_flags(group: "Group") -> None:
    add_checkpoint(group)
    group.add_argument("--state", metavar="FILE", help="a state as JSON, or a log of open cases")
    group.add_argument("--at", metavar="TIME", help="for a log: the time taken as now (default: its last time)")
    on_shift = "the people on shift, for a log (default: as the scenario expects)"
    group.add_argument("--on-shift", nargs="+", metavar="NAME", help=on_shift)
    group.add_argument("--json", action="store_true", help="print JSON instead of a table")
    group.add_argument("--top", type=int, metavar="N", help="assignments to show, 0 for all (default: 10)")
    group.add_argument("--serve", type=int, metavar="PORT", help="run as a service on this port; 0 for any free port")
    group.add_argument("--host", metavar="ADDRESS", help="address of the service (default: this machine only)")
    group.add_argument(
        "--token-file", metavar="FILE", help="file with the tokens that requests must send, one per line"
    )
    group.add_argument("--workers", type=int, metavar="N", help="worker processes of the service (default: 1)")
    log = "append a line of JSON about each answer to this file; - for standard output (default: none)"
    group.add_argument("--access-log", metavar="FILE", help=log)


def _serves(own: Mapping[str, Any]) -> bool:
    return own["serve"] is not None


def _run(call: Call) -> int:
    """Recommend once, or serve; signals end a service cleanly even while slow imports run."""
    with end_well_while_starting() if _serves(call.own) else nullcontext():
        from longstride.process.recommend.command import RecommendOptions, run_recommend

        return run_recommend(call.settings, RecommendOptions(**call.own), call.console, call.say)


RECOMMEND = Mode(
    "recommend",
    "Recommend assignments for a state of the process, once or as a service.",
    _add_flags,
    _run,
    has_a_result=_serves,
    settings=OF_SIMULATOR | {*Service.model_fields, "run_directory"},
)
