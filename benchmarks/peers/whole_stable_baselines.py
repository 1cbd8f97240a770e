"""Whole training with Stable-Baselines3's PPO, for end_to_end.py."""

import time
from typing import Any

import torch
from stable_baselines3 import PPO

from benchmarks.long_queue import LongQueueEnvironment
from benchmarks.peers.work import GAMMA, LAMBDA, LEARNING_RATE, Done, Work, adam_steps, count


class Timed(PPO):
    """Notes the seconds of its phases; what is worked out of advantages is part of collecting there."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.collecting: list[float] = []
        self.updating: list[float] = []

    def collect_rollouts(self, *arguments: Any, **named: Any) -> bool:
        """Collect."""
        begin = time.perf_counter()
        done = super().collect_rollouts(*arguments, **named)
        self.collecting.append(time.perf_counter() - begin)
        return done

    def train(self) -> None:
        """Update."""
        begin = time.perf_counter()
        super().train()
        self.updating.append(time.perf_counter() - begin)


def train(work: Work) -> Done:
    """Train; settings that are not named have the same defaults."""
    torch.set_num_threads(work.threads)
    policy = {"net_arch": {"pi": list(work.actor), "vf": list(work.critic)}}
    how = {"n_steps": work.steps, "batch_size": work.batch, "n_epochs": work.epochs, "device": "cpu", "seed": 0}
    how |= {"gamma": GAMMA, "gae_lambda": LAMBDA, "learning_rate": LEARNING_RATE}
    model = Timed("MlpPolicy", LongQueueEnvironment(work.steps), policy_kwargs=policy, **how)
    model.learn(work.steps * work.rounds)
    counted = {
        "collected": model.num_timesteps,
        "optimizer_steps": adam_steps(model.policy.optimizer.state),
        "minibatch": model.batch_size,
        "parameters": count(model.policy.parameters()),
    }
    return Done(model.collecting, model.updating, 0.0, counted)
