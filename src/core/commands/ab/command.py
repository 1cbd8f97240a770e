"""--mode ab: read two settings, run them in turns, compare, write ab.json."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from core.commands.ab.report import Outcome, compare, table_of
from core.commands.ab.runs import is_done, make_run, order, probe, read_pair, read_plan, run_directory
from core.commands.ab.side import OF_BOTH, Side, differing, read_side
from core.config import Config
from core.errors import UserError
from core.training.build.run_settings import load_configured
from core.training.resume import refuse_to_overwrite
from core.training.run_directory.files import write_json
from core.training.run_directory.lock import RunLock

Say = Callable[[str], None]

PAIRS = 5
RESULT = "ab.json"


@dataclass(frozen=True)
class Comparison:
    """What is compared, and where.

    Attributes:
        sides: a and b.
        seed: of both runs of the first pair; the next pair has the next one.
        directory: that holds everything.
        metrics: the main metric of each side's simulator.
        outcome: what is looked at beside the time.
    """

    sides: tuple[Side, Side]
    seed: int
    directory: Path
    metrics: tuple[str, str]
    outcome: Outcome


def read_comparison(
    a: str | None, b: str | None, config: Config, options: Mapping[str, Any], file: Path | None
) -> Comparison:
    """Read and check both sides; nothing runs yet.

    Args:
        a: flags of one side; None for none.
        b: flags of the other.
        config: of what both have in common.
        options: flags of both, lower-case names with the values of the command line.
        file: hyperparameters file of both.

    Raises:
        UserError: a flag, a value or a simulator is not right.
    """
    if a is None and b is None:
        raise UserError('--mode ab needs --a "FLAGS" or --b "FLAGS": what one side has beside the flags of both.')
    if not config.run_directory:
        raise UserError("--mode ab needs --run-directory DIR, where its runs and ab.json go.")
    common = {name: value for name, value in options.items() if name not in OF_BOTH}
    sides = read_side("a", a or "", file, common), read_side("b", b or "", file, common)
    first, second = (load_configured(side.config).simulator for side in sides)
    metrics = (first.main_metric, second.main_metric)
    same = metrics[0] == metrics[1] and first.main_metric_lower_is_better == second.main_metric_lower_is_better
    outcome = Outcome(metrics[0] if same else "", first.main_metric_lower_is_better)
    return Comparison(sides, config.seed, Path(config.run_directory), metrics, outcome)


def run_ab(comparison: Comparison, pairs: int, console: Console, say: Say) -> Path:
    """Make the runs that are not there yet, print what they say, and return the path of ab.json.

    Args:
        comparison: what is compared.
        pairs: how many runs of each side, >= 1.
        console: for the table.
        say: prints a line.

    Raises:
        UserError: a run failed, or the directory holds something else.
    """
    if pairs < 1:
        raise UserError(f"--pairs: {pairs} should be 1 or more.")
    if comparison.directory.exists() and not comparison.directory.is_dir():
        raise UserError(f"{comparison.directory} is a file; --run-directory needs a folder.")
    lock = RunLock(comparison.directory)
    try:
        _begin(comparison, pairs, say)
        result = _make_pairs(comparison, pairs, say)
    except KeyboardInterrupt:
        say("Finished runs are kept: the same command goes on after them.")
        raise
    finally:
        lock.release(abandon=True)
    console.print(table_of(result))
    for line in result["sentences"]:
        say(line)
    return comparison.directory / RESULT


def _begin(comparison: Comparison, pairs: int, say: Say) -> None:
    """Say what will happen, and take the directory for this comparison.

    Raises:
        UserError: it holds another comparison or a run, or a side cannot run here.
    """
    directory, path = comparison.directory, comparison.directory / RESULT
    if path.exists():
        _require_same(comparison, path)
    refuse_to_overwrite(directory)
    a, b = (side.config for side in comparison.sides)
    differences = differing(a, b)
    for name, (first, second) in differences.items():
        say(f"{name}: {first!r} (A), {second!r} (B).")
    if not differences:
        say("A and B are the same settings: their ratio shows what this machine's noise does.")
    missing = [
        (side, pair) for pair in range(1, pairs + 1) for side in comparison.sides if not is_done(side, pair, directory)
    ]
    say(f"{2 * pairs} runs, {2 * pairs - len(missing)} of them made before.")
    for side in comparison.sides if missing else ():
        probe(side, directory)
    if not path.exists():
        write_json(path, _settings(comparison))


def _make_pairs(comparison: Comparison, pairs: int, say: Say) -> dict[str, Any]:
    """Make each pair, and write ab.json after each; return the comparison of all."""
    directory, done, result = comparison.directory, [], {}
    for pair in range(1, pairs + 1):
        seed = comparison.seed + pair - 1
        for side in sorted(comparison.sides, key=lambda side: order(pair).index(side.name)):
            if not is_done(side, pair, directory):
                say(f"Pair {pair} of {pairs}: {side.name.upper()} ...")
                make_run(side, pair, seed, directory)
        done.append(read_pair(*comparison.sides, pair, seed, directory, comparison.metrics))
        result = compare(done, comparison.outcome)
        machine = read_plan(run_directory(comparison.sides[0], 1, directory))["machine"]
        content = {**_settings(comparison), "machine": machine, "runs": done, "comparison": result}
        write_json(directory / RESULT, content)
    return result


def _settings(comparison: Comparison) -> dict[str, Any]:
    """Return JSON values that say which comparison this is."""
    sides: dict[str, Any] = {
        side.name: {"flags": side.text, "values": side.config.model_dump(exclude=set(OF_BOTH))}
        for side in comparison.sides
    }
    return {**sides, "seed": comparison.seed}


def _require_same(comparison: Comparison, path: Path) -> None:
    """Check that ab.json is of this comparison, so that its runs count.

    Raises:
        UserError: it is not, or it is damaged.
    """
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        seen = [before["a"]["values"], before["b"]["values"], before["seed"]]
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path} is damaged; name another --run-directory, or remove that one.") from None
    now = json.loads(json.dumps(_settings(comparison)))
    if seen != [now["a"]["values"], now["b"]["values"], now["seed"]]:
        raise UserError(
            f"{path} is of other settings; repeat its flags to go on with it, or name another --run-directory."
        )
