"""The runs of a comparison: made once, each in its folder, and kept when the command is given again.

Each runs in a fresh process: it starts as a user's would, with nothing left from the one before.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from longstride.commands.ab.report import Records, played_the_same, run_figures
from longstride.commands.ab.side import Side
from longstride.commands.comparison_folder import train_anew
from longstride.commands.fresh_process import last_words, run_fresh
from longstride.errors import UserError
from longstride.training.run_directory.files import write_json
from longstride.training.run_directory.metrics_log import whole_records
from longstride.training.run_directory.read_json import OBJECT, PLAN, read_json


@dataclass(frozen=True)
class SideRun:
    """The run of one side in one pair."""

    side: Side
    pair: int  # number of the pair, from 1
    seed: int
    comparison: Path  # folder of the comparison

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self.comparison / f"pair-{self.pair}" / self.side.name

    @property
    def result_file(self) -> Path:
        """The file that exists once the run has ended well."""
        return self.directory.with_suffix(".json")

    @property
    def done(self) -> bool:
        """Whether the run has ended well."""
        return self.result_file.is_file()

    def train(self) -> None:
        """Train in a fresh process; the rest of an interrupted attempt is removed, because its times are spoilt.

        Raises:
            UserError: the run failed, or another process still trains in its folder.
        """
        log = self.directory.with_suffix(".log")
        arguments = self.side.arguments("train", self.directory, seed=str(self.seed))
        error, seconds = train_anew(self.directory, arguments, log)
        if error:
            failed = f"Side {self.side.name.upper()} failed in pair {self.pair}"
            raise UserError(f"{failed}: {error} All of it: {log}.")
        write_json(self.result_file, {"arguments": arguments, "seconds": seconds})

    def plan(self) -> dict[str, Any]:
        """Return the content of the run's plan.json."""
        return _read(self.directory / "plan.json", PLAN)

    def read(self, metric: str) -> tuple[dict[str, Any], Records]:
        """Return the figures and the records of a finished run of a simulator with this main metric.

        Raises:
            UserError: the run has no iteration that counts.
        """
        records = whole_records(self.directory)
        if len(records) < 2:
            raise UserError(
                f"Side {self.side.name.upper()} has {len(records)} iteration(s) in pair {self.pair}, and the first one "
                "warms up; let it train for longer."
            )
        seconds = float(_read(self.result_file)["seconds"])
        return run_figures(records, seconds, metric, self.plan()["batch_size"]), records


def _read(path: Path, shape: TypeAdapter[Any] = OBJECT) -> dict[str, Any]:
    """Return the content of a file of a finished run.

    Raises:
        UserError: it is missing or damaged.
    """
    try:
        content = read_json(path, shape)
        if shape is OBJECT:
            float(content["seconds"])
        else:
            content["batch_size"], content["machine"]
    except (OSError, ValueError, TypeError, KeyError):
        raise UserError(f"{path} is missing or damaged; remove {path.parent} to make the pair again.") from None
    return content


def probe(side: Side, directory: Path) -> None:
    """Plan a side in a fresh process, which finds what this machine or simulator will refuse.

    Raises:
        UserError: the plan is refused; the message is its own.
    """
    folder = directory / "plans"
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{side.name}.log"
    code, _ = run_fresh(side.arguments("plan", folder / side.name, time_budget=""), log)
    if code:
        raise UserError(f"--{side.name}: {last_words(code, log)}")


def read_pair(a: SideRun, b: SideRun, metrics: tuple[str, str]) -> dict[str, Any]:
    """Return JSON values about a finished pair, from the main metric of each side's simulator.

    Raises:
        UserError: a run has no iteration that counts.
    """
    (figures_a, records_a), (figures_b, records_b) = a.read(metrics[0]), b.read(metrics[1])
    same = played_the_same(records_a, records_b)
    return {"seed": a.seed, "first": order(a.pair)[0], "a": figures_a, "b": figures_b, "played_the_same": same}


def order(pair: int) -> str:
    """Return which side runs first in a pair: they alternate, so that a machine that slows down favours neither."""
    return "ab" if pair % 2 else "ba"
