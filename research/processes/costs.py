"""Two servers with costs: the optimum by value iteration, and a policy that is trained with the defaults.

Cases arrive at random and need one task. ``fast`` takes 1 on average and is expensive, ``slow`` takes 2.5 and is cheap.
A case costs 1 for each unit of its cycle time, and its server's rate while it is served. The optimum lets ``slow``
serve and calls ``fast`` from some length of the queue on.

Usage: python research/processes/costs.py FOLDER [--pairs RATE PRICE ...]
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from trained import trained_objectives

FAST, SLOW, CHEAP = 1.0, 2.5, 0.4
"""Mean service times, and the cost of ``slow`` for a unit of time."""

LONGEST = 60
"""Length at which the queue of the value iteration is cut."""

HORIZON, STEPS, EPISODES = 10_000.0, 1_000_000, 100


def scenario(rate: float, price: float) -> dict[str, object]:
    """Return the scenario as JSON values."""
    times = {"fast": FAST, "slow": SLOW}
    service = [{"activity": "A", "resource": r, "distribution": "exponential", "mean": m} for r, m in times.items()]
    return {
        "schema": "resource-allocation-scenario/1",
        "name": "two_servers",
        "horizon": {"value": HORIZON},
        "arrivals": {"process": "poisson", "rate": rate},
        "activities": ["A"],
        "resources": list(times),
        "service": service,
        "flow": {"task": "A"},
        "aims": {
            "objective": {"cost": 1.0, "cycle_time": 1.0},
            "costs": {"per_hour": {"fast": price, "slow": CHEAP}},
        },
    }


def optimum(rate: float, price: float, weight: float = 1.0) -> tuple[float, int]:
    """Return the least mean cost of a case, and the length of the queue from which ``fast`` is called.

    ``weight`` is the cost of a unit of cycle time.

    Relative value iteration over (waiting, fast busy, slow busy), uniformised; values are those after the decisions of
    an event.
    """
    fast, slow = 1.0 / FAST, 1.0 / SLOW
    total = rate + fast + slow
    waiting, on_fast, on_slow = np.indices((LONGEST + 1, 2, 2))
    costs = (weight * (waiting + on_fast + on_slow) + price * on_fast + CHEAP * on_slow) / total
    values = np.zeros(costs.shape)
    while True:
        best = values.copy()
        for f, s in ((1, 0), (0, 1), (0, 0)):  # an event may be followed by two assignments
            if not f:
                best[1:, f, s] = np.minimum(best[1:, f, s], best[:-1, 1, s])
            if not s:
                best[1:, f, s] = np.minimum(best[1:, f, s], best[:-1, f, 1])
        arrived = np.concatenate([best[1:], best[-1:]])
        by_fast = np.where(on_fast == 1, best[:, :1, :], best)
        by_slow = np.where(on_slow == 1, best[:, :, :1], best)
        new = costs + (rate * arrived + fast * by_fast + slow * by_slow) / total
        change = new - values
        values = new - new[0, 0, 0]
        if np.ptp(change) < 1e-11 * max(weight, 1.0):
            calls = [n for n in range(1, 30) if values[n - 1, 1, 1] <= values[n, 0, 1]]
            return float(change.mean() * total / rate), calls[0]


def main() -> None:
    """Print a line for each pair of a rate and a price."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where scenarios and runs go")
    parser.add_argument(
        *("--pairs",),
        type=float,
        nargs="+",
        default=[0.3, 14.0, 0.4, 8.0, 0.2, 5.0],
        help="rates of arrivals, each with the cost of the fast server for a unit of time",
    )
    options = parser.parse_args()
    for rate, price in zip(options.pairs[::2], options.pairs[1::2], strict=True):
        least, length = optimum(rate, price)
        print(f"rate {rate:g}, price {price:g}: optimum {least:.4f}, fast from {length} waiting on", flush=True)
        folder = options.folder / f"{rate:g}-{price:g}"
        for name, of in trained_objectives(folder, scenario(rate, price), STEPS, EPISODES).items():
            print(f"  {name}: {of['mean']:.4f} ({100.0 * (of['mean'] / least - 1.0):+.2f} %)", flush=True)


if __name__ == "__main__":
    main()
