"""Commands for fresh processes that are run in this one, where the process is not what is tested."""

from contextlib import redirect_stdout

from longstride.cli import main
from longstride.commands import comparison_folder


def run_here(patch, real=0):
    """Run all but the first ``real`` trainings of a comparison in this process; return a list of their arguments."""
    inner, given = comparison_folder.run_fresh, []

    def run(arguments, log, *stop):
        given.append(arguments)
        if len(given) <= real:
            return inner(arguments, log, *stop)
        with open(log, "w", encoding="utf-8") as file, redirect_stdout(file):
            return main(arguments), 1.0

    patch.setattr(comparison_folder, "run_fresh", run)
    return given
