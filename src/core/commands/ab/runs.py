"""The runs of a comparison: made once, each in its folder, and kept when the command is given again."""

import json
import shutil
from pathlib import Path
from typing import Any

from core.commands.ab.processes import last_words, run_fresh
from core.commands.ab.run_metrics import Records, figures_of, played_the_same
from core.commands.ab.side import Side
from core.errors import UserError
from core.training.run_directory.files import write_json
from core.training.run_directory.lock import RunLock
from core.training.run_directory.metrics_log import read_metrics


def probe(side: Side, directory: Path) -> None:
    """Plan a side in a fresh process, which finds what this machine or simulator will refuse.

    Raises:
        UserError: it does, with what it said.
    """
    folder = directory / "plans"
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{side.name}.log"
    code, _ = run_fresh(side.arguments("plan", folder / side.name, time_budget=""), log)
    if code:
        raise UserError(f"--{side.name}: {last_words(code, log)}")


def is_done(side: Side, pair: int, directory: Path) -> bool:
    """Return whether a side's run of a pair has ended well."""
    return _mark(side, pair, directory).is_file()


def make_run(side: Side, pair: int, seed: int, directory: Path) -> None:
    """Train in a fresh process; what an interrupted attempt left is made anew, because its times are spoilt.

    Args:
        side: that is trained.
        pair: its number, from 1.
        seed: of the run.
        directory: of the comparison.

    Raises:
        UserError: the run failed, or another process still trains in its folder.
    """
    run, mark = run_directory(side, pair, directory), _mark(side, pair, directory)
    if run.exists():
        RunLock(run).release()
        shutil.rmtree(run)
    run.parent.mkdir(parents=True, exist_ok=True)
    log = mark.with_suffix(".log")
    arguments = side.arguments("train", run, seed=str(seed))
    code, seconds = run_fresh(arguments, log)
    if code:
        raise UserError(f"Side {side.name.upper()} failed in pair {pair}: {last_words(code, log)} All of it: {log}.")
    write_json(mark, {"arguments": arguments, "seconds": seconds})


def read_pair(a: Side, b: Side, pair: int, seed: int, directory: Path, metrics: tuple[str, str]) -> dict[str, Any]:
    """Return JSON values about a finished pair.

    Args:
        a: one side.
        b: the other.
        pair: its number, from 1.
        seed: of both runs.
        directory: of the comparison.
        metrics: the main metric of each side's simulator.

    Raises:
        UserError: a run has no round that counts.
    """
    sides = {side.name: _read_run(side, pair, directory, metric) for side, metric in zip((a, b), metrics, strict=True)}
    return {
        "seed": seed,
        "first": order(pair)[0],
        **{name: figures for name, (figures, _) in sides.items()},
        "played_the_same": played_the_same(sides["a"][1], sides["b"][1]),
    }


def _read_run(side: Side, pair: int, directory: Path, metric: str) -> tuple[dict[str, Any], Records]:
    run = run_directory(side, pair, directory)
    records = read_metrics(run)
    if len(records) < 2:
        raise UserError(
            f"Side {side.name.upper()} has {len(records)} round(s) in pair {pair}, and the first one warms up; let it "
            "train for longer."
        )
    seconds = json.loads(_mark(side, pair, directory).read_text(encoding="utf-8"))["seconds"]
    return figures_of(records, seconds, metric, read_plan(run)), records


def read_plan(run: Path) -> dict[str, Any]:
    """Return what plan.json of a run says."""
    return dict(json.loads((run / "plan.json").read_text(encoding="utf-8")))


def order(pair: int) -> str:
    """Return which side goes first in a pair: they take turns, so that a machine that slows down favours neither."""
    return "ab" if pair % 2 else "ba"


def run_directory(side: Side, pair: int, directory: Path) -> Path:
    """Return the run directory of a side in a pair."""
    return directory / f"pair-{pair}" / side.name


def _mark(side: Side, pair: int, directory: Path) -> Path:
    return directory / f"pair-{pair}" / f"{side.name}.json"
