"""A run, or several side by side, as a page for a browser."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from longstride.config import Config, load_values
from longstride.errors import UserError, one_line, this_command
from longstride.escaping import shell_word
from longstride.report.episodes import play_episodes
from longstride.report.machine import run_seconds
from longstride.report.run_data import RunData, read_run
from longstride.report.write import Words, write_report, write_side_by_side
from longstride.settings import Settings, repeat_command
from longstride.simulators.described import from_description
from longstride.simulators.loading import built_in_from_source, is_built_in
from longstride.simulators.simulator import Simulator
from longstride.text import Say
from longstride.training.evaluation.trained_policy import load_trained_policy
from longstride.training.run_directory.directory import RunDirectory

REPORT = "LONGSTRIDE_REPORT"
"""Environment variable: with ``off`` no report is written at the end of a training or an evaluation."""

_SHORT_RUN = 60.0
"""Seconds of training from which episodes are played at its end: the first one compiles for ten seconds."""


def wants_report(refused: bool) -> bool:
    """Return whether a report is written: neither the caller nor the environment refuses it."""
    return not refused and os.environ.get(REPORT, "").lower() != "off"


def report_side_by_side(directories: Sequence[Path]) -> Path:
    """Write the report of several runs, and return its path.

    Raises:
        UserError: a directory holds no run, or the page cannot be written.
    """
    with _understood(*directories):
        runs = [_read(directory, None)[0] for directory in directories]
        return write_side_by_side(runs, _words(runs[0]))


def report_on(directory: Path, simulator: Simulator | None = None, play_after: float = 0.0) -> Path:
    """Write the report of a run and return its path.

    Args:
        directory: run directory.
        simulator: simulator of the run; None to build the one that its checkpoint names. A user's own is not run; what
            the checkpoint says of it is shown.
        play_after: seconds of training from which episodes of a process are played to see what happens in them.

    Raises:
        UserError: the directory holds no run, or the page cannot be written.
    """
    with _understood(directory):
        return _report_on(directory, simulator, play_after)


@contextmanager
def _understood(*directories: Path) -> Iterator[None]:
    """Turn what fails on files that no run writes into a sentence."""
    try:
        yield
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        where, reason = ", ".join(map(str, directories)), f"{type(error).__name__}: {one_line(error)}"
        raise UserError(
            f"The files of {where} contain data that no run writes ({reason}); there is no report."
        ) from error


def _report_on(directory: Path, simulator: Simulator | None, play_after: float) -> Path:
    """Write the report of a run and return its path."""
    run, checkpoint = _read(directory, simulator)
    if run_seconds(run) < play_after:
        command = f"{this_command()} --mode report --run-directory {shell_word(str(directory))}"
        run = replace(
            run, unplayed=f"After a short run no episode is played. This shows who works when on what: {command}"
        )
    elif run.simulator is not None and run.simulator.hooks.report_policies and checkpoint is not None:
        try:
            trained = load_trained_policy(checkpoint)
            seed = run.evaluation.seed if run.evaluation is not None else 0
            run = replace(run, episodes=play_episodes(run.simulator, trained, seed))
        except UserError as error:
            run = replace(run, unplayed=f"No episode was played: {error}")
    return write_report(run, _words(run))


def report_at_the_end(directory: Path, say: Say, simulator: Simulator | None, play_after: float = _SHORT_RUN) -> None:
    """Write the report after a training or an evaluation; whatever fails in it is a line, and costs the run nothing."""
    try:
        say(f"Report: {report_on(directory, simulator, play_after)}")
    except Exception as error:  # the run is saved, and a page about it must not change its exit code
        say(f"No report: {error or type(error).__name__}")


def _read(directory: Path, simulator: Simulator | None) -> tuple[RunData, Path | None]:
    """Return what a run directory holds, and the directory of its checkpoint; None where none can be read."""
    run = read_run(directory, simulator)
    if simulator is None and run.checkpoint:
        run = _described(run)
    if not run.checkpoint:
        run.notes.append("There is no checkpoint, so nothing can be played.")
    return run, directory if run.checkpoint else None


def _described(run: RunData) -> RunData:
    """Return a run with its simulator, or with what its checkpoint says of a user's own, which no report runs."""
    source = run.checkpoint.get("source")
    source = source if isinstance(source, dict) else {}
    try:
        if is_built_in(str(source.get("simulator"))):
            return replace(run, simulator=built_in_from_source(source).simulator)
    except UserError as error:
        run.notes.append(f"The simulator of the run cannot be built here: {error}")
        return run
    known = from_description(run.checkpoint.get("described"))
    lacks = "its figures are" if known else "its units, verdicts and figures are"
    run.notes.append(f"The simulator {source.get('simulator')} is not run for this page, so {lacks} missing.")
    return replace(run, simulator=known)


def _words(run: RunData) -> Words:
    return Words(this_command(), _train_command(run), _defaults())


def _train_command(run: RunData) -> str:
    """Return the command that trains a run again, empty where its settings are not known."""
    try:
        config = load_values(run.settings, str(RunDirectory(run.directory).config)) if run.settings else None
    except UserError:
        return ""
    return repeat_command(Settings(config, run.sources), Path(f"{run.directory}-again")) if config else ""


def _defaults() -> dict[str, Any]:
    return Config().model_dump()
