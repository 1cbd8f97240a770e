"""--mode ab: read two settings, run them in alternation, compare, write ab.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from longstride.commands.ab.report import CommonMetric, compare, table_of
from longstride.commands.ab.runs import SideRun, order, probe, read_pair
from longstride.commands.ab.side import OF_BOTH, Side, differing, read_side
from longstride.commands.comparison_folder import ComparisonFolder
from longstride.config import Config
from longstride.errors import UserError
from longstride.text import Say
from longstride.training.assembly.run_settings import load_configured
from longstride.training.run_directory.directory import choose_directory

PAIRS = 5
RESULT = "ab.json"


@dataclass(frozen=True)
class Comparison:
    """Two settings to compare, and where."""

    sides: tuple[Side, Side]  # A and B
    seed: int  # seed of both runs of the first pair; each further pair has the next one
    directory: Path  # folder of the comparison
    metrics: tuple[str, str]  # main metric of each side's simulator
    common_metric: CommonMetric  # main metric of both sides

    def runs(self, pair: int) -> tuple[SideRun, SideRun]:
        """Return the runs of A and B in a pair, counted from 1."""
        a, b = (SideRun(side, pair, self.seed + pair - 1, self.directory) for side in self.sides)
        return a, b

    @property
    def folder(self) -> ComparisonFolder:
        """The folder of the comparison."""
        sides: dict[str, Any] = {
            side.name: {"flags": side.text, "values": side.config.model_dump(exclude=set(OF_BOTH))}
            for side in self.sides
        }
        file, identity = self.directory / RESULT, {**sides, "seed": self.seed}
        return ComparisonFolder(self.directory, "comparison", file, identity, _compared, "other settings", "runs")


def read_comparison(
    a: str | None, b: str | None, config: Config, options: Mapping[str, Any], file: Path | None
) -> Comparison:
    """Read and check both sides; nothing runs yet. Settings, flags (``options``) and file are those of both.

    Raises:
        UserError: a flag, a value or a simulator is not right.
    """
    if a is None and b is None:
        raise UserError(
            '--mode ab needs --a "FLAGS" or --b "FLAGS": the flags that one side has in addition to those of both.'
        )
    if not config.run_directory:
        raise UserError("--mode ab needs --run-directory DIR, where its runs and ab.json go.")
    directory = choose_directory(config.run_directory, "ab").path
    common = {name: value for name, value in options.items() if name not in OF_BOTH}
    sides = read_side("a", a or "", file, common), read_side("b", b or "", file, common)
    first, second = (load_configured(side.config).simulator for side in sides)
    metrics = (first.main_metric, second.main_metric)
    same = metrics[0] == metrics[1] and first.main_metric_lower_is_better == second.main_metric_lower_is_better
    common_metric = CommonMetric(metrics[0] if same else "", first.main_metric_lower_is_better)
    return Comparison(sides, config.seed, directory, metrics, common_metric)


def run_ab(comparison: Comparison, pairs: int, console: Console, say: Say) -> Path:
    """Make the missing runs of each side, print the report, and return the path of ab.json.

    Raises:
        UserError: a run failed, or the directory holds something else.
    """
    if pairs < 1:
        raise UserError(f"--pairs: {pairs} should be 1 or more.")
    with comparison.folder.held(say):
        _begin(comparison, pairs, say)
        result = _make_pairs(comparison, pairs, say)
    console.print(table_of(result))
    for line in result["sentences"]:
        say(line)
    return comparison.directory / RESULT


def _begin(comparison: Comparison, pairs: int, say: Say) -> None:
    """Announce the comparison, and write down what it compares."""
    differences = differing(*(side.config for side in comparison.sides))
    for name, (first, second) in differences.items():
        say(f"{name}: {first!r} (A), {second!r} (B).")
    if not differences:
        say("A and B are the same settings: their ratio shows what this machine's noise does.")
    done = sum(run.done for pair in range(1, pairs + 1) for run in comparison.runs(pair))
    say(f"{2 * pairs} runs, {done} of them made before.")
    if done < 2 * pairs:
        for side in comparison.sides:
            probe(side, comparison.directory)
    if not comparison.folder.result.exists():
        comparison.folder.write()


def _make_pairs(comparison: Comparison, pairs: int, say: Say) -> dict[str, Any]:
    """Make each pair, and write ab.json after each; return the comparison of all."""
    finished, result = [], {}
    for pair in range(1, pairs + 1):
        a, b = comparison.runs(pair)
        for run in (a, b) if order(pair) == "ab" else (b, a):
            if not run.done:
                say(f"Pair {pair} of {pairs}: {run.side.name.upper()} ...")
                run.train()
        finished.append(read_pair(a, b, comparison.metrics))
        result = compare(finished, comparison.common_metric)
        machine = comparison.runs(1)[0].plan()["machine"]
        comparison.folder.write(machine=machine, runs=finished, comparison=result)
    return result


def _compared(content: dict[str, Any]) -> list[Any]:
    return [content["a"]["values"], content["b"]["values"], content["seed"]]
