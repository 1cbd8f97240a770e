"""Rollouts with exploring starts: excursions from archived states, the same for all threads and after a checkpoint."""

import numpy as np
import pytest
from helpers.specs import actor_spec
from helpers.toy_runs import HIDDEN, SEED, actor_weights, toy_model
from oracles.toy_simulators import Shop

from longstride.rollout.collector import CollectorState, RolloutPlan
from longstride.rollout.exploring.exploration import LONG, SHORT
from longstride.rollout.fixed_length_collector import FixedLengthCollector

STEPS, INSTANCES, ROUNDS = 78, 8, 4
EXPLORERS = {1: LONG, 5: SHORT}  # and the most steps of their excursions


def new_collector(threads=1, explorers=4, first=0, instances=INSTANCES, of=0):
    simulator = Shop()
    sizes = (simulator.observation_size, *HIDDEN, simulator.action_space.outputs)
    plan = RolloutPlan(SEED, instances, STEPS, threads, restart_after=1_000, explorers=explorers, first=first, of=of)
    return FixedLengthCollector(simulator, actor_spec(simulator, sizes, "relu"), plan)


def test_the_reach_of_a_collector_is_the_share_of_an_episode_that_is_played():
    collector = new_collector()
    assert collector.reach == 0.1
    collector.exploring._reach.now = 150
    assert collector.reach == 0.15
    assert new_collector(explorers=0).reach == 1.0


def played(collector, weights, rounds):
    """Return a copy of the trajectories, outcomes and kinds of starts of some rollouts."""
    found = []
    for _ in range(rounds):
        rollouts, _ = collector.collect(weights, 0, collector.plan.instances)
        found.append(
            [(type(r.trajectory)(*(a.copy() for a in r.trajectory)), r.finished, r.is_natural) for r in rollouts]
        )
    return found


def same(one, other):
    return all(
        np.array_equal(a, b, equal_nan=True)
        for mine, others in zip(one, other, strict=True)
        for left, right in zip(mine, others, strict=True)
        for a, b in zip(left[0], right[0], strict=True)
    )


@pytest.fixture(scope="module")
def weights():
    return actor_weights(toy_model("shop"))


@pytest.fixture(scope="module")
def rollouts(weights):
    return played(new_collector(), weights, ROUNDS)


def test_one_of_four_instances_makes_excursions_once_something_is_archived(rollouts):
    later = [i not in EXPLORERS for i in range(INSTANCES)]
    assert [[natural for *_, natural in round_] for round_ in rollouts] == [[True] * INSTANCES] + [later] * 3


@pytest.mark.parametrize(("explorer", "most"), EXPLORERS.items())
def test_excursions_end_by_a_cut_and_count_as_no_episode(rollouts, explorer, most):
    lengths = []
    for round_ in rollouts[1:]:
        trajectory, finished, _ = round_[explorer]
        ends = np.flatnonzero(trajectory.truncated | trajectory.terminated)
        lengths += np.diff(np.r_[-1, ends]).tolist()
        assert trajectory.truncated[-1] | trajectory.terminated[-1]
        assert finished == []
        assert len(trajectory.cut_observations) == trajectory.truncated[:-1].sum()
    assert max(lengths) <= most
    assert (max(lengths) > SHORT) is (most == LONG), "most long ones end earlier, as the shop goes broke"


def test_the_other_instances_play_as_without_excursions(rollouts, weights):
    plain = played(new_collector(explorers=0), weights, ROUNDS)
    for mine, others in zip(rollouts, plain, strict=True):
        for i in set(range(INSTANCES)) - set(EXPLORERS):
            assert all(np.array_equal(a, b) for a, b in zip(mine[i][0], others[i][0], strict=True))


def test_threads_change_nothing(rollouts, weights):
    assert same(rollouts, played(new_collector(threads=4), weights, ROUNDS))


def test_a_checkpoint_continues_to_the_bit(rollouts, weights):
    begun, other = new_collector(), new_collector()
    played(begun, weights, 2)
    state = begun.state_dict()
    other.load_state_dict(CollectorState({n: a.copy() for n, a in state.records.items()}, state.metadata))
    assert same(rollouts[2:], played(other, weights, 2))


def test_two_processes_that_share_what_they_find_play_the_same(rollouts, weights):
    halves = [new_collector(first=first, instances=4, of=INSTANCES) for first in (0, 4)]
    found = []
    for _ in range(ROUNDS):
        rollouts_of_halves, shared = [played(half, weights, 1)[0] for half in halves], [half.part for half in halves]
        for half in halves:
            half.restart_old_episodes(any(each.terminated for each in halves), shared)
        found.append(rollouts_of_halves[0] + rollouts_of_halves[1])
    assert same(rollouts, found)


def test_forgotten_states_leave_a_natural_rollout_and_excursions_begin_again(weights):
    collector = new_collector()
    played(collector, weights, 2)
    collector.exploring.forget()
    assert len(collector.exploring.rare_states(8)) == 0
    kinds = [[natural for *_, natural in round_] for round_ in played(collector, weights, 2)]
    assert kinds == [[True] * INSTANCES, [i not in EXPLORERS for i in range(INSTANCES)]]
    new_collector(explorers=0).exploring.forget()
