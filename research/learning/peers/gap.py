"""How far a policy is above the optimum while it trains: one evaluation and one rule for both sides."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import longstride

Choose = Callable[[np.ndarray, "np.ndarray | None"], np.ndarray]
"""Actions for a batch, from float32[B, O] and bool[B, values], or None where nothing is masked."""

METRIC = "mean_cost"


@dataclass(frozen=True)
class GapTask:
    """One training run that ends once its policy is close to the optimum.

    Attributes:
        simulator: Longstride's name of the problem.
        options: of the simulator.
        settings: of the trainer, in its own names.
        seed: of the run.
        optimum: mean cost of the best policy.
        within: largest gap, as a share of the optimum.
        budget: environment steps after which a run ends without having come so close.
        every: environment steps from one evaluation to the next.
        episodes: of an evaluation, played side by side.
        episode_steps: environment steps of each.
        core: the process keeps to it; None for any.
    """

    simulator: str
    options: dict[str, Any]
    settings: dict[str, Any]
    seed: int
    optimum: float
    within: float = 0.05
    budget: int = 2_000_000
    every: int = 50_000
    episodes: int = 16
    episode_steps: int = 10_000
    core: int | None = None


@dataclass
class GapWatch:
    """Evaluates a policy every so many steps; its time does not count as training.

    Attributes:
        task: run that is watched.
        evaluated: simulator that is evaluated, with the task's length of an episode.
        steps: of the first evaluation within the gap; None before.
        curve: steps and gap of each evaluation.
    """

    task: GapTask
    evaluated: Any
    steps: int | None = None
    curve: list[tuple[int, float]] = field(default_factory=list)
    _begin: float = field(default_factory=time.process_time)
    _apart: float = 0.0

    def look(self, steps: int, choose: Callable[[], Choose]) -> bool:
        """Evaluate the policy if it is due; return whether it has come close enough."""
        due = (self.curve[-1][0] if self.curve else 0) + self.task.every
        if self.steps is not None or steps < due:
            return self.steps is not None
        begin = time.process_time()
        gap = mean_cost(self.evaluated, choose(), self.task.episodes) / self.task.optimum - 1.0
        self.curve.append((steps, gap))
        self._apart += time.process_time() - begin
        if gap <= self.task.within:
            self.steps = steps
        return self.steps is not None

    def result(self, steps_done: int) -> dict[str, Any]:
        """Return what a run prints."""
        seconds = time.process_time() - self._begin - self._apart
        return {"steps": self.steps, "steps_done": steps_done, "seconds": seconds, "curve": self.curve}


def mean_cost(simulator: Any, choose: Choose, episodes: int) -> float:
    """Return the mean of the simulator's cost over whole episodes with seeds 1,000,000, 1,000,001, ..."""
    environments = [longstride.to_gymnasium(simulator) for _ in range(episodes)]
    rows, infos = map(list, zip(*(e.reset(seed=1_000_000 + k) for k, e in enumerate(environments)), strict=True))
    costs: list[float] = []
    while not costs:  # all episodes have the same length
        masks = np.stack([info["action_mask"] for info in infos]) if "action_mask" in infos[0] else None
        actions = choose(np.stack(rows), masks)
        for k, environment in enumerate(environments):
            rows[k], _, terminated, truncated, infos[k] = environment.step(actions[k])
            if terminated or truncated:
                costs.append(float(infos[k]["metrics"][METRIC]))
    if len(costs) != episodes:
        raise ValueError("The episodes of the evaluation differ in length.")
    return float(np.mean(costs))
