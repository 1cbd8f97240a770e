"""One training run of Stable-Baselines3's PPO: ``python -m research.learning.peers.stable_baselines TASK``.

Needs stable-baselines3 and nothing of Longstride, so it can run in another environment. It sets up what the zoo does:
environments in one process (DummyVecEnv), Monitor for the returns, VecNormalize where the settings normalise.
"""

import time
import warnings
from typing import Any

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from research.learning.peers.problems import Settings, rate
from research.learning.peers.stopping import Threshold
from research.learning.peers.worker import Task, main

PASSED_ON = (
    *("n_steps", "batch_size", "gae_lambda", "gamma", "n_epochs", "ent_coef", "vf_coef", "max_grad_norm"),
    *("use_sde", "sde_sample_freq"),
)


class Watch(BaseCallback):
    """Tells the threshold of each episode that ends; stops the run when it is reached."""

    def __init__(self, threshold: Threshold) -> None:
        super().__init__()
        self._threshold = threshold

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self._threshold.add(info["episode"]["r"], self.num_timesteps)
        return self._threshold.steps is None


def run(task: Task) -> dict[str, Any]:
    """Train to the threshold and evaluate with deterministic actions."""
    warnings.filterwarnings("ignore", message="You have specified a mini-batch size")  # MountainCar's 8 steps < 256
    threshold = Threshold(task.threshold, task.window)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    environments = _environments(task)
    model = _model(environments, task.settings, task.seed)
    ready = time.perf_counter()
    model.learn(task.budget, callback=Watch(threshold))
    end, end_cpu = time.perf_counter(), time.process_time()
    return {
        "steps": threshold.steps,
        "steps_done": model.num_timesteps,
        "episodes": threshold.episodes,
        "last_mean": threshold.mean,
        "setup_seconds": ready - begin,
        "seconds": end - begin,
        "cpu_seconds": end_cpu - begin_cpu,
        "evaluation": _evaluation(model, environments, task),
    }


def _environments(task: Task) -> VecEnv:
    environments: VecEnv = make_vec_env(task.environment, task.settings["n_envs"], seed=task.seed)
    if task.settings["normalize"]:
        environments = VecNormalize(environments, gamma=task.settings["gamma"])
    return environments


def _model(environments: VecEnv, settings: Settings, seed: int) -> PPO:
    # ActorCriticPolicy's default is two separate networks of 64-64 tanh units.
    policy = {name: settings[name] for name in ("log_std_init", "ortho_init")}
    return PPO(
        "MlpPolicy",
        environments,
        learning_rate=_schedule(settings["learning_rate"]),
        clip_range=_schedule(settings["clip_range"]),
        policy_kwargs=policy,
        seed=seed,
        device="cpu",
        **{name: settings[name] for name in PASSED_ON},
    )


def _schedule(value: float | str) -> Any:
    first, falls = rate(value)
    return (lambda remaining: remaining * first) if falls else first


def _evaluation(model: PPO, environments: VecEnv, task: Task) -> float:
    fresh: VecEnv = make_vec_env(task.environment, 1, seed=1_000_000 + task.seed)
    if isinstance(environments, VecNormalize):
        fresh = VecNormalize(fresh, training=False, norm_reward=False)
        fresh.obs_rms = environments.obs_rms
    return float(evaluate_policy(model, fresh, task.evaluation_episodes, deterministic=True)[0])


if __name__ == "__main__":
    main(run)
