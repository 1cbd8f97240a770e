"""Batches that a policy begins: the optimum by value iteration, and a policy that is trained with the defaults.

Cases arrive at random, and a person serves up to so many of them together, in an exponential time that does not depend
on their number (M/M^[1,b]/1). Whoever is free may begin with the cases that wait, or wait for more. With one person it
is optimal to begin from some number of cases on (Deb and Serfozo, "Optimal control of batch service queues", Advances
in Applied Probability 5, 1973). Two of the problems have more: a second person, who is slower, and a person who also
checks each case before it joins a batch.

The optimum is that of the long run; it is also played, on the random streams of the evaluation.

Usage: python research/processes/batches.py FOLDER [--problems half calm] [--prior fifo] [--seed 1]
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from trained import trained_metrics

from longstride.process.scenario_file import parse_scenario
from research.processes.optimum import Optimum, find_optimum, play

METRIC = "mean_cycle_time"
HORIZON, STEPS, EPISODES = 1_000.0, 500_000, 100

PROBLEMS = {
    "half": (5.4, 12, (1.0,), 0.0),
    "calm": (1.5, 6, (1.0,), 0.0),
    "busy": (4.2, 6, (1.0,), 0.0),
    "two": (6.0, 6, (1.0, 1.6), 0.0),
    "checked": (2.0, 8, (1.0,), 0.2),
}
"""Arrivals in a time unit, cases of a full batch, mean time of each person, and that of a check by the first one."""


def scenario(rate: float, size: int, means: tuple[float, ...], check: float) -> dict[str, object]:
    """Return the scenario as JSON values."""
    people = [f"person {i}" for i in range(1, len(means) + 1)]
    times = [("Serve", *pair) for pair in zip(people, means, strict=True)]
    times += [("Check", people[0], check)] if check else []
    activities = ["Check", "Serve"] if check else ["Serve"]
    return {
        "schema": "resource-allocation-scenario/1",
        "name": "batches",
        "horizon": {"value": HORIZON},
        "arrivals": {"process": "poisson", "rate": rate},
        "activities": activities,
        "resources": people,
        "service": [
            {"activity": a, "resource": r, "distribution": "exponential", "mean": mean} for a, r, mean in times
        ],
        "flow": {"seq": [{"task": a} for a in activities]},
        "batches": [{"activity": "Serve", "size": size, "start": "policy"}],
    }


def limits(optimum: Optimum) -> str:
    """Return from how many waiting cases on the first person serves, everyone being free; of one queue."""
    states = zip(map(tuple, optimum.problem.codes.tolist()), optimum.solution.action.tolist(), strict=True)
    actions = {state[0]: action for state, action in states if not any(state[1:])}
    begins = sorted(n for n, action in actions.items() if action == 0 and n > 0)
    threshold = begins == list(range(begins[0], max(actions) + 1))
    return f"begins from {begins[0]} waiting on" if threshold else f"begins with {begins[:9]} waiting"


def solve(name: str, episodes: int) -> dict[str, object]:
    """Print the optimum of a problem; return it, its mean in the evaluation's episodes, and the scenario."""
    content = scenario(*PROBLEMS[name])
    made = parse_scenario(content, name)
    optimum = find_optimum(made)
    least = optimum.solution.mean / PROBLEMS[name][0]
    played = play(made, optimum, [], episodes)["optimum"]["mean"]
    words = "" if PROBLEMS[name][3] else f", {limits(optimum)}"
    print(f"{name}: optimum {least:.4f}, {played:.4f} in these episodes{words}", flush=True)
    return {"scenario": content, "least": least, "played": played}


def main() -> None:
    """Print a line for each policy of each problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where scenarios and runs go")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--prior", default="auto", help="POLICY_PRIOR: how the policy begins")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of the training")
    parser.add_argument("--seed", type=int, default=0, help="seed of the training")
    given = parser.parse_args()
    for name in given.problems:
        solved = solve(name, EPISODES)
        folder = given.folder / f"{name}-{given.prior}-{given.seed}"
        more = ["--seed", str(given.seed)] if given.seed else []
        for policy, of in trained_metrics(
            folder, solved["scenario"], given.steps, EPISODES, given.prior, METRIC, more
        ).items():
            gap, same = (100.0 * (of["mean"] / solved[key] - 1.0) for key in ("least", "played"))
            print(f"  {policy}: {of['mean']:.4f} ({gap:+.2f} %; {same:+.2f} % of the same episodes)", flush=True)


if __name__ == "__main__":
    main()
