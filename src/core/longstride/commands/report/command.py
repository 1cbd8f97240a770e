"""--mode report: a run, or several side by side, as a page for a browser."""

from pathlib import Path

from longstride.api.report import report_on, report_side_by_side
from longstride.errors import UserError
from longstride.text import Say


def run_report(directories: list[str], say: Say) -> int:
    """Write the report of a run, or of several side by side, and return the exit code.

    Raises:
        UserError: a directory holds no run, or the page cannot be written.
    """
    if not directories:
        raise UserError("--mode report needs --run-directory DIR, the run to report on; several are put side by side.")
    paths = [Path(directory) for directory in directories]
    say(f"Report: {report_on(paths[0]) if len(paths) == 1 else report_side_by_side(paths)}")
    return 0
