"""Hopper-v5 and HalfCheetah-v5: Longstride beside the PPO of Stable-Baselines3, each with its own defaults.

Both sides train the same number of steps and are evaluated greedily on the same episodes.
Usage: python research/learning/public/locomotion.py [--tasks T ...] [--sides S ...] [--seeds 1] [--steps 1000000]
    [--json FILE]
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from research.learning.public.sides import note, table, train_and_score

TASKS = ("Hopper-v5", "HalfCheetah-v5")
FIRST_SEED = 1_000_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), help="ids of Gymnasium")
    parser.add_argument("--sides", nargs="+", choices=("longstride", "sb3"), default=["longstride", "sb3"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--episodes", type=int, default=20, help="of an evaluation")
    parser.add_argument("--directory", type=Path, default=Path("runs/public_locomotion"))
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args(arguments)
    import gymnasium

    results = []
    for seed in options.seeds:
        for task in options.tasks:
            for side in options.sides:
                make = partial(gymnasium.make, task)
                results.append(
                    train_and_score(
                        task,
                        make,
                        side,
                        options.steps,
                        seed,
                        episodes=options.episodes,
                        first_seed=FIRST_SEED,
                        directory=options.directory,
                    )
                )
                note(results, options.json)
    print(table(results))


if __name__ == "__main__":
    main()
