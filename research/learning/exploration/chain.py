"""Finite decision problems: the best metric, and the exact metric of any policy, without a simulation."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from longstride.simulators.simulator import new_state
from research.learning.further_problems import LONG


class Chain(NamedTuple):
    """What a simulator does, as probabilities.

    Attributes:
        transitions: for each action, sparse float64[states, states] probabilities.
        rewards: float64[states, actions], expected.
        start: state after a reset.
        steps: steps of an episode; LONG if the process has no end.
        scale: metric of the simulator for a mean reward of 1 a step, such as -1 for a cost.
    """

    transitions: list[Any]
    rewards: np.ndarray
    start: int
    steps: int
    scale: float


def best(chain: Chain, tolerance: float = 1e-7) -> float:
    """Return the best metric: of an episode by backward induction, without an end by relative value iteration."""
    values, steps = np.zeros(len(chain.rewards)), 0
    while True:
        backed_up = np.stack([chain.rewards[:, a] + p @ values for a, p in enumerate(chain.transitions)]).max(axis=0)
        gain, steps = backed_up - values, steps + 1
        if chain.steps < LONG:
            values = backed_up
            if steps == chain.steps:
                return float(chain.scale * values[chain.start] / steps)
        elif np.ptp(gain) < tolerance:
            return float(chain.scale * gain.mean())
        else:
            values = 0.5 * (values + backed_up)  # half a step of a chain that may be periodic
            values -= values[chain.start]


def metric_of(chain: Chain, policy: np.ndarray) -> float:
    """Return the expected metric of an episode.

    Args:
        chain: problem.
        policy: float64[states, actions], probabilities.
    """
    matrix = sum(sparse.diags(policy[:, a]) @ p for a, p in enumerate(chain.transitions)).T.tocsr()
    rewards = (policy * chain.rewards).sum(axis=1)
    share, total = np.zeros(len(rewards)), 0.0
    share[chain.start] = 1.0
    for step in range(chain.steps):
        total += share @ rewards
        after = matrix @ share
        if np.abs(after - share).sum() < 1e-12:
            total += (chain.steps - step - 1) * (after @ rewards)
            break
        share = after
    return float(chain.scale * total / chain.steps)


def uniform(chain: Chain) -> np.ndarray:
    """Return the policy that draws every action equally often, float64[states, actions]."""
    return np.full(chain.rewards.shape, 1.0 / chain.rewards.shape[1])


def policy_of_rule(problem: Any, chain: Chain, rule: Any) -> np.ndarray:
    """Return the policy of a heuristic, float64[states, actions]."""
    policy, states = np.zeros(chain.rewards.shape), new_state(problem)
    mask, rng = np.ones(chain.rewards.shape[1], np.bool_), np.random.default_rng(0)
    for row in range(len(policy)):
        problem.write(states[0], row)
        policy[row, rule(states[0], problem.parameters, mask, rng)] = 1.0
    return policy


def policy_of_network(problem: Any, chain: Chain, network: Any, greedy: bool) -> np.ndarray:
    """Return what a loaded policy without memory does in each state, float64[states, actions]."""
    policy, states = np.zeros(chain.rewards.shape), new_state(problem)
    for row in range(len(policy)):
        problem.write(states[0], row)
        observation = np.zeros(problem.observation_size, np.float32)
        problem.observe(states[0], problem.parameters, observation)
        action, chances = network.decide(observation)
        if greedy:
            policy[row, action] = 1.0
        else:
            policy[row] = chances / chances.sum(dtype=np.float64)
    return policy


def metrics_of_rules(problem: Any, chain: Chain) -> Mapping[str, float]:
    """Return the expected metric of each heuristic of a problem, by name."""
    return {name: metric_of(chain, policy_of_rule(problem, chain, rule)) for name, rule in problem.heuristics.items()}


def chain_of(moves: list[tuple[int, int, int, float, float]], shape: tuple[int, int], *form: Any) -> Chain:
    """Return the chain of single moves.

    Args:
        moves: (state, action, state after, probability, reward); equal ones are added up.
        shape: states, actions.
        form: start, steps and scale of the chain.
    """
    columns = [np.array(column) for column in zip(*moves, strict=True)]
    return chain_of_arrays(*columns, shape, *form)


def chain_of_arrays(
    states: np.ndarray,
    actions: np.ndarray,
    after: np.ndarray,
    chances: np.ndarray,
    gains: np.ndarray,
    shape: tuple[int, int],
    *form: Any,
) -> Chain:
    """Return the chain of moves that are arrays, int64[moves] and float64[moves]; otherwise like :func:`chain_of`."""
    size, choices = shape
    rewards = np.zeros(shape)
    np.add.at(rewards, (states, actions), chances * gains)
    transitions = []
    for action in range(choices):
        own = actions == action
        moves = sparse.coo_matrix((chances[own], (states[own], after[own])), (size, size)).tocsr()
        moves.eliminate_zeros()
        transitions.append(moves)
    return Chain(transitions, rewards, *form)
