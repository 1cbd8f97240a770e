"""One training run of Longstride, in a process of its own: ``python -m research.learning.peers.longstride TASK``."""

import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from rich.console import Console

from longstride.config import Config
from longstride.rollout.collector import InstanceTrajectory
from longstride.settings import Settings
from longstride.training.assembly.run import Run, build_run
from longstride.training.evaluation.evaluate import evaluate
from longstride.training.evaluation.trained_policy import TrainedPolicy
from research.learning.peers.problems import longstride_settings
from research.learning.peers.stopping import Reached, Threshold
from research.learning.peers.worker import Task, main


class Watched:
    """A collector whose finished episodes are counted in the order of their ends; the copies play in step.

    Args:
        collector: that plays.
        threshold: told of each finished episode.
    """

    def __init__(self, collector: Any, threshold: Threshold) -> None:
        self._collector, self._threshold = collector, threshold
        self.steps, self.seconds = 0, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collector, name)

    def collect(self, weights: np.ndarray, first: int, count: int) -> tuple[Sequence[InstanceTrajectory], float]:
        """Play a rollout.

        Raises:
            Reached: an episode in it reached the threshold.
        """
        played, seconds = self._collector.collect(weights, first, count)
        self.seconds += seconds
        for row, total in ends(played):
            self._threshold.add(total, self.steps + (row + 1) * count)
        self.steps += sum(each.trajectory.steps for each in played)
        if self._threshold.steps is not None:
            raise Reached
        return played, seconds


def ends(played: Sequence[InstanceTrajectory]) -> list[tuple[int, float]]:
    """Return (row, return) of the episodes that ended, by row and within a row by copy."""
    found = []
    for copy, each in enumerate(played):
        rows = np.flatnonzero(each.trajectory.terminated | each.trajectory.truncated)
        found += [(row, copy, e.total_reward) for row, e in zip(rows.tolist(), each.finished, strict=True)]
    return [(row, total) for row, _, total in sorted(found)]


def run(task: Task) -> dict[str, Any]:
    """Train to the threshold and evaluate greedily."""
    threshold = Threshold(task.threshold, task.window)
    with tempfile.TemporaryDirectory() as directory:
        begin, begin_cpu = time.perf_counter(), time.process_time()
        settings = longstride_settings(task.settings, task.budget)
        config = Config(seed=task.seed, simulator=task.simulator, run_directory=directory, **settings)
        built = build_run(Settings(config), resume=False, say=lambda line: None)
        ready = time.perf_counter()
        watched = Watched(built.trainer.collector, threshold)
        built.trainer.collector = watched
        with suppress(Reached):
            built.train(Console(quiet=True), lambda: False)
        end, end_cpu = time.perf_counter(), time.process_time()
    return {
        "steps": threshold.steps,
        "steps_done": watched.steps,
        "episodes": threshold.episodes,
        "last_mean": threshold.mean,
        "setup_seconds": ready - begin,
        "seconds": end - begin,
        "collection_seconds": watched.seconds,
        "cpu_seconds": end_cpu - begin_cpu,
        "evaluation": _evaluation(built, config, task),
    }


def _evaluation(built: Run, config: Config, task: Task) -> float:
    trainer = built.trainer
    policy = TrainedPolicy(trainer.actor_params(), trainer.model.spec)
    result = evaluate(trainer.simulator, [], policy, task.evaluation_episodes, task.seed)
    return float(np.mean([record["return"] for record in result.records["trained"]]))


if __name__ == "__main__":
    main(run)
