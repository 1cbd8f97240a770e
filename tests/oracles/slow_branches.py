"""The branches of a decision as they would be written without any thought of speed: plain functions, one at a time."""

from typing import Any, NamedTuple

import numpy as np
from oracles.slow_episode import _look, _optional, _sample, on_bounds

from longstride.policies.networks import ActorCritic
from longstride.rollout.branches import BranchPlan
from longstride.seeding import stream
from longstride.simulators.simulator import Simulator


class SlowBranch(NamedTuple):
    """The first decision, rewards and elapsed times of all, and how the branch ended."""

    observation: np.ndarray
    mask: np.ndarray
    features: np.ndarray
    action: Any
    log_prob: float
    rewards: list[float]
    elapsed: list[float]
    end: np.ndarray
    terminated: bool


def branch_slowly(
    simulator: Simulator, model: ActorCritic, state: np.ndarray, plan: BranchPlan, name: tuple[int, ...]
) -> list[SlowBranch]:
    """Play the branches of a decision from ``state_dtype``[1]; the name is (seed, instance, episode, age).

    First actions are drawn one after another from one stream. All else comes from streams that are the same for all.
    """
    seed, *index = name
    first_actions = stream(seed, "branch action", *index)
    branches = []
    for _ in range(plan.size):
        record, rng = state.copy().view(np.recarray)[0], stream(seed, "branch", *index)
        policy_rng, age, steps = stream(seed, "branch policy", *index), index[-1], []
        while len(steps) < plan.length:
            look = _look(simulator, record)
            action, log_prob = _sample(model, *look, policy_rng if steps else first_actions)
            clock = _optional(simulator, "time", record)
            played = on_bounds(simulator.action_space, action)
            reward, terminated = type(simulator).step(record, simulator.parameters, played, rng)
            age += 1
            steps.append((*look, action, log_prob, reward, _optional(simulator, "time", record) - clock))
            if terminated or age == simulator.max_steps or _optional(simulator, "truncated", record):
                break
        *first, _, _ = steps[0]
        rewards, elapsed = ([step[column] for step in steps] for column in (-2, -1))
        branches.append(SlowBranch(*first, rewards, elapsed, _look(simulator, record)[0], bool(terminated)))
    return branches
