"""Instances in groups: the same start and luck for all members, actions of their own."""

import json
import time

import numpy as np
import pytest
from helpers.group_runs import GROUP, assert_same_bits, copied, group_collector, shop_model
from helpers.short_shop import ShortShop
from helpers.toy_runs import SEED, actor_weights

from longstride.rollout.collector import CollectorState, RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector

STEPS, INSTANCES, ROUNDS, MODEL = 30, 2 * GROUP, 4, shop_model()


def rounds_of(collector, rounds=ROUNDS):
    """Return the trajectories of some rounds, and the collector's state before each."""
    states, rollouts = [], []
    for _ in range(rounds):
        states.append(collector.state_dict())
        rollouts.append([copied(r).trajectory for r in collector.collect(actor_weights(MODEL), 0, INSTANCES)[0]])
    return rollouts, [*states, collector.state_dict()]


@pytest.fixture(scope="module")
def grouped():
    return rounds_of(group_collector(STEPS, INSTANCES, group_size=GROUP))


def first_episode(trajectory):
    """Return the number of steps of the episode that a rollout begins with."""
    ended = trajectory.terminated | trajectory.truncated
    return int(ended.argmax()) + 1 if ended.any() else trajectory.steps


def test_the_members_of_a_group_begin_each_rollout_in_one_state(grouped):
    rollouts, states = grouped
    for begin in range(0, INSTANCES, GROUP):
        for records, metadata in states[1:]:
            saved = [records[f"rollout.{i}.state"].tobytes() for i in range(begin, begin + GROUP)]
            assert len(set(saved)) == 1
            same = [{k: v for k, v in each.items() if k != "policy_rng"} for each in metadata[begin : begin + GROUP]]
            assert all(each == same[0] for each in same)
            policies = [json.dumps(each["policy_rng"]) for each in metadata[begin : begin + GROUP]]
            assert len(set(policies)) == GROUP, "their actions are their own"
    for members in (each[begin : begin + GROUP] for each in rollouts for begin in range(0, INSTANCES, GROUP)):
        assert len({t.observations[0].tobytes() for t in members}) == 1


def test_some_rollouts_begin_within_an_episode_and_members_part(grouped):
    rollouts, states = grouped
    ages = [metadata[0]["age"] for _, metadata in states[1:] if not metadata[0]["over"]]
    assert any(0 < age < ShortShop.max_steps for age in ages)
    assert any(first_episode(t) != first_episode(members[0]) for members in rollouts for t in members[1:GROUP])


def test_members_meet_the_same_demand_and_the_same_intervals(grouped):
    """The shop draws both at each step; the groups differ."""
    for members in grouped[0]:
        for begin in range(0, INSTANCES, GROUP):
            first = members[begin]
            for other in members[begin + 1 : begin + GROUP]:
                n = min(first_episode(first), first_episode(other))
                assert np.array_equal(first.observations[1:n, 3], other.observations[1:n, 3])
                np.testing.assert_allclose(first.elapsed[:n], other.elapsed[:n], rtol=1e-9)
        assert not np.array_equal(members[0].observations[1:5, 3], members[GROUP].observations[1:5, 3])


def test_members_are_alike_up_to_the_first_action_that_differs(grouped):
    parted = 0
    for members in grouped[0]:
        first = members[0]
        for other in members[1:GROUP]:
            differing = int((first.actions != other.actions).argmax())
            assert np.array_equal(first.observations[: differing + 1], other.observations[: differing + 1])
            assert np.array_equal(first.rewards[:differing], other.rewards[:differing])
            parted += differing < STEPS - 1 and bool((first.rewards[differing:] != other.rewards[differing:]).any())
    assert parted > ROUNDS


def test_the_first_member_plays_on_as_if_there_were_no_group(grouped):
    alone, _ = rounds_of(group_collector(STEPS, INSTANCES))
    for with_group, without in zip(grouped[0], alone, strict=True):
        assert_same_bits(with_group[0], without[0])
        assert with_group[1].actions.tobytes() != without[1].actions.tobytes()


def test_threads_change_no_bit(grouped):
    threaded, _ = rounds_of(group_collector(STEPS, INSTANCES, threads=3, group_size=GROUP))
    for one, other in zip(grouped[0], threaded, strict=True):
        for a, b in zip(one, other, strict=True):
            assert_same_bits(a, b)


def test_a_restored_collector_goes_on_to_the_bit(grouped):
    """Through JSON, as a checkpoint does."""
    rollouts, states = grouped
    collector = group_collector(STEPS, INSTANCES, group_size=GROUP)
    collector.load_state_dict(CollectorState(states[2].records, json.loads(json.dumps(states[2].metadata))))
    for expected, found in zip(rollouts[2:], rounds_of(collector, ROUNDS - 2)[0], strict=True):
        for one, other in zip(expected, found, strict=True):
            assert_same_bits(one, other)


def whole_episodes(group_size, first=INSTANCES):
    collector = EpisodeCollector(ShortShop(), MODEL.spec, RolloutPlan(SEED, INSTANCES, group_size=group_size))
    return [r.trajectory for r in collector.collect(actor_weights(MODEL), first, INSTANCES)[0]]


def test_whole_episodes_of_a_group_have_the_same_luck():
    """Episode 8 is the first of group 2, whose stream of the simulator is that of episode 2 without groups."""
    members, plain = whole_episodes(GROUP), whole_episodes(1, first=2)
    for begin in range(0, INSTANCES, GROUP):
        luck = plain[begin // GROUP]
        for t in members[begin : begin + GROUP]:
            n = min(t.steps, luck.steps)
            assert np.array_equal(t.observations[0], luck.observations[0])
            assert np.array_equal(t.observations[1:n, 3], luck.observations[1:n, 3])
    assert len({t.actions[:5].tobytes() for t in members[:GROUP]}) > 1
    assert {t.observations[1:4, 3].tobytes() for t in members[:GROUP]} != {
        t.observations[1:4, 3].tobytes() for t in members[GROUP:]
    }


def test_an_episode_is_not_played_twice_with_the_same_random_streams():
    """A member that was ahead goes back to where the first one is, but not to the number of its episode."""
    collector = group_collector(30, GROUP, group_size=GROUP)
    begun, weights = [], actor_weights(shop_model())
    for instance in collector._instances:
        real = instance._streams.at
        instance._streams.at = lambda number, real=real, i=instance.index: begun.append((i, number)) or real(number)
    for _ in range(6):
        collector.collect(weights, 0, GROUP)
    assert len(begun) > 6 * GROUP
    assert len(set(begun)) == len(begun)


def test_the_seconds_of_a_collection_are_those_on_the_clock():
    collector, begin = group_collector(STEPS, INSTANCES, group_size=GROUP), time.perf_counter()
    _, seconds = collector.collect(actor_weights(MODEL), 0, INSTANCES)
    assert 0.0 < seconds <= time.perf_counter() - begin
