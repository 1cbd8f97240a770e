"""Episodes side by side against the same episodes alone."""

from functools import cache

import numpy as np
import pytest
from helpers.specs import actor_spec
from helpers.toy_runs import HIDDEN, KINDS, SEED, actor_weights, new_model, toy_collector, toy_model
from oracles.toy_simulators import NAN_OBSERVATION, NO_ACTION, NO_FAULT, FaultParameters

from longstride.errors import PolicyNotFiniteError, SimulatorError
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector, in_groups
from longstride.rollout.loop_arrays import zeros_apart
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete

COUNT = 8


@cache
def side_by_side(kind, together=3):
    simulator, activation = KINDS[kind]
    toy = simulator()
    sizes = (toy.observation_size, *HIDDEN, toy.action_space.outputs)
    return EpisodeCollector(toy, actor_spec(toy, sizes, activation), RolloutPlan(SEED, COUNT, side_by_side=together))


def bits(played):
    return [(e.finished, *(column.tobytes() for column in e.trajectory)) for e in played]


def alone(kind, count=COUNT, first=0):
    return bits(toy_collector(kind).collect(actor_weights(toy_model(kind)), first, count)[0])


@pytest.mark.parametrize("kind", ["shop", "bandit", "choices", "tracker", "squashed"])
def test_episodes_side_by_side_are_those_alone_to_the_bit(kind):
    weights, expected = actor_weights(toy_model(kind)), alone(kind)
    assert len(set(map(str, expected))) == COUNT
    assert bits(side_by_side(kind).collect(weights, 0, COUNT)[0]) == expected
    assert bits(side_by_side(kind).collect(weights, 5, 4)[0]) == alone(kind, 4, 5)


@pytest.mark.parametrize("together", [2, 8])
def test_threads_and_groups_change_no_bit(together):
    weights, expected, collector = actor_weights(toy_model("shop")), alone("shop"), side_by_side("shop", together)
    lengths = [e.trajectory.steps for e in collector.collect(weights, 0, COUNT)[0]]
    assert len(set(lengths)) > 2, "episodes of one length would end together"
    for threads in (1, 2, 3):
        collector.threads = threads
        assert bits(collector.collect(weights, 0, COUNT)[0]) == expected
    collector.threads = 1


@pytest.mark.parametrize(("fault", "step"), [(NAN_OBSERVATION, 0), (NAN_OBSERVATION, 4), (NO_ACTION, 5)])
def test_a_fault_is_named_as_it_is_alone(fault, step):
    weights = actor_weights(toy_model("faulty"))
    sentences = []
    for collector in (toy_collector("faulty"), side_by_side("faulty")):
        collector.simulator.parameters = FaultParameters(fault, step)
        with pytest.raises(SimulatorError) as raised:
            collector.collect(weights, 42, COUNT)
        sentences.append(str(raised.value))
    assert sentences[0] == sentences[1]
    assert f"Faulty, episode 42, step {step}: " in sentences[0]


def test_a_policy_of_nans_is_not_blamed_on_the_simulator():
    collector, weights = side_by_side("faulty"), actor_weights(toy_model("faulty")).copy()
    collector.simulator.parameters, weights[-1] = FaultParameters(NO_FAULT, 0), np.nan
    with pytest.raises(PolicyNotFiniteError, match="Faulty, episode 0, step 0: the policy's own outputs were NaN"):
        collector.collect(weights, 0, COUNT)


class Moody(Simulator):
    """Draws in reset the step at which it fails: with a NaN, or with an exception; some episodes do not."""

    observation_size = 1
    action_space = Discrete(2)
    max_steps = 30
    state_dtype = np.dtype([("day", np.int64), ("nan_on", np.int64), ("raises_on", np.int64)])
    parameters = (1,)

    def reset(state, parameters, rng):
        state.day = 0
        state.nan_on = 5 + int(rng.random() * 60)
        state.raises_on = 5 + int(rng.random() * 60) if parameters[0] else 100

    def observe(state, parameters, observation):
        observation[0] = state.day

    def step(state, parameters, action, rng):
        state.day += 1
        if state.day == state.raises_on:
            raise ValueError("a bad day")
        return np.nan if state.day == state.nan_on else 1.0, False


@pytest.mark.parametrize("raises", [0, 1])
def test_one_episode_at_fault_is_named_though_others_play_beside_it(raises):
    """Alone, an episode shows what is wrong with it; side by side the first one with a NaN is named."""
    simulator = Moody()
    simulator.parameters = (raises,)
    model = new_model(simulator, "relu")
    one, several = (EpisodeCollector(simulator, model.spec, RolloutPlan(1, COUNT, side_by_side=n)) for n in (1, 4))
    weights, sentences = actor_weights(model), {}
    for number in range(COUNT):
        try:
            one.collect(weights, number, 1)
        except SimulatorError as error:
            sentences[number] = str(error)
    assert 2 <= len(sentences) < COUNT
    assert len({s.split("episode")[1] for s in sentences.values()}) == len(sentences)
    with pytest.raises(SimulatorError) as raised:
        several.collect(weights, 0, COUNT)
    first_group = [sentences[n] for n in range(4) if n in sentences] or list(sentences.values())
    if raises:
        assert str(raised.value) in first_group
    else:
        assert str(raised.value) == sentences[min(sentences)]


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
@pytest.mark.parametrize("together", [1, 3, 8])
def test_groups_hold_every_episode_once_and_are_shared_evenly_among_threads(threads, together):
    for count in range(1, 60):
        groups = in_groups(count, threads, together)
        assert [k for group in groups for k in group] == list(range(count))
        assert max(map(len, groups)) <= together
        assert max(map(len, groups)) - min(map(len, groups)) <= 1
        assert len(groups) == count or len(groups) % threads == 0


@pytest.mark.parametrize("dtype", [np.float64, Moody.state_dtype, [("a", np.uint8, (65,))]])
def test_what_threads_write_to_shares_no_cache_line(dtype):
    dtype = np.dtype(dtype)
    kept = [zeros_apart(1 + k % 3, dtype) for k in range(50)]
    lines = [(a.ctypes.data // 64, (a.ctypes.data + a.nbytes - 1) // 64) for a in kept]
    assert not any(any(a.tobytes()) for a in kept)
    assert all(a.base.ctypes.data <= 64 * begin for a, (begin, _) in zip(kept, lines, strict=True))
    assert all(64 * (end + 1) <= a.base.ctypes.data + a.base.nbytes for a, (_, end) in zip(kept, lines, strict=True))
