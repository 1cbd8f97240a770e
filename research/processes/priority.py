"""Two classes of cases with linear costs: the c-mu rule, its closed formula, and a policy trained with the defaults.

Cases arrive at random and need one task of one person, whose times are exponential. A gold case takes longer, and
counts several times. Among all policies that do not interrupt a task, the c-mu rule is optimal (Cox and Smith, Queues,
1961): serve the class with the largest weight over mean service time. Its waiting times are those of Cobham ("Priority
assignment in waiting line problems", Operations Research 2, 1954): with the load s_k of classes 1 to k in the order of
the rule, W_k = W_0 / ((1 - s_(k-1)) (1 - s_k)) and W_0 = sum of rate E[S^2] / 2.

An untrained policy begins with a rule that knows the weights, so it may be optimal from the start. ``--prior fifo``
begins with one that does not.

Usage: python research/processes/priority.py FOLDER [--settings RATE SHARE MEAN WEIGHT ...] [--prior fifo]
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from trained import trained_objectives

PLAIN = 1.0
"""Mean service time of a plain case, which counts once."""

HORIZON, STEPS, EPISODES = 10_000.0, 500_000, 60


def scenario(rate: float, share: float, mean: float, weight: float) -> dict[str, object]:
    """Return the scenario as JSON values."""
    means = {"gold": mean, "plain": PLAIN}
    shares = {"gold": share, "plain": 1.0 - share}
    service = [
        {"activity": f"A · {name}", "resource": "Ann", "distribution": "exponential", "mean": m}
        for name, m in means.items()
    ]
    return {
        "schema": "resource-allocation-scenario/1",
        "name": "two_classes",
        "horizon": {"value": HORIZON},
        "arrivals": {"process": "poisson", "rate": rate},
        "activities": [entry["activity"] for entry in service],
        "resources": ["Ann"],
        "service": service,
        "flow": {"classes": [{"name": n, "p": p, "flow": {"task": f"A · {n}"}} for n, p in shares.items()]},
        "aims": {"class_weights": {"gold": weight}},
    }


def optimum(rate: float, share: float, mean: float, weight: float) -> float:
    """Return the least mean of weight times cycle time a case, that of the c-mu rule."""
    classes = [(rate * share, mean, weight), (rate * (1.0 - share), PLAIN, 1.0)]
    classes.sort(key=lambda one: -one[2] / one[1])
    residual, load, total = sum(speed * m * m for speed, m, _ in classes), 0.0, 0.0
    for speed, m, w in classes:
        before, load = load, load + speed * m
        total += speed * w * (residual / ((1.0 - before) * (1.0 - load)) + m)
    return total / rate


def main() -> None:
    """Print a line for each policy in each setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where scenarios and runs go")
    parser.add_argument(
        *("--settings",),
        type=float,
        nargs="+",
        default=[0.7, 0.3, 1.5, 4.0],
        help="rate of arrivals, share of gold cases, their mean service time and their weight; and so on",
    )
    parser.add_argument("--prior", default="auto", help="POLICY_PRIOR: how the policy begins")
    given = parser.parse_args()
    if len(given.settings) % 4:
        parser.error("--settings takes four numbers for each setting")
    for k in range(0, len(given.settings), 4):
        setting = given.settings[k : k + 4]
        least = optimum(*setting)
        words = "rate {:g}, gold share {:g}, mean {:g}, weight {:g}".format(*setting)
        print(f"{words}: c-mu {least:.4f}", flush=True)
        folder = given.folder / "-".join([given.prior, *(f"{x:g}" for x in setting)])
        for name, of in trained_objectives(folder, scenario(*setting), STEPS, EPISODES, given.prior).items():
            low, high = (100.0 * (of[end] / least - 1.0) for end in ("low", "high"))
            gap = 100.0 * (of["mean"] / least - 1.0)
            print(f"  {name}: {of['mean']:.4f} ({gap:+.2f} %, {low:+.2f} to {high:+.2f})", flush=True)


if __name__ == "__main__":
    main()
