"""Trainings of a search, each in a fresh process and a run directory of its own; one that was killed is resumed."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longstride.commands.comparison_folder import train_anew
from longstride.commands.fresh_process import last_words, run_fresh
from longstride.commands.sweep.runs import share_done
from longstride.config import PROCESS_OPTIONS
from longstride.errors import UserError
from longstride.setting_flags import flags_of
from longstride.settings import Settings
from longstride.text import Say, counted, format_duration
from longstride.training.assembly.run_settings import values_of_a_run
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.files import write_json
from longstride.training.run_directory.metrics_log import NewRecords, whole_records
from longstride.training.run_directory.read_json import read_json

_PHASES = ("simulation_seconds", "transfer_seconds", "update_seconds")
_LENGTHS = ("training_episodes", "total_steps", "time_budget", "preset")
_REPLACED = {*PROCESS_OPTIONS, "simulator", "simulator_options", "run_directory", "objective"} - {"policy_prior"}
"""Settings of a training that the search sets, or that are in the scenario that it writes."""

_PARTS = 4
"""Parts of a training after which a line says how far it is."""

_FEW = 5
"""Iterations below which a training that its time ends is reported."""

TRAINING_SHARE = 0.9
"""Share of the time for trainings that their processes spend after their start."""


@dataclass(frozen=True)
class Trainings:
    """What the trainings of a search have in common."""

    flags: list[str]  # words of a command line
    seconds: float | None  # time of them together, over all calls; None for no limit
    has_length: bool  # whether settings say how long a training is

    def arguments(self, scenario: Path, count: int, more: Mapping[str, str]) -> list[str]:
        """Return the command line of one of ``count`` trainings on a scenario file, without its run directory."""
        values = {"scenario": str(scenario), **more}
        if self.seconds is not None and not self.has_length:
            values["time_budget"] = f"{max(1, round(TRAINING_SHARE * self.seconds / count))}s"
        return ["--mode", "train", "--no-report", *self.flags, *flags_of(values)]

    def has_time(self, spent: float, done: int) -> bool:
        """Return whether there is time for another training after ``done`` of them have taken ``spent`` seconds."""
        return self.seconds is None or not self.has_length or spent + spent / max(done, 1) <= self.seconds

    def short(self, directories: Iterable[str]) -> list[str]:
        """Return a sentence about trainings whose time ended early; none if settings say their length."""
        if self.seconds is None or self.has_length:
            return []
        done = {Path(directory).name: len(whole_records(Path(directory))) for directory in directories}
        few = [f"{name} {counted(count, 'iteration')}" for name, count in done.items() if count < _FEW]
        return [
            f"Hardly trained, since starting and compiling took most of the time: {', '.join(few)}. More --minutes in "
            "a new --run-directory train longer."
        ] * bool(few)


def common_trainings(
    settings: Settings, options: Mapping[str, Any], file: Path | None, seconds: float | None
) -> Trainings:
    """Return the common part of trainings with the settings of a command: its file, and the flags in ``options``."""
    kept = {name: value for name, value in options.items() if name not in _REPLACED}
    # What a file says of the process is in the scenario that the search writes.
    blank = {n: "" for n in ("event_log", "due", "cost", "target", "main_metric") if settings.sources.get(n) == "file"}
    named = ["--hyperparameters", str(file)] if file else []
    has_length = any(settings.is_chosen(name) for name in _LENGTHS)
    return Trainings([*named, *flags_of({**blank, **kept})], seconds, has_length)


def train_once(directory: Path, arguments: list[str], say: Say) -> float:
    """Train unless that was done before, or finish what was interrupted; return the seconds that it took.

    A file beside the run directory says that it is done.

    Raises:
        UserError: the training fails or has no time for an iteration, or another process trains there.
    """
    done = directory.with_name(f"{directory.name}.json")
    with suppress(OSError, ValueError, TypeError, KeyError):
        return float(read_json(done)["seconds"])
    log, own = directory.with_name(f"{directory.name}.log"), ["--run-directory", str(directory)]
    watch = _Watch(directory, say)
    if RunDirectory(directory).holds_run():
        say(f"  resuming {directory}")
        resume = ["--mode", "train", "--resume", "--no-report", *own]
        code, seconds = run_fresh(resume, log, watch.stop)
        error = last_words(code, log) if code else ""
    else:
        error, seconds = train_anew(directory, [*arguments, *own], log, watch.stop)
    if error:
        raise UserError(f"The training in {directory} failed: {error} All of it: {log}.")
    if not RunDirectory(directory).holds_run():
        raise UserError(
            f"The training in {directory} had no time for an iteration; the same command with more --minutes "
            "continues. What was done before is kept."
        )
    trained = sum(float(record[phase]) for record in whole_records(directory) for phase in _PHASES)
    seconds = max(seconds, trained)
    write_json(done, {"seconds": seconds})
    return seconds


class _Watch:
    """Says how far a training is."""

    def __init__(self, directory: Path, say: Say) -> None:
        self._directory, self._say = directory, say
        self._new, self._said, self._seconds = NewRecords(directory), 0, 0.0

    def stop(self) -> bool:
        """Take note of new records, and never stop."""
        records = self._new.read()
        self._seconds += sum(float(record[phase]) for record in records for phase in _PHASES)
        if records:
            share = share_done(records[-1], values_of_a_run(RunDirectory(self._directory)).get("training_episodes"))
            part = int(_PARTS * share + 1e-9)
            if self._said < part < _PARTS:
                self._said = part
                self._say(f"  {100 * part // _PARTS} % after {format_duration(self._seconds)} of training")
        return False
