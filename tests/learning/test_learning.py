"""It learns: one toy of each action space, held against random play and a rule on episodes that it has not seen.

Nothing here can pass by luck: seeds are fixed, the policy has to be better than both by ten standard errors of the
paired differences, and the same policy before training must fail the same comparison.
"""

import numpy as np
import pytest
import torch
from helpers.slow_cases import mostly_slow
from helpers.toy_runs import (
    KINDS,
    SEED,
    actor_weights,
    toy_collector,
    toy_model,
    toy_update,
    toy_updater,
)

from longstride.policies.networks import ActorCritic, initialise
from longstride.seeding import stream
from longstride.simulators.check import random_action
from longstride.simulators.simulator import new_state

UNSEEN = range(1_000, 1_016)
CASES = {
    # rounds of one episode, changed settings, the best return of an episode, how much of the way from random to it
    "bandit": (60, {}, 256.0, 0.97),  # Discrete, masked
    "choices": (60, {}, 200.0, 0.93),  # MultiDiscrete, masked
    "tracker": (100, {"learning_rate_actor": 1e-2, "learning_rate_critic": 5e-3}, 0.0, 0.95),  # Box, clipped
    "squashed": (100, {"learning_rate_actor": 1e-2, "learning_rate_critic": 5e-3}, 0.0, 0.95),  # Box, squashed
}


def fresh_model(kind: str) -> ActorCritic:
    """Return the policy that a run begins with."""
    model = toy_model(kind)
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.tensors["observation_mean"].zero_()
        model.tensors["observation_scale"].fill_(1.0)
        if kind == "bandit":  # its last number is noise of about 15
            model.tensors["observation_mean"][4], model.tensors["observation_scale"][4] = 15.0, 0.1
    return model


def train(model, kind, rounds, **changes):
    settings = {"learning_rate_actor": 3e-3, "epochs": 4, "entropy_coefficient": 0.0, **changes}
    updater = toy_updater(model, **settings)
    for number in range(rounds):
        episodes, _ = toy_collector(kind).collect(actor_weights(model), number, 1)
        toy_update(updater, episodes, number)


def policy_returns(model, kind):
    """Return the sampled policy's returns in the unseen episodes."""
    collector, weights = toy_collector(kind), actor_weights(model)
    return np.array([collector.collect(weights, number, 1)[0][0].finished[0].total_reward for number in UNSEEN])


def at_random(simulator, state, mask, rng):
    return random_action(simulator.action_space, mask, rng)


def by_rule(simulator, state, mask, rng):
    """Be right about half of it: two of four contexts, one of three choices, one of two numbers."""
    action = random_action(simulator.action_space, mask, rng)
    if "context" in state.dtype.names:
        return state.context if state.context < 2 else action
    if "right" in state.dtype.names:
        action[0] = state.right[0]
        return action
    return np.array([state.x[0], 0.0], np.float32)


def rule_returns(kind, act):
    """Play the unseen episodes as plain Python."""
    simulator, returns = KINDS[kind][0](), []
    for number in UNSEEN:
        rng, own, state = stream(SEED, "simulator", number), np.random.default_rng(number), new_state(simulator)[0]
        toy, total = type(simulator), 0.0
        toy.reset(state, simulator.parameters, rng)
        for _ in range(simulator.max_steps):
            mask = np.ones(sum(simulator.action_space.choices), np.bool_)
            if len(mask):
                toy.action_mask(state, simulator.parameters, mask)
            total += toy.step(state, simulator.parameters, act(simulator, state, mask, own), rng)[0]
        returns.append(total)
    return np.array(returns)


def standard_errors(better, worse):
    """Return by how many standard errors of the paired difference one is better."""
    difference = better - worse
    return difference.mean() / (difference.std(ddof=1) / np.sqrt(len(difference)))


@pytest.mark.parametrize("kind", mostly_slow(CASES, "bandit"))
def test_it_learns(kind):
    rounds, changes, best, share = CASES[kind]
    model = fresh_model(kind)
    random, rule = rule_returns(kind, at_random), rule_returns(kind, by_rule)
    assert standard_errors(rule, random) > 10.0
    assert standard_errors(policy_returns(model, kind), rule) < 0.0, "a policy that has learned nothing must fail"
    train(model, kind, rounds, **changes)
    learned = policy_returns(model, kind)
    assert standard_errors(learned, random) > 10.0
    assert standard_errors(learned, rule) > 10.0
    assert learned.mean() > random.mean() + share * (best - random.mean())
