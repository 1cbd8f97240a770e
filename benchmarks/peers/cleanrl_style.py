"""PPO as CleanRL's ppo.py does it, written anew (Huang et al., "CleanRL", JMLR 23, 2022; github.com/vwxyzjn/cleanrl).

As there: one agent module, Gymnasium's vector environment with one copy in it, torch operation by operation at each
step, advantages in a loop over tensors, minibatches by index. Networks, rollout, minibatches, epochs and coefficients
are those of the other trainers instead of its defaults, the learning rate stays, and values are not clipped.
"""

import time
from itertools import pairwise
from typing import NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import Tensor, nn
from torch.distributions import Categorical

from benchmarks.long_queue import LongQueueEnvironment
from benchmarks.peers.work import (
    ACTIONS,
    CLIP_RANGE,
    ENTROPY_COEFFICIENT,
    GAMMA,
    LAMBDA,
    LEARNING_RATE,
    MAX_GRAD_NORM,
    OBSERVATIONS,
    VALUE_COEFFICIENT,
    Done,
    Work,
    adam_steps,
    count,
)


class Agent(nn.Module):
    """Actor and critic."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.critic = _network((OBSERVATIONS, *work.critic, 1), 1.0)
        self.actor = _network((OBSERVATIONS, *work.actor, ACTIONS), 0.01)

    def get_action_and_value(
        self, observations: Tensor, actions: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return actions, drawn where none are given, with their log-probabilities, entropies and values."""
        distribution = Categorical(logits=self.actor(observations))
        if actions is None:
            actions = distribution.sample()
        return actions, distribution.log_prob(actions), distribution.entropy(), self.critic(observations)


def _network(sizes: tuple[int, ...], last_gain: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for m, n in pairwise(sizes):
        layer = nn.Linear(m, n)
        nn.init.orthogonal_(layer.weight, 2.0**0.5 if len(layers) < 2 * (len(sizes) - 2) else last_gain)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Rollout(NamedTuple):
    """T steps of one copy.

    ``dones`` says of each whether an episode ended just before it; it has one more, of what follows the rollout, whose
    observation is ``following``.
    """

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    rewards: Tensor
    values: Tensor
    dones: Tensor
    following: Tensor


class Batch(NamedTuple):
    """Samples of an update."""

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor


def one_environment(episode: int) -> SyncVectorEnv:
    """Return a vector environment of one LongQueue that begins anew in the step that ends an episode."""
    make = lambda: gymnasium.wrappers.RecordEpisodeStatistics(LongQueueEnvironment(episode))  # noqa: E731
    return SyncVectorEnv([make], autoreset_mode=AutoresetMode.SAME_STEP)


class Collector:
    """Plays one environment step by step.

    Args:
        agent: acts.
        environment: a vector environment of one copy.
    """

    def __init__(self, agent: Agent, environment: SyncVectorEnv) -> None:
        self.agent, self.environment = agent, environment
        self.observation, self.done = torch.Tensor(environment.reset(seed=0)[0]), torch.zeros(1)

    def collect(self, steps: int) -> Rollout:
        """Play on for some steps."""
        observations, actions = torch.zeros(steps, 1, OBSERVATIONS), torch.zeros(steps, 1)
        log_probs, rewards, values, dones = (torch.zeros(steps + k, 1) for k in (0, 0, 0, 1))
        for t in range(steps):
            observations[t], dones[t] = self.observation, self.done
            with torch.no_grad():
                action, log_prob, _, value = self.agent.get_action_and_value(self.observation)
                values[t] = value.flatten()
            actions[t], log_probs[t] = action, log_prob
            observation, reward, terminated, truncated, _ = self.environment.step(action.cpu().numpy())
            rewards[t] = torch.tensor(reward).view(-1)
            self.observation = torch.Tensor(observation)
            self.done = torch.Tensor(np.logical_or(terminated, truncated))
        dones[steps] = self.done
        return Rollout(observations, actions, log_probs, rewards, values, dones, self.observation)


@torch.no_grad()
def advantages_of(rollout: Rollout, following: Tensor) -> Tensor:
    """Return float32[T, 1], generalised advantage estimation; ``following`` is the value of what follows."""
    advantages, advantage = torch.zeros_like(rollout.rewards), torch.zeros(1)
    steps = len(rollout.rewards)
    for t in reversed(range(steps)):
        going_on = 1.0 - rollout.dones[t + 1]
        next_value = following if t == steps - 1 else rollout.values[t + 1]
        delta = rollout.rewards[t] + GAMMA * next_value * going_on - rollout.values[t]
        advantages[t] = advantage = delta + GAMMA * LAMBDA * going_on * advantage
    return advantages


def loss_of(agent: Agent, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss of a minibatch, the approximate KL divergence and the fraction that is clipped."""
    _, log_probs, entropies, values = agent.get_action_and_value(batch.observations, batch.actions)
    log_ratio = log_probs - batch.log_probs
    ratio = log_ratio.exp()
    with torch.no_grad():
        kl = ((ratio - 1.0) - log_ratio).mean()
        clipped = ((ratio - 1.0).abs() > CLIP_RANGE).float().mean()
    advantages = (batch.advantages - batch.advantages.mean()) / (batch.advantages.std() + 1e-8)
    policy = torch.max(-advantages * ratio, -advantages * ratio.clamp(1.0 - CLIP_RANGE, 1.0 + CLIP_RANGE)).mean()
    value = (values.view(-1) - batch.returns).square().mean()
    return policy - ENTROPY_COEFFICIENT * entropies.mean() + VALUE_COEFFICIENT * value, kl, clipped


def update(agent: Agent, optimizer: torch.optim.Adam, data: Batch, work: Work, rng: np.random.Generator) -> list[float]:
    """Take the optimiser steps of a rollout; return the fractions that were clipped."""
    indices, fractions = np.arange(work.steps), []
    for _ in range(work.epochs):
        rng.shuffle(indices)
        for start in range(0, work.steps, work.batch):
            chosen = indices[start : start + work.batch]
            loss, _, clipped = loss_of(agent, Batch(*(column[chosen] for column in data)))
            fractions.append(clipped.item())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), MAX_GRAD_NORM)
            optimizer.step()
    return fractions


def train(work: Work) -> Done:
    """Train; what is worked out of advantages is part of the update."""
    torch.set_num_threads(work.threads)
    torch.manual_seed(0)
    rng, agent = np.random.default_rng(0), Agent(work)
    optimizer = torch.optim.Adam(agent.parameters(), lr=LEARNING_RATE, eps=1e-5)
    collector, collecting, updating, collected = Collector(agent, one_environment(work.steps)), [], [], 0
    for _ in range(work.rounds):
        begin = time.perf_counter()
        rollout = collector.collect(work.steps)
        collecting.append(time.perf_counter() - begin)
        with torch.no_grad():
            following = agent.critic(rollout.following).flatten()
        advantages = advantages_of(rollout, following)
        columns = rollout.observations, rollout.actions.long(), rollout.log_probs
        data = Batch(*(column.flatten(0, 1) for column in (*columns, advantages, advantages + rollout.values)))
        update(agent, optimizer, data, work, rng)
        updating.append(time.perf_counter() - begin - collecting[-1])
        collected += len(rollout.rewards)
    counted = {
        "collected": collected,
        "optimizer_steps": adam_steps(optimizer.state),
        "minibatch": len(data[0][: work.batch]),
    }
    return Done(collecting, updating, 0.0, counted | {"parameters": count(agent.parameters())})
