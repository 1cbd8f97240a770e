"""How much of the waiting in generated logs is mined as the world's, beside what it is in truth.

``always`` has two tasks, people who are always there, and a delay of 36 hours before the second task; ``shifts`` has
three tasks, people who work from 8 to 16, and delays of 10 and 4 open hours. A load is the share of their time that
people are busy. The generators are those of the tests.
Usage: python research/processes/known_delays.py [--cases 600 2000] [--seeds 10 11 12 13 14] [--json FILE]
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import numpy as np
from helpers.generated_logs import shifts_of_eight_hours, two_tasks

from longstride.process.mining.mine_scenario import mine_scenario

PROCESSES = {
    "always": lambda load, cases, seed: two_tasks(load, True, cases, seed),
    "shifts": shifts_of_eight_hours,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, nargs="+", default=[600, 2000])
    parser.add_argument("--loads", type=float, nargs="+", default=[0.5, 0.8, 0.95])
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12, 13, 14])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for process, generate in PROCESSES.items():
        for cases in options.cases:
            for load in options.loads:
                pairs = [shares(generate(load, cases, seed)) for seed in options.seeds]
                errors = [100 * (mined / true - 1) for true, mined in pairs]
                true, mined = np.mean(pairs, 0)
                rows.append({"process": process, "cases": cases, "load": load, "true": true, "mined": mined})
                rows[-1]["errors"] = errors
                print(
                    f"{process:7}{cases:6,} cases, load {load}: share of the world {true:.3f}, mined {mined:.3f}; "
                    "errors in % " + ", ".join(f"{error:+.1f}" for error in errors),
                    flush=True,
                )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


def shares(made):
    """Return which share of the waiting is the world's in truth, and as mined."""
    found = mine_scenario(made.log, name="generated").scenario.waiting
    return made.rest / (made.rest + made.people), found.world / found.waiting


if __name__ == "__main__":
    main()
