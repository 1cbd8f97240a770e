"""The line of metrics.jsonl of a round."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from core.learning.schedule import Coefficients
from core.learning.update_stats import UpdateReport
from core.rollout.collector import EpisodeOutcome, InstanceTrajectory
from core.rollout.trajectory import digest


def iteration_record(
    episode: int,
    played: Sequence[InstanceTrajectory],
    finished: Sequence[EpisodeOutcome],
    report: UpdateReport,
    seconds: float,
    now: Coefficients,
    learning_rate: float,
    precision: str,
) -> dict[str, Any]:
    """Return the JSON values of a round.

    Args:
        episode: training episodes done, this one included.
        played: what each copy played.
        finished: the simulator's episodes that ended in it.
        report: of the update.
        seconds: of play.
        now: the coefficients of the update.
        learning_rate: of the actor, before the factor in ``now``.
        precision: of the update's matrix products.
    """
    steps = sum(e.trajectory.steps for e in played)
    names = dict.fromkeys(name for e in finished for name in e.metrics)
    return {
        "episode": episode,
        "simulated_episodes": len(finished),
        "steps": steps,
        "trajectory_sha256": digest(e.trajectory for e in played),
        "return": mean_of([e.total_reward for e in finished]),
        "simulation_seconds": seconds,
        "steps_per_second": steps / seconds,
        "precision": precision,
        "learning_rate": learning_rate * now.learning_rate_factor,
        "clip_range": now.clip_range,
        "entropy_coefficient": now.entropy_coefficient,
        **report._asdict(),
        "metrics": {
            name: np.mean([e.metrics[name] for e in finished if name in e.metrics], axis=0).tolist() for name in names
        },
    }


def mean_of(values: Sequence[float]) -> float | None:
    """Return the mean, None of nothing: a rollout in which no episode ended."""
    return float(np.mean(values)) if values else None
