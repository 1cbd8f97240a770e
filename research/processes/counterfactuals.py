"""How true counterfactuals of mined scenarios are: predicted changes of the mean cycle time beside true ones.

Logs come from an engine with known truth, a Python file with ``Play``, ``write_log``, ``figures``, ``changed``,
``PROCESSES`` and ``MORE``. Each is mined; the scenario and its changes are then simulated under the logged habits. The
truth plays the changed process itself, with the same random numbers as the unchanged one.
Usage: python research/processes/counterfactuals.py ENGINE.py FOLDER [--process plain ...] [--seeds 101 102]
       [--runs 60] [--episodes 100] [--json FILE]
"""

import argparse
import importlib.util
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))

from longstride.process.changes.apply import apply_changes
from longstride.process.event_logs.event_log import EventLog
from longstride.process.fidelity.base import compare_base, logged_figures
from longstride.process.kernel.service_times import service_mean
from longstride.process.load import read_classified_log
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.options import ProcessOptions
from longstride.process.resamples.play import mean_cycle_times
from longstride.process.simulator import ProcessSimulator

CHANGES = ("people +1", "arrivals +10%", "arrivals +20%", "times -20%")
FEWEST_RUNS = 40
"""Fewest runs of the truth."""


def lunch(begin: int = 9, end: int = 17) -> list[tuple[int, int, int]]:
    """Return the hours of Monday to Friday with a break from 12 to 13."""
    return [part for day in range(5) for part in ((day, begin, 12), (day, 13, end))]


def processes(engine: ModuleType) -> dict[str, Any]:
    """Return the engine's processes and further ones; a name with ``noarrival`` is logged without arrivals."""

    def pausing() -> dict[str, Any]:
        """Nights interrupt work, and cases are submitted around the clock."""
        return engine.plain() | {"pause": True, "around_the_clock": True}

    def rests() -> dict[str, Any]:
        """Nights and lunch interrupt work."""
        made = engine.plain() | {"pause": True, "a_week": 66.0}
        for who in made["people"].values():
            who["hours"] = lunch()
        return made

    def several() -> dict[str, Any]:
        """As ``rests``, and each person has up to three tasks open."""
        made = rests()
        for who in made["people"].values():
            who["capacity"] = 3
        return made

    def urgent() -> dict[str, Any]:
        """Urgent cases come first, customers answer in days, one analyst works part-time."""
        made = engine.plain()
        plain_path = made["path"]

        def path(rng: Any, case: int) -> list[tuple[str, float]]:
            return [(a, 48.0 * rng.expovariate(1.0) if a == "Clarify" else d) for a, d in plain_path(rng, case)]

        made["people"]["analyst 5"]["hours"] = engine.full(days=(0, 1, 2))
        made["people"]["analyst 1"]["absent"] = {35, 36, 37, 38, 39, 70, 71, 72, 73, 74}
        return made | {"path": path, "urgent": 0.2, "a_week": 68.0}

    more = {"around the clock": pausing, "rests": rests, "several": several, "urgent": urgent}
    return engine.PROCESSES | {"noarrival": engine.plain} | more


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--process", nargs="+", default=[])
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102])
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    engine = load_engine(options.engine)
    rows = []
    for name in options.process or engine.PROCESSES:
        true = truth(engine, name, options.folder / f"truth of {name}.json", options.runs)
        for seed in options.seeds:
            begin = time.perf_counter()
            rows.append(measure(engine, name, seed, options) | {"true": true})
            show(rows[-1], time.perf_counter() - begin)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1) + "\n")


def load_engine(path: Path) -> ModuleType:
    """Return the engine in a file, with the further processes and whom the added person is like."""
    spec = importlib.util.spec_from_file_location("engine", path)
    assert spec and spec.loader
    engine = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(engine)
    if hasattr(engine, "plain") and hasattr(engine, "batching"):
        engine.PROCESSES = processes(engine)
    engine.MORE = {name: engine.MORE.get(name, "analyst 3") for name in engine.PROCESSES}
    return engine


def generated(engine: ModuleType, name: str, seed: int, folder: Path) -> tuple[EventLog, dict[str, str]]:
    """Return the log of a process, and its changes in words."""
    path = folder / f"{name.replace(' ', '_')}_{seed}.csv"
    made = engine.changed(name, "")
    engine.write_log(engine.Play(made, seed), path, received="noarrival" not in name)
    whom = engine.MORE[name]
    group = whom.rsplit(" ", 1)[0]
    hours = {str(who["hours"]) for person, who in made["people"].items() if person.rsplit(" ", 1)[0] == group}
    words = {  # a group of different hours does not tell whose hours the added person has
        "people +1": f"people +1 {whom if len(hours) > 1 else group}",
        "times -20%": f"times -20% {made['busy']}",
    }
    return read_classified_log(ProcessOptions(event_log=str(path))), {
        change: words.get(change, change) for change in CHANGES
    }


def truth(engine: ModuleType, name: str, path: Path, runs: int) -> list[float]:
    """Return the true changes of the mean cycle time in %, from a file if there is one.

    At most ``runs`` are played: fewer, if all standard errors are below a third of the limit before. The file has them.
    """
    if path.exists():
        found = json.loads(path.read_text())
        return list(found["changes"] if isinstance(found, dict) else found)
    key, played = "cycle_since_start" if "noarrival" in name else "cycle", list[list[float]]()
    while len(played) < runs:
        seed = 5000 + len(played)
        processes = (engine.changed(name, change) for change in ("", *CHANGES))
        played.append([engine.figures(engine.Play(made, seed))[key] for made in processes])
        changes, errors = true_changes(np.array(played))
        if len(played) >= FEWEST_RUNS and (errors < np.maximum(2.0, 0.1 * np.abs(changes)) / 3.0).all():
            break
    shown = "  ".join(f"{change:+.1f} ± {error:.1f}" for change, error in zip(changes, errors, strict=True))
    print(f"{name:17} truth of {len(played)} runs: {shown}", flush=True)
    path.write_text(json.dumps({"changes": changes.tolist(), "errors": errors.tolist(), "runs": len(played)}))
    return list(changes.tolist())


def true_changes(cycles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the changes of the mean in %, and their standard errors, float64[changes] each.

    Args:
        cycles: float64[runs, 1 + changes], mean cycle times; the first is that of the process as it is.
    """
    means = cycles.mean(0)
    ratio = means[1:] / means[0]
    spread = (
        np.std(cycles[:, 1:] - ratio * cycles[:, :1], 0, ddof=1) if len(cycles) > 1 else np.full(len(ratio), np.inf)
    )
    return 100.0 * (ratio - 1.0), 100.0 * spread / means[0] / np.sqrt(len(cycles))


def measure(engine: ModuleType, name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the logged and the simulated base and the predicted changes of one log."""
    log, words = generated(engine, name, seed, options.folder)
    mined = mine_scenario(log, name="generated")
    first, last = log.case_times()
    logged = logged_figures(log, mined.scenario, [])
    base = compare_base(ProcessSimulator(mined.scenario.model_copy(update={"logged": logged})))
    assert base is not None
    scenarios = [mined.scenario, *(apply_changes(mined.scenario, text).scenario for text in words.values())]
    cycles = [float(mean_cycle_times(scenario, range(options.episodes)).mean()) for scenario in scenarios]
    works = {(s.activity): [] for s in mined.scenario.service}
    for s in mined.scenario.service:
        works[s.activity].append(service_mean(s))
    return {
        "process": name,
        "seed": seed,
        "logged": float((last - first).mean()) / 3600.0,
        "simulated": cycles[0],
        "predicted": [100.0 * (cycle / cycles[0] - 1.0) for cycle in cycles[1:]],
        "hours": {a: round(float(np.mean(m)), 2) for a, m in works.items()},
        "misses": base.misses,
        "notes": mined.notes,
    }


def show(row: dict[str, Any], seconds: float) -> None:
    """Print the figures of a log: base, then predicted / true changes; * beyond 10 % of the true one or 2 points.

    Where the base misses its log, the figures are followed by those that differ.
    """
    pairs = "  ".join(
        f"{p:+.1f}/{t:+.1f}{'*' if abs(p - t) > max(2.0, 0.1 * abs(t)) else ''}"
        for p, t in zip(row["predicted"], row["true"], strict=True)
    )
    base = f"base {row['simulated']:.1f} h of {row['logged']:.1f}"
    judged = f"verdict withheld: {', '.join(row['misses'])}" if row["misses"] else f"hours {row['hours']}"
    print(f"{row['process']:17}{row['seed']:4} {base:24} {pairs}  {judged} ({seconds:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
