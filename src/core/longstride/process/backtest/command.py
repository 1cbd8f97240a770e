"""--mode backtest: mines the first part of a log, predicts the rest of it, and says what that tells."""

from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from longstride.errors import UserError
from longstride.hardware.cpu import detect_cores
from longstride.own_files.marker import mark_folder
from longstride.process.backtest.change_points import ChangePoint, change_points
from longstride.process.backtest.content import HEADERS, Changed, as_json, days, markdown, rows, trust
from longstride.process.backtest.parts import cut, date_of
from longstride.process.backtest.predict import Playing, Prediction, predict
from longstride.process.event_logs.event_log import EventLog
from longstride.process.load import read_classified_log
from longstride.process.options import options_of
from longstride.process.resamples.play import FEWEST
from longstride.settings import Settings
from longstride.terminal import print_table
from longstride.text import Say
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.files import write_atomically, write_json
from longstride.training.run_directory.ownership import (
    require_page_replaceable,
    require_replaceable,
    require_run_directory,
)

_DAY = 86_400.0
_LEAST, _MOST = 0.2, 0.9
"""Least and largest share of the log's time that is mined."""


@dataclass(frozen=True)
class BacktestOptions:
    """Options of the command line that are not settings."""

    log: str | None = None  # log to backtest; None for that of the settings
    share: float = 0.7  # share of the log's time that is mined
    resamples: int = 20  # resamples of the mined part for the intervals; 0 for none


def run_backtest(settings: Settings, options: BacktestOptions, console: Console, say: Say) -> int:
    """Backtest a log, print and write the result, and return the exit code.

    Raises:
        UserError: an option is not valid, or the log cannot be read, or is too short.
    """
    config = settings.config
    path = Path(_log_of(settings, options))
    if not _LEAST <= options.share <= _MOST:
        raise UserError(f"--share is {options.share:g}; expected a share of the log's time from {_LEAST} to {_MOST}.")
    if options.resamples and options.resamples < FEWEST:
        raise UserError(f"--resamples is {options.resamples}; expected 0, or {FEWEST} or more.")
    directory = RunDirectory(config.run_directory or ".")
    if config.run_directory:
        require_run_directory(directory.path)
    require_replaceable(directory.backtest, ("figures", "changes"))
    require_page_replaceable(directory.backtest_report, b"# Backtest of ")
    say(f"Reading {path.name}.")
    log = read_classified_log(replace(options_of(config), event_log=str(path)))
    first, last = log.case_times()
    begin, end = float(first.min()), float(last.max())
    moment = begin + options.share * (end - begin)
    threads = config.simulation_threads or detect_cores().usable
    playing = Playing(config.evaluation_episodes, options.resamples, config.seed, threads)
    parts = cut(log, moment)
    day = date_of(log, moment)
    said = [
        f"Mined: {len(parts.before.cases):,} cases that ended by {day}, {days((moment - begin) / _DAY)}. Predicted: "
        f"{int(parts.counted.sum()):,} cases that started from then on, {days((end - moment) / _DAY)}, with the "
        "arrivals and the staff as they were there."
    ]
    say(said[0])
    if log.classes is not None:
        names = " and ".join(log.classes.names)
        said.append(f"Classes of cases: {names}. The whole log, not the mined part alone, decides on classes.")
        say(said[-1])
    found, _ = predict(parts, playing, say)
    changes = [_changed(log, points, at, playing, say) for at, points in _together(change_points(log))]
    said += [change.sentence() for change in changes]
    said.append(trust(found, changes, config.log_tolerance))
    if config.run_directory:
        mark_folder(directory.path, "run")
    about = {"log": str(path), "share": options.share, "cut": day, "seed": config.seed, **_played(playing)}
    write_json(directory.backtest, as_json(about, found, changes, said))
    title = f"Backtest of {path.name}"
    write_atomically(directory.backtest_report, markdown(title, found, said).encode())
    print_table(title, HEADERS, rows(found), console, texts=(0, len(HEADERS) - 1))
    for sentence in said[1:]:
        say(sentence)
    say(f"Written to {directory.backtest} and {directory.backtest_report.name}.")
    return 0


def _log_of(settings: Settings, options: BacktestOptions) -> str:
    """Return the log that the command line names."""
    named = settings.config.event_log
    if options.log and settings.is_flag("event_log"):
        raise UserError("The log is named twice; leave out --event-log.")
    if not options.log and not named:
        raise UserError("--mode backtest needs a log: longstride backtest my_log.csv.")
    return options.log or named


def _played(playing: Playing) -> dict[str, int]:
    return {"episodes": playing.episodes, "resamples": playing.resamples}


def _together(points: list[tuple[ChangePoint, float]]) -> list[tuple[float, list[ChangePoint]]]:
    """Return moments with their change points; those of one or two successive weeks are one change."""
    found: list[tuple[float, list[ChangePoint]]] = []
    for point, at in sorted(points, key=lambda each: each[1]):
        if found and at - found[-1][0] <= 7.5 * _DAY:
            found[-1][1].append(point)
        else:
            found.append((at, [point]))
    return found


def _changed(log: EventLog, points: list[ChangePoint], at: float, playing: Playing, say: Say) -> Changed:
    """Return a change of the log with the prediction from the part before it."""
    day = date_of(log, at)
    say(f"A change point of {' and '.join(point.what for point in points)}: {day}.")
    try:
        prediction: Prediction | None = predict(cut(log, at), playing, say)[1]
    except UserError as error:
        return Changed(points, day, None, str(error).rstrip("."))
    return Changed(points, day, prediction)
