"""Collection by players: the same trajectories as local play to the bit."""

import numpy as np
import pytest

pytest.importorskip("pydantic")

from helpers.player_pools import assert_same, assert_same_state, copied, hosts_collector, local_collector
from helpers.toy_runs import SEED, actor_weights, new_model, toy_model

from longstride.errors import PolicyNotFiniteError
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.gymnasium_collector import GymnasiumCollector
from longstride.rollout.hosts.collector import HostsCollector
from longstride.rollout.hosts.pool import Job, LocalPool
from longstride.simulators.gym.adapter import registered

INSTANCES, STEPS, ROUNDS = 5, 50, 3


@pytest.mark.parametrize(("kind", "steps"), [("shop", STEPS), ("shop", 0), ("tracker", STEPS)])
def test_players_give_the_trajectories_of_local_play(kind, steps):
    plan = RolloutPlan(SEED, INSTANCES, steps, 2)
    local, hosts = local_collector(kind, plan), hosts_collector(kind, plan)
    weights = actor_weights(toy_model(kind))
    hosts.compile(weights)
    for number in range(ROUNDS):
        expected = copied(local.collect(weights, number * INSTANCES, INSTANCES)[0])
        assert_same(copied(hosts.collect(weights, number * INSTANCES, INSTANCES)[0]), expected)
        assert_same_state(local, hosts)
    hosts.close()


PLAN = RolloutPlan(SEED, INSTANCES, STEPS, 2)


@pytest.fixture(scope="module")
def weights():
    return [actor_weights(toy_model("shop", seed)) for seed in range(4)]


def test_the_next_rollout_is_played_with_the_parameters_of_the_last_one(weights):
    """Policies 0, 1, 2, 3 learn from rollouts that policies 0, 0, 1, 2 played, with their log-probabilities."""
    local, hosts = local_collector("shop", PLAN), hosts_collector("shop", PLAN, lag=1)
    hosts.compile(weights[0])
    for number, player in enumerate([0, 0, 1, 2]):
        ahead = copied(hosts.collect(weights[number].copy(), number * INSTANCES, INSTANCES)[0])
        assert_same(ahead, copied(local.collect(weights[player], 0, INSTANCES)[0]))
        assert hosts.figures()["hosts"]["staleness"] == (number > 0)
    hosts.close()


def test_a_rollout_ahead_is_played_again_after_a_checkpoint(weights):
    local = local_collector("shop", PLAN)
    first, second = (hosts_collector("shop", PLAN, lag=1) for _ in range(2))
    for hosts in (first, second):
        hosts.compile(weights[0])
    for number, player in enumerate([0, 0]):
        expected = copied(local.collect(weights[player], 0, INSTANCES)[0])
        assert_same(copied(first.collect(weights[number], number * INSTANCES, INSTANCES)[0]), expected)
    second.load_state_dict(first.state_dict())
    assert second.state_dict().records.keys() == first.state_dict().records.keys()
    expected = copied(local.collect(weights[1], 0, INSTANCES)[0])
    for hosts in (first, second):
        assert_same(copied(hosts.collect(weights[2], 2 * INSTANCES, INSTANCES)[0]), expected)
        hosts.close()


def test_a_policy_that_diverged_is_not_played_again(weights):
    """The rollout ahead fails one update later; after going back it is played with the good parameters."""
    local, hosts = local_collector("shop", PLAN), hosts_collector("shop", PLAN, lag=1)
    hosts.compile(weights[0])
    local.collect(weights[0], 0, INSTANCES)
    hosts.collect(weights[0], 0, INSTANCES)
    local.collect(weights[0], 0, INSTANCES)
    hosts.collect(np.full_like(weights[0], np.nan), INSTANCES, INSTANCES)
    before = hosts.state_dict()
    with pytest.raises(PolicyNotFiniteError, match="NaN"):
        hosts.collect(weights[1], 2 * INSTANCES, INSTANCES)
    hosts.load_state_dict(before)
    again = copied(hosts.collect(weights[2], 2 * INSTANCES, INSTANCES)[0])
    assert_same(again, copied(local.collect(weights[2], 0, INSTANCES)[0]))
    hosts.close()


def test_another_rollout_than_the_one_ahead_is_played_for_itself(weights):
    local, hosts = local_collector("shop", PLAN), hosts_collector("shop", PLAN, lag=1)
    hosts.compile(weights[0])
    hosts.collect(weights[0], 0, INSTANCES)
    local.collect(weights[0], 0, INSTANCES)
    hosts.resize(20)
    local.resize(20)
    expected = copied(local.collect(weights[1], 0, INSTANCES)[0])
    assert_same(copied(hosts.collect(weights[1], 0, INSTANCES)[0]), expected)
    hosts.close()


@pytest.mark.parametrize(("lost", "lag"), [(False, 0), (True, 0), (False, 1)])
def test_environments_continue_where_they_are_or_elsewhere(lost, lag):
    """Cut after 7 steps and rolled out by 5, episodes go on over rollouts; a new player takes their steps again."""
    pytest.importorskip("gymnasium")
    simulator = registered("oracles.toy_environments:LongstrideWalk-v0", {"cut": 7})
    model = new_model(simulator, "relu")
    plan = RolloutPlan(SEED, 3, 5)
    local, pool = GymnasiumCollector(simulator, model.spec, plan), LocalPool(1)
    hosts = HostsCollector(Job(simulator, {}, model.spec, plan), pool, lag)
    weights = actor_weights(model)
    local.compile(weights)
    hosts.compile(weights)
    for number in range(4):
        assert_same(copied(hosts.collect(weights, 3 * number, 3)[0]), copied(local.collect(weights, 0, 3)[0]))
        assert hosts.state_dict().metadata == local.state_dict().metadata
        opened = [each.environment for each in pool._player._runner.collector._instances]
        if lost:
            pool._player.begin(simulator, model.spec, plan, 0)
            assert opened[0] is not pool._player._runner.collector.instance(0).environment
    hosts.close()
