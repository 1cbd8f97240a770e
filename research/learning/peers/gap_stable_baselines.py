"""Stable-Baselines3's PPO until close to the optimum: ``python -m research.learning.peers.gap_stable_baselines TASK``.

The simulator is stepped as a Gymnasium environment, with sb3-contrib's MaskablePPO where it masks actions. Settings are
those of the classes, and ``n_envs`` and ``normalize`` as in rl-baselines3-zoo.
"""

from typing import Any

import numpy as np
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

import longstride
from longstride.simulators.loading import load_simulator
from longstride.simulators.simulator import Simulator, function_of
from research.learning.peers.gap import Choose, GapTask, GapWatch
from research.learning.peers.worker import main


class Look(BaseCallback):
    """Looks at the policy after each rollout; stops the run when it is close enough."""

    def __init__(self, watch: GapWatch, environments: VecEnv) -> None:
        super().__init__()
        self._watch, self._environments = watch, environments

    def _on_rollout_start(self) -> None:
        self._watch.look(self.num_timesteps, self._policy)

    def _on_step(self) -> bool:
        return self._watch.steps is None

    def _policy(self) -> Choose:
        model, environments = self.model, self._environments

        def choose(observations: np.ndarray, masks: np.ndarray | None) -> np.ndarray:
            if isinstance(environments, VecNormalize):
                observations = environments.normalize_obs(observations)
            masked = {"action_masks": masks} if isinstance(model, MaskablePPO) else {}
            actions: np.ndarray = model.predict(observations, deterministic=True, **masked)[0]
            return actions

        return choose


def run(task: GapTask) -> dict[str, Any]:
    """Train with the task's settings."""
    simulator, evaluated = (
        load_simulator(task.simulator, options).simulator
        for options in (task.options, {**task.options, "max_steps": task.episode_steps})
    )
    watch, settings = GapWatch(task, evaluated), dict(task.settings)
    environments, normalised = _environments(simulator, settings.pop("n_envs", 1)), settings.pop("normalize", False)
    if normalised:
        environments = VecNormalize(environments, gamma=settings.get("gamma", 0.99))
    kind = PPO if function_of(simulator, "action_mask") is None else MaskablePPO
    model = kind("MlpPolicy", environments, seed=task.seed, device="cpu", **settings)
    model.learn(task.budget, callback=Look(watch, environments))
    return watch.result(model.num_timesteps)


def _environments(simulator: Simulator, count: int) -> VecEnv:
    return DummyVecEnv([lambda: longstride.to_gymnasium(simulator)] * count)


if __name__ == "__main__":
    main(run, GapTask)
