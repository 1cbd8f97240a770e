"""The report of a run, and of several runs side by side, as one file of HTML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longstride.report.charts import cautions
from longstride.report.learning import diagnostics_section, learning_section
from longstride.report.machine import machine_section
from longstride.report.outcomes import evaluation_section, metrics_section, whatif_section
from longstride.report.page import Page, Section, write_page
from longstride.report.run_data import RunData
from longstride.report.settings import quoted, reproduction_section, settings_section
from longstride.report.side_by_side import side_by_side, unique_names
from longstride.report.summary import subtitle, tiles, verdict, warnings, words
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.ownership import require_page_replaceable


@dataclass(frozen=True)
class Words:
    """What a report needs from the command line: the program's name and the settings' defaults."""

    program: str  # command that runs this program
    train: str  # command that trains the run again
    defaults: Mapping[str, Any]  # setting -> default


def write_report(run: RunData, given: Words) -> Path:
    """Write ``report.html`` into a run directory and return its path.

    Raises:
        UserError: it cannot be written, or a page of the user's has its name.
    """
    path = RunDirectory(run.directory).report
    require_page_replaceable(path)
    return write_page(build_page(run, given), path)


def write_side_by_side(runs: Sequence[RunData], given: Words) -> Path:
    """Write ``comparison.html`` into the directory of the first run and return its path.

    Raises:
        UserError: it cannot be written, or a page of the user's has its name.
    """
    path = RunDirectory(runs[0].directory).comparison
    require_page_replaceable(path)
    page = side_by_side(runs, unique_names(runs), f"{given.program} --mode evaluate --checkpoint")
    return write_page(page, path)


def build_page(run: RunData, given: Words) -> Page:
    """Return the content of a run's report."""
    directory = quoted(run.directory)
    evaluate = f"{given.program} --mode evaluate --checkpoint {directory}"
    commands = {
        "Evaluate the policy": evaluate,
        "Check that an iteration gives the same bits": (
            f"{given.program} --mode replay --run-directory {directory} --iteration {run.records[-1]['iteration']}"
        ),
        "Write this page again": f"{given.program} --mode report --run-directory {directory}",
    }
    sentence, tone = verdict(run)
    sections = [
        evaluation_section(run, evaluate),
        whatif_section(run),
        learning_section(run),
        _own_section(run),
        metrics_section(run),
        machine_section(run),
        diagnostics_section(run),
        settings_section(run, given.defaults),
        reproduction_section(run, given.train, commands),
    ]
    kept, first = [section for section in sections if section is not None], [*warnings(run), *cautions()]
    return Page(f"Report of {run.name}", subtitle(run), sentence, tone, tiles(run), words(run), first, kept)


def _own_section(run: RunData) -> Section | None:
    """Return the section of the simulator itself."""
    if run.simulator is None:
        return None
    return run.simulator.hooks.report_section(run.simulator, run.episodes, run.unplayed)
