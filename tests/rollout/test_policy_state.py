"""The state that a policy carries from step to step, with a network that counts steps and sums observations."""

import json

import numpy as np
import pytest
from helpers.toy_runs import CRITIC_HIDDEN, HIDDEN, SEED, actor_weights, toy_collector, toy_model
from numba import njit
from oracles.toy_simulators import Shop

from longstride.policies.compiled.network import Network
from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import CHUNK, Family, PolicySpec, Remembering
from longstride.rollout.collector import CollectorState, RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.rollout.fixed_length_collector import FixedLengthCollector

INSTANCES, STEPS = 3, 50
PARAMS = np.zeros(2000, np.float32)  # the sampling reads the weights of the action features at its end


@njit
def load(params, observation, workspace, place):
    """Keep the observed value at the place."""
    workspace[64 * place] = observation[0]


@njit
def advance(params, states, members, workspace, count):
    """Count and sum."""
    for place in range(count):
        states[members[place], 0] += 1
        states[members[place], 1] += workspace[64 * place]
        workspace[64 * place + 2 : 64 * place + 6] = 0.0


@njit
def outputs(workspace, place):
    """Like no action more."""
    return workspace[64 * place + 2 : 64 * place + 6]


COUNTING = Family(
    "counting",
    MLP.matrices,
    lambda spec: Network(load, advance, outputs, 64),
    Remembering(state_size=lambda spec, hidden: 2, reach=lambda spec: 0),
)
"""A family whose state is (steps so far, sum of the first observed value), and which likes no action more."""


@pytest.fixture
def counting():
    """Return the spec of a shop's policy that counts."""
    shop, hidden = Shop(), (HIDDEN, CRITIC_HIDDEN)
    spec = PolicySpec(shop.observation_size, shop.action_space, *hidden, "relu", COUNTING, shop.action_feature_size)
    assert spec.layout.feature_weights_offset + spec.action_features <= len(PARAMS), (
        "else it reads what lies behind them"
    )
    return spec


def counted(trajectory, before=(0.0, 0.0)):
    """Return the states that a trajectory must have, one for each chunk, and the one after it."""
    states, state = [], np.array(before, np.float32)
    for t in range(trajectory.steps):
        states.append(state)
        state = state + np.array([1.0, trajectory.observations[t, 0]], np.float32)
        if trajectory.terminated[t] or trajectory.truncated[t]:
            state = np.zeros(2, np.float32)
    return np.stack(states[::CHUNK]), state


@pytest.mark.parametrize("side_by_side", [1, 3])
def test_every_episode_begins_with_zeros_and_keeps_the_state_before_each_step(counting, side_by_side):
    collector = EpisodeCollector(Shop(), counting, RolloutPlan(SEED, 5, side_by_side=side_by_side))
    episodes, _ = collector.collect(PARAMS, 0, 5)
    for trajectory, *_ in episodes:
        assert trajectory.steps > 1
        assert trajectory.states.tolist() == counted(trajectory)[0].tolist()


def test_the_state_of_an_unfinished_episode_goes_into_the_next_rollout_and_through_a_checkpoint(counting):
    collector, other = (FixedLengthCollector(Shop(), counting, RolloutPlan(SEED, INSTANCES, STEPS)) for _ in range(2))
    states = [(0.0, 0.0)] * INSTANCES
    for _ in range(3):
        records, metadata = collector.state_dict()
        other.load_state_dict(CollectorState(records, json.loads(json.dumps(metadata))))
        again = [t.states.tolist() for t, *_ in other.collect(PARAMS, 0, INSTANCES)[0]]
        for i, (trajectory, *_) in enumerate(collector.collect(PARAMS, 0, INSTANCES)[0]):
            expected, states[i] = counted(trajectory, states[i])
            assert trajectory.states.tolist() == expected.tolist() == again[i]
    assert any(state[0] > 0 for state in states), "an episode that continues"


def test_a_policy_without_memory_has_states_of_no_bytes():
    (shop, *_), _ = toy_collector("shop").collect(actor_weights(toy_model("shop")), 0, 2)
    assert shop.trajectory.states.shape == (shop.trajectory.steps, 0)
    assert shop.trajectory.states.nbytes == 0
