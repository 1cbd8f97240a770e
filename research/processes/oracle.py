"""The floor of the log's size: what a miner reaches that knows the form of a process and estimates its values alone.

The processes are those of ``unusual.py``. Each seed has a log; from its cases the generator's own values are estimated
by maximum likelihood: the rate of arrivals, the mean time of each activity, the probability of a repetition, the
amounts. The form is known: hours, skills, order of service, distributions. The engine then plays the process with these
values and its changes, and the true process with the same random numbers; the difference is the oracle's error, which
has the printed standard error. With ``--predicted``, predictions of ``counterfactuals.py`` for the same logs follow.
Usage: python research/processes/oracle.py FOLDER [--process rework ...] [--seeds 11 12 13] [--runs 30]
       [--predicted JSON] [--json FILE]           # FOLDER has the truth of counterfactuals.py, or gets it
"""

import argparse
import json
import math
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

import unusual
from counterfactuals import CHANGES, truth

FIRST_SEED, MOST = 5000, 1.5
"""Seed of the first run, and the rate at which arrivals are drawn, in true ones."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--process", nargs="+", default=list(unusual.PROCESSES), choices=list(unusual.PROCESSES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13])
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--predicted", type=Path, help="what counterfactuals.py --json wrote")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = json.loads(options.predicted.read_text()) if options.predicted else []
    predicted = {(row["process"], row["seed"]): row["predicted"] for row in rows}
    found = []
    for name in options.process:
        true = np.array(truth(unusual, name, options.folder / f"truth of {name}.json", 300))
        played = cycles(name, options.runs)
        of_process = []
        for seed in options.seeds:
            values = estimated(name, seed)
            error, noise = difference(cycles(name, options.runs, **values), played)
            row = {"process": name, "seed": seed, "true": true.tolist(), "oracle": (true + error).tolist()}
            row |= {"noise": noise.tolist(), "predicted": predicted.get((name, seed)), "values": shown(values)}
            of_process.append(row)
            noises = " ".join(f"{part:.1f}" for part in noise)
            print(f"{name:12}{seed:4}  {in_signs(true + error, true)}  ± {noises}  {shown(values)}", flush=True)
        found += of_process
        summary(name, of_process)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n")


def estimated(name: str, seed: int) -> dict[str, Any]:
    """Return the values of a process by maximum likelihood from a log.

    A log shows the work of each task exactly, since the hours of people are known, and how they share their time. The
    rounding to whole minutes is left out.
    """
    made = unusual.changed(name, "")
    cases, by_amount = unusual.draw(made, seed)[1], made.get("order") == "amount"
    work: dict[str, list[float]] = {activity: [] for activity in made["work"]}
    rounds: Counter[tuple[int, bool]] = Counter()
    for case in cases:
        for (activity, _), luck in zip(case["tasks"], case["luck"], strict=True):
            work[activity].append(made["work"][activity] * luck / (case["amount"] if by_amount else 1.0))
        last = sum(activity == "Clarify" for activity, _ in case["tasks"])
        rounds.update((i, i < last) for i in range(last + 1))
    values: dict[str, Any] = {"a_week": len(cases) / unusual.WEEKS}
    values["work"] = {activity: statistics.fmean(times) for activity, times in work.items()}
    if "again" in made and name != "branches":
        values["again"] = repetition(rounds, made["fewer"])
    if by_amount:
        logs = [math.log(case["amount"]) for case in cases]
        values["amounts"] = (statistics.fmean(logs), statistics.pstdev(logs))
    return values


def repetition(rounds: Counter[tuple[int, bool]], fewer: float) -> float:
    """Return the likeliest probability of a first repetition, if each repetition divides it by ``fewer``.

    ``rounds`` has how often a case was or was not repeated after so many repetitions. The likelihood's derivative,
    sum of n / a - sum of m / (fewer^i - a) with n repetitions and m ends after i, falls with a; its zero is bisected.
    """
    low, high = 1e-9, 1.0 - 1e-9
    for _ in range(60):
        a = (low + high) / 2.0
        slope = sum(n / a if repeated else -n / (fewer**i - a) for (i, repeated), n in rounds.items())
        low, high = (a, high) if slope > 0.0 else (low, a)
    return low


def cycles(name: str, runs: int, **values: Any) -> np.ndarray:
    """Return float64[runs, 1 + changes], mean cycle times of a process, first as it is, then with each change."""
    values["most"] = MOST * unusual.changed(name, "")["a_week"]
    processes = [unusual.changed(name, change, **values) for change in ("", *CHANGES)]
    seeds = range(FIRST_SEED, FIRST_SEED + runs)
    return np.array([[unusual.figures(unusual.Play(made, seed))["cycle"] for made in processes] for seed in seeds])


def difference(played: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how far the changes of a process are from the true ones, in points, and the standard errors of that."""
    parts, changes = [], []
    for of in (played, true):
        means = of.mean(0)
        ratio = means[1:] / means[0]
        changes.append(100.0 * ratio)
        parts.append(100.0 * (of[:, 1:] - ratio * of[:, :1]) / means[0])
    return changes[0] - changes[1], np.std(parts[0] - parts[1], 0, ddof=1) / math.sqrt(len(true))


def within(changes: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Return whether each change is within 2 points or 10 % of the true one."""
    return np.asarray(abs(changes - true) <= np.maximum(2.0, 0.1 * abs(true)))


def in_signs(changes: np.ndarray, true: np.ndarray) -> str:
    """Return changes beside the true ones, with a star beyond the limit."""
    held = within(changes, true)
    return "  ".join(f"{c:+.1f}/{t:+.1f}{' ' if ok else '*'}" for c, t, ok in zip(changes, true, held, strict=True))


def summary(name: str, rows: list[dict[str, Any]]) -> None:
    """Print how many changes of a process are within the limit, and the root mean square error of each change."""
    true = np.array(rows[0]["true"])
    for kind in ("oracle", "predicted"):
        if all(row[kind] is not None for row in rows):
            error = np.array([row[kind] for row in rows]) - true
            held, far = int(within(error + true, true).sum()), np.sqrt((error**2).mean(0)).round(1).tolist()
            mean = error.mean(0).round(1).tolist()
            print(f"{name:12} {kind:9} within {held} of {error.size}, error {far}, mean {mean}")
    if all(row["predicted"] is not None for row in rows):
        error = np.array([np.array(row["predicted"]) - row["oracle"] for row in rows])
        far = np.sqrt((error**2).mean(0)).round(1).tolist()
        print(f"{name:12} predicted beside the oracle: error {far}, mean {error.mean(0).round(1).tolist()}", flush=True)


def shown(values: dict[str, Any]) -> dict[str, Any]:
    """Return estimated values in a few digits."""
    return {k: shown(v) if isinstance(v, dict) else np.round(v, 3).tolist() for k, v in values.items()}


if __name__ == "__main__":
    main()
