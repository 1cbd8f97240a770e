"""The trainings of a sweep, each in a fresh process and a run directory of its own."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from longstride.commands.comparison_folder import train_anew
from longstride.setting_flags import flags_of
from longstride.training.run_directory.files import write_json
from longstride.training.run_directory.metrics_log import NewRecords, whole_records
from longstride.training.run_directory.read_json import read_json

_PHASES = ("simulation_seconds", "transfer_seconds", "update_seconds")

Records = list[dict[str, Any]]


@dataclass(frozen=True)
class CommonSettings:
    """What all trainings of a sweep have in common."""

    file: Path | None  # hyperparameters file; None for the defaults alone
    options: dict[str, Any]  # lower-case names with the values of the command line
    evaluate_every: int  # iterations from one evaluation to the next; NO_LIMIT for the last one alone
    metric: str  # main metric of the simulator

    def flags(self, values: Mapping[str, Any]) -> list[str]:
        """Return the flags of a training with some settings changed, but for what only concerns the sweep."""
        file = ["--hyperparameters", str(self.file)] if self.file else []
        return [*file, *flags_of({**self.options, **values})]

    def arguments(self, values: Mapping[str, Any], seed: int, directory: Path) -> list[str]:
        """Return the arguments of a training."""
        own = {"seed": str(seed), "evaluate_every": str(self.evaluate_every), "run_directory": str(directory)}
        return ["--mode", "train", *self.flags({**values, **own}), "--no-report"]


class Result(NamedTuple):
    """What became of a training."""

    score: float | None  # main metric of the greedy policy at the end; None where there is none
    seconds: float  # seconds of training, without start and evaluations
    steps: int  # environment steps
    took: float  # seconds of its process
    error: str = ""  # why it failed; empty where it did not


_RESULT = TypeAdapter(Result)


class Training(NamedTuple):
    """A training of a sweep."""

    settings: CommonSettings
    values: Mapping[str, Any]  # settings that are its own
    seed: int
    directory: Path  # run directory; the log is beside it

    @property
    def log(self) -> Path:
        """The file with its output."""
        return self.directory.with_name(f"{self.directory.name}.log")

    def run(self, stop: Callable[[Records], bool] | None = None) -> Result:
        """Train, from the beginning; ``stop`` sees new records, once a second, and says whether to end it.

        Raises:
            UserError: another process still trains in its folder.
        """
        new, arguments = NewRecords(self.directory), self.settings.arguments(self.values, self.seed, self.directory)
        watch = None if stop is None else lambda: stop(new.read())
        error, took = train_anew(self.directory, arguments, self.log, watch)
        records = whole_records(self.directory)
        score = _score(records, self.settings.metric)
        if not error and (score is None or not math.isfinite(score)):
            error = f"Its evaluation has {score} as {self.settings.metric}, which is not a score."
        seconds = sum(float(record[phase]) for record in records for phase in _PHASES)
        return Result(score, seconds, sum(record["steps"] for record in records), took, error)

    def run_once(self) -> Result:
        """Train unless that was done before: the result is kept in a file beside the run directory.

        Raises:
            UserError: another process still trains in its folder.
        """
        file = self.directory.with_name(f"{self.directory.name}.json")
        try:
            return _RESULT.validate_python(read_json(file))
        except (OSError, ValueError, TypeError):
            result = self.run()
        if not result.error:
            write_json(file, result._asdict())
        return result


def share_done(record: dict[str, Any], planned: int | None) -> float:
    """Return the share of a run that is over after a record, 0 .. 1; 0 where it is not known."""
    return float(record.get("share_done") or (record["iteration"] / planned if planned else 0.0))


def parts_done(records: Records, planned: int | None, metric: str, parts: int) -> dict[int, float]:
    """Return the score at the end of each part of a training that is over, by number of the part from 1.

    The score is that of the last evaluation so far, else the mean over the episodes of the part, which are played with
    sampled actions; that of the part before where none ended. ``planned``: iterations of the whole run.
    """
    scores: dict[int, float] = {}
    known, judged, since = None, False, list[float]()
    for record in records:
        share = share_done(record, planned)
        played = record["return"] if metric == "return" else record["metrics"].get(metric)
        since += [] if played is None else [float(played)]
        over = [part for part in range(1, parts) if part not in scores and part <= parts * share + 1e-9]
        if (evaluated := _score([record], metric)) is not None:
            known, judged = evaluated, True
        elif since and over and not judged:
            known, since = fmean(since), []
        scores |= {} if known is None else dict.fromkeys(over, known)
    return scores


def _score(records: Records, metric: str) -> float | None:
    """Return the metric's mean in a run's last evaluation."""
    evaluations = [record["evaluation"]["metrics"] for record in records if record.get("evaluation")]
    value = evaluations[-1].get(metric) if evaluations else None
    return None if value is None else float(value["mean"])
