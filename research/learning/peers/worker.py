"""What both sides do in their process: read the task, keep to one core and one thread, print the result."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from research.learning.peers.stopping import WINDOW


@dataclass(frozen=True)
class Task:
    """One training run.

    Attributes:
        simulator: Longstride's name of the problem.
        environment: Gymnasium's id of it.
        threshold: mean return to reach.
        budget: environment steps.
        settings: in the names of rl-baselines3-zoo, all of them.
        seed: of the run.
        core: the process keeps to it; None for any.
        evaluation_episodes: played with the likeliest actions at the end.
        window: episodes of the mean.
    """

    simulator: str
    environment: str
    threshold: float
    budget: int
    settings: dict[str, Any]
    seed: int
    core: int | None = None
    evaluation_episodes: int = 100
    window: int = WINDOW


def main(run: Callable[[Any], dict[str, Any]], kind: type = Task) -> None:
    """Run the task of the command line and print its result as the last line, JSON."""
    import torch

    task = kind(**json.loads(sys.argv[1]))
    torch.set_num_threads(1)
    if task.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {task.core})
    print(json.dumps(run(task)))
