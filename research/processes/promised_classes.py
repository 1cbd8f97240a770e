"""Two classes of cases with due dates: the optimum by dynamic programming, and a policy trained with the defaults.

Nine cases arrive at known times, each gold or plain at random. One person does the task of a gold case in 2 and of a
plain one in 1. Gold cases are due 4 after their arrival and count three times, plain ones are due 1.5 after it. The
weighted tardiness is minimised. Dynamic programming takes the mean over the classes of the cases to come, and may also
wait. Of two cases of a class the older one goes first, which an exchange of the two shows to be optimal.

Usage: python research/processes/promised_classes.py FOLDER [--steps N] [--prior rule]
"""

import argparse
import sys
from functools import cache
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from trained import trained_objectives

ARRIVALS = 0.0, 0.31, 0.77, 1.43, 2.71, 4.19, 5.57, 6.23, 6.91
GOLD = 0.4
"""Probability of a gold case."""

TIMES, ALLOWANCES, WEIGHTS = (2.0, 1.0), (4.0, 1.5), (3.0, 1.0)
"""Service time, allowance and weight of gold and plain cases."""

HORIZON, EPISODES = 60.0, 2_000

Queue = tuple[int, ...]


def scenario() -> dict[str, object]:
    """Return the scenario as JSON values."""
    names = "gold", "plain"
    return {
        "schema": "resource-allocation-scenario/1",
        "name": "promised_classes",
        "horizon": {"value": HORIZON},
        "arrivals": {"process": "replay", "times": list(ARRIVALS)},
        "activities": [f"A · {name}" for name in names],
        "resources": ["Ann"],
        "service": [
            {"activity": f"A · {name}", "resource": "Ann", "distribution": "constant", "mean": TIMES[c]}
            for c, name in enumerate(names)
        ],
        "flow": {
            "classes": [
                {"name": "gold", "p": GOLD, "flow": {"task": "A · gold"}},
                {"name": "plain", "p": 1.0 - GOLD, "flow": {"task": "A · plain"}},
            ]
        },
        "aims": {
            "objective": {"tardiness": 1.0},
            "class_weights": {"gold": WEIGHTS[0]},
            "due": {"by_class": {name: {"after": ALLOWANCES[c]} for c, name in enumerate(names)}},
        },
    }


def optimum() -> float:
    """Return the least mean weighted tardiness of a case."""
    return value(ARRIVALS[0], 0, ((), ())) / len(ARRIVALS)


@cache
def value(now: float, arrived: int, queues: tuple[Queue, Queue]) -> float:
    """Return the least expected tardiness from now on; the person is free, ``queues`` have the waiting cases."""
    choices = []
    for c, queue in enumerate(queues):
        if queue:
            end = now + TIMES[c]
            late = WEIGHTS[c] * max(end - ARRIVALS[queue[0]] - ALLOWANCES[c], 0.0)
            left = (queue[1:], queues[1]) if c == 0 else (queues[0], queue[1:])
            choices.append(late + after(end, arrived, left))
    if arrived < len(ARRIVALS):
        choices.append(after(ARRIVALS[arrived], arrived, queues))
    return min(choices, default=0.0)


def after(time: float, arrived: int, queues: tuple[Queue, Queue]) -> float:
    """Return the expected value at a time, over the classes of the cases that arrive until then."""
    coming = [i for i in range(arrived, len(ARRIVALS)) if ARRIVALS[i] <= time + 1e-9]
    total = 0.0
    for classes in product((0, 1), repeat=len(coming)):
        gold = queues[0] + tuple(i for i, c in zip(coming, classes, strict=True) if c == 0)
        plain = queues[1] + tuple(i for i, c in zip(coming, classes, strict=True) if c == 1)
        chance = GOLD ** classes.count(0) * (1.0 - GOLD) ** classes.count(1)
        total += chance * value(round(time, 9), arrived + len(coming), (gold, plain))
    return total


def main() -> None:
    """Print the optimum and a line for each policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the scenario and the run go")
    parser.add_argument("--steps", type=int, default=400_000, help="steps of the training")
    parser.add_argument("--prior", default="auto", help="POLICY_PRIOR: how the policy begins")
    given = parser.parse_args()
    least = optimum()
    print(f"optimum {least:.4f}", flush=True)
    for name, of in trained_objectives(given.folder, scenario(), given.steps, EPISODES, given.prior).items():
        gap, low, high = (100.0 * (of[end] / least - 1.0) for end in ("mean", "low", "high"))
        print(f"  {name}: {of['mean']:.4f} ({gap:+.2f} %, {low:+.2f} to {high:+.2f})", flush=True)


if __name__ == "__main__":
    main()
