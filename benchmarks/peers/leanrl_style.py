"""PPO as LeanRL makes CleanRL's faster on a CPU, written anew (github.com/meta-pytorch/LeanRL, ppo_*_torchcompile.py).

As there: the policy's step and the loss with its backward pass are torch.compile'd, distributions do not check their
arguments, and steps are kept in lists and stacked once. Faster than there, in this trainer's favour: actions are drawn
by an exponential race, which compiles into one kernel (torch.multinomial does not), and the kernels are called from
C++; advantages are a loop over Python's numbers (compiled, that loop is unrolled, which takes minutes for 2,048 steps);
steps are kept without TensorDict; Adam is torch's fused one.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium.vector import SyncVectorEnv
from torch import Tensor, nn

from benchmarks.peers.cleanrl_style import Agent, Batch, loss_of, one_environment
from benchmarks.peers.work import (
    ACTIONS,
    GAMMA,
    LAMBDA,
    LEARNING_RATE,
    MAX_GRAD_NORM,
    OBSERVATIONS,
    Done,
    Work,
    adam_steps,
    count,
)

Compile = Callable[..., Callable[..., Any]]


def act(agent: Agent, observations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return int64[B] actions, float32[B] log-probabilities and float32[B, 1] values.

    Of independent exponential variables with the probabilities as rates the first to ring is an action drawn from them.
    """
    log_probs = torch.log_softmax(agent.actor(observations), -1)
    actions = (log_probs - torch.empty_like(log_probs).exponential_().log()).argmax(-1)
    return actions, log_probs.gather(-1, actions[:, None]).squeeze(-1), agent.critic(observations)


def advantages_of(rewards: list[float], values: list[float], dones: list[bool]) -> list[float]:
    """Return generalised advantage estimation; ``values`` has one more, of what follows the rollout.

    Args:
        rewards: of T steps.
        values: of T + 1 observations.
        dones: of T steps, whether an episode ended with it.
    """
    advantages, advantage = [0.0] * len(rewards), 0.0
    for t in reversed(range(len(rewards))):
        going_on = 0.0 if dones[t] else GAMMA
        advantage = rewards[t] + going_on * values[t + 1] - values[t] + LAMBDA * going_on * advantage
        advantages[t] = advantage
    return advantages


class Trainer:
    """Collects and updates.

    Args:
        work: asked for.
        environment: a vector environment of one copy.
        compile_function: torch.compile, or a stand-in.
    """

    def __init__(self, work: Work, environment: SyncVectorEnv, compile_function: Compile) -> None:
        self.work, self.agent, self.rng = work, Agent(work), np.random.default_rng(0)
        self.optimizer = torch.optim.Adam(self.agent.parameters(), lr=LEARNING_RATE, eps=1e-5, fused=True)
        self.environment, self.observation = environment, environment.reset(seed=0)[0]
        # C++ in place of Python around the kernels takes a quarter off a step.
        self._act = compile_function(lambda seen: act(self.agent, seen), options={"cpp_wrapper": True})
        self._loss = compile_function(lambda *columns: loss_of(self.agent, Batch(*columns)))

    def compile(self) -> float:
        """Compile; return the seconds it took. No weight changes."""
        begin = time.perf_counter()
        with torch.no_grad():
            for _ in range(2):
                self._act(torch.zeros(1, OBSERVATIONS))
        rows = self.work.batch
        numbers = (torch.randn(rows) for _ in range(3))
        loss, *_ = self._loss(torch.randn(rows, OBSERVATIONS), torch.randint(ACTIONS, (rows,)), *numbers)
        loss.backward()
        self.optimizer.zero_grad()
        return time.perf_counter() - begin

    @torch.no_grad()
    def collect(self) -> Batch:
        """Play a rollout and work out its advantages."""
        observations, actions, log_probs, rewards, values, dones = [], [], [], [], [], []
        for _ in range(self.work.steps):
            seen = torch.from_numpy(self.observation)
            action, log_prob, value = self._act(seen)
            self.observation, reward, terminated, truncated, _ = self.environment.step(action.numpy())
            observations.append(seen)
            actions.append(action)
            log_probs.append(log_prob)
            values.append(value)
            rewards.append(float(reward[0]))
            dones.append(bool(terminated[0] or truncated[0]))
        values.append(self._act(torch.from_numpy(self.observation))[2])
        said = torch.cat(values).flatten()
        advantages = torch.tensor(advantages_of(rewards, said.tolist(), dones))
        return Batch(
            torch.cat(observations), torch.cat(actions), torch.cat(log_probs), advantages, advantages + said[:-1]
        )

    def update(self, data: Batch) -> None:
        """Take the optimiser steps of a rollout."""
        for _ in range(self.work.epochs):
            for chosen in torch.from_numpy(self.rng.permutation(self.work.steps)).split(self.work.batch):
                loss, _, _ = self._loss(*(column[chosen] for column in data))
                loss.backward()
                nn.utils.clip_grad_norm_(self.agent.parameters(), MAX_GRAD_NORM)
                self.optimizer.step()
                self.optimizer.zero_grad()


def train(work: Work, compile_function: Compile = torch.compile) -> Done:
    """Train; compiling is timed apart, advantages are part of collecting."""
    torch.set_num_threads(work.threads)
    torch.manual_seed(0)
    torch.distributions.Distribution.set_default_validate_args(False)
    trainer = Trainer(work, one_environment(work.steps), compile_function)
    compiling, collecting, updating, collected = trainer.compile(), [], [], 0
    for _ in range(work.rounds):
        begin = time.perf_counter()
        data = trainer.collect()
        collecting.append(time.perf_counter() - begin)
        trainer.update(data)
        updating.append(time.perf_counter() - begin - collecting[-1])
        collected += len(data.actions)
    counted = {"collected": collected, "optimizer_steps": adam_steps(trainer.optimizer.state), "minibatch": work.batch}
    return Done(collecting, updating, compiling, counted | {"parameters": count(trainer.agent.parameters())})
