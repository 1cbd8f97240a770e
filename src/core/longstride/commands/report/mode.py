"""The mode ``report`` on the command line."""

from typing import TYPE_CHECKING

from longstride.commands.mode import OF_A_RUN, Call, Mode

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


def _add_flags(group: "Group") -> None:
    """Add nothing: it has no flags of its own."""


def _run(call: Call) -> int:
    from longstride.commands.report.command import run_report

    return run_report([*filter(None, [call.config.run_directory]), *(call.own.get("further_runs") or [])], call.say)


REPORT = Mode(
    "report", "Write report.html for one or several runs.", _add_flags, _run, several="run_directory", settings=OF_A_RUN
)
