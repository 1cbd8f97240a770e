"""Further outcomes of each step: they follow the simulator's law, and what is played does not notice them."""

import json

import numpy as np
import pytest
from helpers.specs import actor_spec
from helpers.toy_runs import HIDDEN, SEED, actor_weights, toy_model
from oracles.toy_simulators import NAN_REWARD, Bandit, Choices, FaultParameters, Faulty, Shop
from scipy import stats

from longstride.errors import OutcomeError, SimulatorError
from longstride.rollout.collector import CollectorState, RolloutPlan
from longstride.rollout.fixed_length_collector import FixedLengthCollector
from longstride.rollout.outcomes import drawn as outcomes
from longstride.rollout.outcomes.drawn import hashes_of, outcome_bytes
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Box, MultiDiscrete

STEPS, INSTANCES, DRAWS = 120, 3, 5


def new_collector(simulator, draws=DRAWS, threads=1, steps=STEPS, explorers=0):
    spec = actor_spec(simulator, (simulator.observation_size, *HIDDEN, simulator.action_space.outputs), "relu")
    restart = 40 if explorers else 0
    plan = RolloutPlan(SEED, INSTANCES, steps, threads, restart_after=restart, explorers=explorers, draws=draws)
    return FixedLengthCollector(simulator, spec, plan)


def collected(collector, weights, rollouts=1):
    """Return copies of (trajectory, drawn) of each instance in some rollouts, one after another."""
    found = []
    for _ in range(rollouts):
        for each in collector.collect(weights, 0, INSTANCES)[0]:
            drawn = None if each.drawn is None else type(each.drawn)(*(column.copy() for column in each.drawn))
            found.append((type(each.trajectory)(*(column.copy() for column in each.trajectory)), drawn))
    return found


def same_bits(one, other):
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def shop():
    return collected(new_collector(Shop()), actor_weights(toy_model("shop")), 3)


@pytest.mark.parametrize("explorers", [0, 2])
def test_what_is_played_is_the_same_with_and_without_them(explorers):
    weights = actor_weights(toy_model("shop"))
    with_them = collected(new_collector(Shop(), explorers=explorers), weights, 3)
    without = collected(new_collector(Shop(), draws=0, explorers=explorers), weights, 3)
    assert all(same_bits(one, other) for (one, _), (other, _) in zip(with_them, without, strict=True))
    assert all(drawn is None for _, drawn in without)


def test_each_outcome_is_one_that_the_step_can_have(shop):
    """Stock, cash, clock and weekend follow from the state before, the action, and the demand that was drawn."""
    price, holding, _ = Shop.parameters
    for t, drawn in shop:
        stock, cash = t.observations[:-1, 0], t.observations[:-1, 1] / 0.1
        demand = np.rint((drawn.observations[..., 3] + 1.0) / 0.5)
        on_shelf = (stock + t.actions)[:, None]
        sold = np.minimum(on_shelf, demand)
        rewards = price * sold - t.actions[:, None] - holding * (on_shelf - sold) - 0.2
        assert drawn.observations.shape == (STEPS, DRAWS, 4) and drawn.rewards.shape == (STEPS, DRAWS)
        assert np.array_equal(drawn.observations[..., 0], on_shelf - sold)
        assert np.allclose(drawn.rewards, rewards, atol=1e-5)
        assert np.allclose(drawn.observations[..., 1] / 0.1, cash[:, None] + rewards, atol=1e-4)
        clear = np.abs(cash[:, None] + rewards) > 1e-4
        assert np.array_equal(drawn.terminated[clear], (cash[:, None] + rewards < 0.0)[clear])
        assert (drawn.elapsed >= 0.5).all() and (drawn.elapsed < 2.0).all()


def test_they_have_the_law_of_the_simulator_and_are_independent(shop):
    demands = np.concatenate([np.rint((d.observations[..., 3] + 1.0) / 0.5) for _, d in shop]).astype(int)
    assert stats.chisquare(np.bincount(demands.ravel(), minlength=5)).pvalue > 1e-3
    played = np.concatenate([np.rint((t.observations[1:, 3] + 1.0) / 0.5) for t, _ in shop])
    going_on = ~np.concatenate([t.terminated | t.truncated for t, _ in shop])
    for other in range(DRAWS):
        table = stats.contingency.crosstab(played[going_on], demands[going_on, other]).count
        assert stats.chi2_contingency(table).pvalue > 1e-3
    assert stats.chi2_contingency(stats.contingency.crosstab(demands[:, 0], demands[:, 1]).count).pvalue > 1e-3
    elapsed = np.concatenate([d.elapsed for _, d in shop])
    assert stats.kstest((elapsed.ravel() - 0.5) / 1.5, "uniform").pvalue > 1e-3


def test_threads_and_a_restored_collector_change_no_bit(shop):
    weights = actor_weights(toy_model("shop"))
    threaded = collected(new_collector(Shop(), threads=2), weights, 3)
    first, second = new_collector(Shop()), new_collector(Shop())
    collected(first, weights)
    records, metadata = first.state_dict()
    second.load_state_dict(CollectorState(records, json.loads(json.dumps(metadata))))
    resumed = collected(second, weights, 2)
    for expected, found in ((shop, threaded), (shop[INSTANCES:], resumed)):
        for (one, drawn), (other, drawn_too) in zip(expected, found, strict=True):
            assert same_bits(one, other) and same_bits(drawn, drawn_too)


def test_a_simulator_without_randomness_is_not_repeated_for_long():
    """The steps of Faulty are counted, and nothing is drawn: after 1,000 steps it is known."""
    collector = new_collector(Faulty(), steps=400)
    weights = np.zeros(1_000, np.float32)
    kinds = [drawn is not None for _, drawn in collected(collector, weights, 4)]
    assert kinds == [True] * 9 + [False] * 3
    records, metadata = collector.state_dict()
    restored = new_collector(Faulty(), steps=400)
    restored.load_state_dict(CollectorState(records, json.loads(json.dumps(metadata))))
    assert [drawn for _, drawn in collected(restored, weights)] == [None] * 3


def test_a_simulator_with_randomness_is_repeated_throughout():
    collector = new_collector(Choices(), steps=600)
    assert all(drawn is not None for _, drawn in collected(collector, actor_weights(toy_model("choices")), 4))


def test_fewer_are_drawn_where_all_observations_differ():
    """The observation of Bandit has a real number; the stock of Shop has few values, its cash a few more."""
    collector, weights = new_collector(Bandit(), draws=8), actor_weights(toy_model("bandit"))
    rounds = collected(collector, weights, 2)
    assert [drawn.rewards.shape[1] for _, drawn in rounds] == [8] * INSTANCES + [2] * INSTANCES
    records, metadata = collector.state_dict()
    restored = new_collector(Bandit(), draws=8)
    restored.load_state_dict(CollectorState(records, json.loads(json.dumps(metadata))))
    for (one, drawn), (other, too) in zip(collected(collector, weights), collected(restored, weights), strict=True):
        assert drawn.rewards.shape[1] == 2
        assert same_bits(one, other) and same_bits(drawn, too)


class Seldom(Bandit):
    """A bandit whose reward is NaN, or whose step raises, once in a hundred steps."""

    parameters = FaultParameters(NAN_REWARD, 0)

    def step(state, parameters, action, rng):
        """Fail now and then."""
        state.context = int(rng.random() * 4)
        state.noise = rng.random()
        if rng.random() < 0.01:
            if parameters.step:
                raise ValueError("no such place")
            return np.nan, False
        return 0.0, False


@pytest.mark.parametrize(("raises", "words"), [(0, "reward that is NaN"), (1, "no such place")])
def test_a_fault_of_an_outcome_says_so(raises, words):
    """One hundred further outcomes of a step: the first one that fails is hardly that of the episode."""
    simulator = Seldom()
    simulator.parameters = FaultParameters(NAN_REWARD, raises)
    with pytest.raises(OutcomeError, match=rf"{words}.*repeated with other random numbers.*OUTCOME_DRAWS = 0"):
        collected(new_collector(simulator, draws=100), actor_weights(toy_model("bandit")))


def test_a_fault_of_the_episode_is_named_as_before():
    simulator = Faulty()
    simulator.parameters = FaultParameters(NAN_REWARD, 5)
    with pytest.raises(SimulatorError, match="step 5: step returned a reward") as failed:
        collected(new_collector(simulator), np.zeros(1_000, np.float32))
    assert not isinstance(failed.value, OutcomeError)


class ChangesItsAction(Simulator):
    """Without randomness; its step overwrites the action that it is given."""

    observation_size, max_steps = 1, 1_000
    state_dtype = np.dtype([("total", np.float64)])

    def reset(state, parameters, rng):
        """Start."""
        state.total = 0.0

    def observe(state, parameters, observation):
        """Write the total."""
        observation[0] = np.tanh(state.total)

    def step(state, parameters, action, rng):
        """Add the action up, and change it."""
        state.total += action[0]
        action[0] = (action[0] + 1) % 3
        return np.float64(action[0]), False


@pytest.mark.parametrize("space", [MultiDiscrete([3, 2]), Box([-1.0], [1.0])], ids=["choices", "numbers"])
def test_a_step_may_change_the_action_that_it_is_given(space):
    simulator = ChangesItsAction()
    simulator.action_space = space
    collector = new_collector(simulator)
    weights = np.random.default_rng(0).normal(0.0, 0.1, collector.spec.layout.actor_size).astype(np.float32)
    for trajectory, drawn in collected(collector, weights):
        assert np.array_equal(drawn.rewards, np.repeat(trajectory.rewards[:, None], DRAWS, axis=1))


def test_the_bytes_of_an_outcome_are_those_of_its_arrays(shop):
    _, drawn = shop[0]
    assert sum(column.nbytes for column in drawn) == STEPS * DRAWS * outcome_bytes(Shop.observation_size)


def test_long_rollouts_have_fewer_for_want_of_room(monkeypatch):
    """There is room for two outcomes of each step of a whole rollout, so for four of half as many."""
    size = outcome_bytes(Faulty.observation_size)
    monkeypatch.setattr(outcomes, "ROOM", INSTANCES * STEPS * 2 * size)
    collector, weights = new_collector(Faulty()), np.zeros(1_000, np.float32)
    found = [drawn.rewards.shape for _, drawn in collected(collector, weights)]
    collector.resize(STEPS // 2)
    found += [drawn.rewards.shape for _, drawn in collected(collector, weights)]
    assert found == [(STEPS, 2)] * INSTANCES + [(STEPS // 2, 4)] * INSTANCES


def test_a_resumed_run_may_draw_more():
    collector, weights = new_collector(Bandit(), draws=8), actor_weights(toy_model("bandit"))
    collected(collector, weights)
    other = new_collector(Bandit(), draws=32)
    other.load_state_dict(collector.state_dict())
    assert {drawn.rewards.shape[1] for _, drawn in collected(other, weights)} == {8}


@pytest.mark.parametrize("values", [2, 9, 1_000])
def test_different_rows_hardly_share_a_hash(values):
    """Counts, signs and zeros are told apart although most of their bits are equal."""
    rng = np.random.default_rng(values)
    rows = np.unique(rng.integers(values, size=(100_000, 40)), axis=0).astype(np.float32) - values // 2
    assert len(np.unique(hashes_of(rows))) == len(np.unique(rows, axis=0))
    assert np.array_equal(hashes_of(rows), hashes_of(rows[::-1])[::-1])
