"""The share of predicted changes that the best estimator holds within the limit, and the length of a log it needs.

The processes are those of ``unusual.py``. Each of their values (rate of arrivals, mean times, probability of a
repetition, amounts) has an inverse Fisher information: no unbiased estimator varies less. A polynomial of the second
degree in these values is fitted to the changes of the mean cycle time in plays of the same random numbers. From it come
the standard deviation of the best estimator (Cramér and Rao), and the share of logs in which it is within the limit:
2 points, or 10 % of the true change. "Likelihood" is the share of the maximum-likelihood estimates themselves, whose
mean is off where the change is not linear in the values. The truth comes from as many runs of its own.
Usage: python research/processes/size_floor.py [--process rework ...] [--runs 2000] [--points 80] [--common 50]
       [--seeds 11 12 13] [--json FILE] [--truth FOLDER]
       # with seeds: the maximum-likelihood prediction for each log; FOLDER gets the truth that counterfactuals.py reads
"""

import argparse
import json
import math
import sys
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

import unusual
from compiled_engine import PLAYED, cases_of, mean_cycle, people_of
from counterfactuals import CHANGES, true_changes
from oracle import estimated

FIRST_TRUE, FIRST_COMMON, MOST = 5000, 9000, 1.4
"""Seeds of the first runs of truth and polynomial, and the rate at which arrivals are drawn, in true ones."""

SPREAD = 1.5
"""Standard deviation of the values in the polynomial's points, in those of the log."""

DRAWS, CERTAIN = 100_000, 1.96
"""Estimates drawn for a share, and standard deviations within the limit that hold 95 %."""


class Value(NamedTuple):
    """A value of a process: how it is changed, and the standard deviation of its best estimate."""

    name: str
    deviation: float  # of the logarithm for rates and times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--process", nargs="+", default=list(PLAYED), choices=PLAYED)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--points", type=int, default=80)
    parser.add_argument("--common", type=int, default=50)
    parser.add_argument("--seeds", type=int, nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--truth", type=Path)
    options = parser.parse_args()
    found = {}
    for name in options.process:
        true, errors = true_changes(cycles(name, {}, range(FIRST_TRUE, FIRST_TRUE + options.runs)))
        print(f"{name:12} truth  {in_row(true)}  ± {in_row(errors, '.2f')}", flush=True)
        if options.truth:
            options.truth.mkdir(parents=True, exist_ok=True)
            content = {"changes": true.tolist(), "errors": errors.tolist(), "runs": options.runs}
            for alike in (name, *(("turnover", "completions") if name == "minutes" else ())):
                (options.truth / f"truth of {alike}.json").write_text(json.dumps(content))
        found[name] = floor(name, true, options) | {"true": true.tolist(), "errors": errors.tolist()}
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n")


def values_of(name: str) -> list[Value]:
    """Return the values of a process that a log tells, with the deviations of the inverse Fisher information."""
    made, cases = unusual.changed(name, ""), unusual.changed(name, "")["a_week"] * unusual.WEEKS
    reached, information, assessed = 1.0, 0.0, 1.0
    if name not in ("chats", "branches"):
        for i in range(40):
            p = made["again"] / made["fewer"] ** i
            information += cases * reached / (p * (1.0 - p)) / made["fewer"] ** (2 * i)
            reached *= p
            assessed += reached
    often = {"Assess": assessed, "Clarify": assessed - 1.0} if information else {}
    values = [Value("a_week", 1.0 / math.sqrt(cases))]
    values += [Value(a, 1.0 / math.sqrt(cases * often.get(a, 1.0))) for a in made["work"]]
    if information:
        values.append(Value("again", 1.0 / math.sqrt(information)))
    if name == "value":
        spread = unusual.AMOUNTS[1]
        values += [Value("mean", spread / math.sqrt(cases)), Value("spread", spread / math.sqrt(2.0 * cases))]
    return values


def cycles(name: str, values: dict[str, float], seeds: range) -> np.ndarray:
    """Return float64[seeds, 1 + changes], mean cycle times; ``values`` are differences from the true values.

    Those of rates and times are of logarithms.
    """
    most = MOST * unusual.changed(name, "")["a_week"]
    plans, rows = [], []
    for change in ("", *CHANGES):
        made = unusual.changed(name, change)
        made["a_week"] *= math.exp(values.get("a_week", 0.0))
        made["work"] = {a: mean * math.exp(values.get(a, 0.0)) for a, mean in made["work"].items()}
        plans.append((made, people_of(made)))
    again = plans[0][0]["again"] + values["again"] if values.get("again") else None
    for seed in seeds:
        cases = cases_of(name, again, most, seed) if again is None else cases_of.__wrapped__(name, again, most, seed)
        if name == "value":  # order stays, since other amounts are in the same order
            mean, spread = unusual.AMOUNTS
            logs = np.log(-cases.order)
            other = mean + values.get("mean", 0.0) + (1.0 + values.get("spread", 0.0) / spread) * (logs - mean)
            cases = cases._replace(share=cases.share * np.exp(other - logs))
        rows.append([mean_cycle(made, cases, people, most, seed) for made, people in plans])
    return np.array(rows)


def floor(name: str, true: np.ndarray, options: argparse.Namespace) -> dict[str, Any]:
    """Return and print what the best estimator reaches for each change of a process."""
    values, rng = values_of(name), np.random.default_rng(1)
    points = SPREAD * rng.standard_normal((options.points, len(values)))
    points[0] = 0.0
    seeds, changes = range(FIRST_COMMON, FIRST_COMMON + options.common), []
    for point in points:
        moved = {value.name: value.deviation * x for value, x in zip(values, point, strict=True)}
        changes.append(true_changes(cycles(name, moved, seeds))[0])
    found = np.log1p(np.array(changes) / 100.0)
    terms = np.linalg.lstsq(polynomial(points), found, rcond=None)[0]
    rest = 100.0 * (polynomial(points) @ terms - found).std(0)

    def predicted(deviations: np.ndarray) -> np.ndarray:
        return 100.0 * np.expm1(np.log1p(true / 100.0) + polynomial(deviations) @ terms - terms[0])

    drawn, limit = rng.standard_normal((DRAWS, len(values))), np.maximum(2.0, 0.1 * np.abs(true))
    gradient = terms[1 : 1 + len(values)] * (100.0 + true)
    best = np.sqrt((gradient**2).sum(0))
    likely = predicted(drawn) - true
    share = [math.erf(z / math.sqrt(2.0)) for z in limit / best]
    held = np.abs(likely) <= limit
    needed = cases_of_length(name, (CERTAIN * best / limit) ** 2)
    print(f"{'':12} best deviation {in_row(best, '.2f')}; limit {in_row(limit, '.2f')}; residual {in_row(rest, '.2f')}")
    for k, value in enumerate(values):
        print(f"{'':12}   {value.name:9} {100 * value.deviation:5.2f} % {in_row(gradient[k], '+.2f')}")
    print(
        f"{'':12} share held: best {in_row(np.array(share), '.2f')}, likelihood {in_row(held.mean(0), '.2f')}, "
        f"all four {held.all(1).mean():.2f}; mean off {in_row(likely.mean(0))}; cases for 95 % {in_row(needed, '.0f')}",
        flush=True,
    )
    rows = {}
    for seed in options.seeds:
        of_log = predicted(deviations_of(name, seed, values)[None])[0]
        rows[seed] = of_log.tolist()
        print(f"{'':12} {seed:4} {in_row(of_log)}  within {int((np.abs(of_log - true) <= limit).sum())}", flush=True)
    keys = {"best": best, "limit": limit, "share": np.array(share), "likelihood": held.mean(0), "needed": needed}
    return {k: v.tolist() for k, v in keys.items()} | {"mean off": likely.mean(0).tolist(), "logs": rows}


def cases_of_length(name: str, factor: np.ndarray) -> np.ndarray:
    """Return numbers of cases from multiples of the length of the logs of a process."""
    return np.asarray(factor * unusual.changed(name, "")["a_week"] * unusual.WEEKS)


def polynomial(points: np.ndarray) -> np.ndarray:
    """Return the constant, the coordinates and their products, for float64[n, k]."""
    pairs = [points[:, i] * points[:, j] for i, j in combinations_with_replacement(range(points.shape[1]), 2)]
    return np.column_stack([np.ones(len(points)), points, *pairs])


def deviations_of(name: str, seed: int, values: list[Value]) -> np.ndarray:
    """Return how far the maximum-likelihood values of a log are from the true ones, in their deviations."""
    made, found = unusual.changed(name, ""), estimated(name, seed)
    moved = {"a_week": math.log(found["a_week"] / made["a_week"])}
    moved |= {a: math.log(found["work"][a] / made["work"][a]) for a in made["work"]}
    moved["again"] = found.get("again", made.get("again", 0.0)) - made.get("again", 0.0)
    if name == "value":
        moved |= dict(zip(("mean", "spread"), np.subtract(found["amounts"], unusual.AMOUNTS), strict=True))
    return np.array([moved[value.name] / value.deviation for value in values])


def in_row(numbers: np.ndarray, digits: str = "+.1f") -> str:
    """Return numbers as text."""
    return ", ".join(f"{number:{digits}}" for number in numbers)


if __name__ == "__main__":
    main()
