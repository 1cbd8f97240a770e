"""Rollouts of several short episodes against slow ones, across rollouts, threads and checkpoints."""

import json

import numpy as np
import pytest
import torch
from helpers.specs import actor_spec
from helpers.toy_runs import HIDDEN, SEED, actor_weights, rollout_batch, toy_coefficients, toy_model, toy_updater
from oracles.slow_episode import play_slowly
from oracles.slow_update import slow_coefficient, slow_gae
from oracles.toy_simulators import NAN_REWARD, Bandit, Choices, FaultParameters, Faulty, Shop

from longstride.errors import SimulatorError, UserError
from longstride.jit_cache.sized_records import sized_dtype
from longstride.learning.advantages import next_values_of
from longstride.rollout.collector import CollectorState, RolloutPlan, load_instance, order_of
from longstride.rollout.fixed_length_collector import FixedLengthCollector
from longstride.seeding import stream

STEPS, INSTANCES, ROUNDS = 50, 3, 3


def new_collector(simulator, steps=STEPS, instances=INSTANCES, threads=1, **further):
    sizes = (simulator.observation_size, *HIDDEN, simulator.action_space.outputs)
    plan = RolloutPlan(SEED, instances, steps, threads, **further)
    return FixedLengthCollector(simulator, actor_spec(simulator, sizes, "relu"), plan)


def copied(rollouts):
    """Return trajectories that the next collection does not overwrite, and the outcomes."""
    return [(type(r.trajectory)(*(a.copy() for a in r.trajectory)), r.finished) for r in rollouts]


@pytest.fixture(scope="module")
def shop():
    """Rounds of rollouts of the shop: of each round, each copy's trajectory and outcomes."""
    collector, weights = new_collector(Shop()), actor_weights(toy_model("shop"))
    return [copied(collector.collect(weights, 0, INSTANCES)[0]) for _ in range(ROUNDS)]


class Streams:
    """Stands in for longstride.seeding.stream where the slow episode asks for the streams of episode `number`."""

    def __init__(self, instance):
        self.instance = instance

    def __call__(self, seed, name, number):
        return stream(seed, name, self.instance, number)


def slow_instance(monkeypatch, simulator, model, instance, steps):
    """Return the episodes that an instance plays, at least so many steps."""
    monkeypatch.setattr("oracles.slow_episode.stream", Streams(instance))
    episodes = []
    while sum(len(e.actions) for e in episodes) < steps:
        episodes.append(play_slowly(simulator, model, SEED, len(episodes)))
    return episodes


@pytest.mark.parametrize("instance", range(INSTANCES))
def test_rollouts_one_after_another_are_the_slow_episodes_one_after_another(shop, monkeypatch, instance):
    slow = slow_instance(monkeypatch, Shop(), toy_model("shop"), instance, ROUNDS * STEPS)
    parts = [rounds[instance][0] for rounds in shop]
    for name in ("actions", "masks", "features", "rewards", "elapsed", "control_variate", "terminated", "truncated"):
        together = np.concatenate([getattr(part, name) for part in parts])
        expected = np.concatenate([np.asarray(getattr(e, name), together.dtype) for e in slow])[: ROUNDS * STEPS]
        assert np.array_equal(together, expected), name
    observations = np.concatenate([part.observations[:-1] for part in parts])
    expected = np.concatenate([np.stack(e.observations[:-1]) for e in slow])[: ROUNDS * STEPS]
    assert np.array_equal(observations, expected)


@pytest.mark.parametrize("instance", range(INSTANCES))
def test_what_follows_each_step_is_the_slow_episodes(shop, monkeypatch, instance):
    """With the identity as value function, the observation that is valued after t is the one that followed t."""
    slow = slow_instance(monkeypatch, Shop(), toy_model("shop"), instance, ROUNDS * STEPS)
    expected = np.concatenate([np.stack(e.observations[1:]) for e in slow])
    for number, rounds in enumerate(shop):
        t = rounds[instance][0]
        for i in range(Shop.observation_size):
            beyond = np.append(t.observations[-1:, i], t.cut_observations[:, i])
            following = next_values_of(t.observations[:-1, i], t.truncated, beyond)
            right = expected[number * STEPS : (number + 1) * STEPS, i]
            assert np.array_equal(following[~t.terminated], right[~t.terminated])


@pytest.mark.parametrize("instance", range(INSTANCES))
def test_the_outcomes_are_those_of_the_episodes_that_ended(shop, monkeypatch, instance):
    slow = slow_instance(monkeypatch, Shop(), toy_model("shop"), instance, ROUNDS * STEPS)
    finished = [outcome for rounds in shop for outcome in rounds[instance][1]]
    assert len(finished) in (len(slow) - 1, len(slow))
    for outcome, episode in zip(finished, slow, strict=False):
        assert outcome.total_reward == pytest.approx(sum(episode.rewards), abs=1e-12)
        assert outcome.metrics["cash"] == episode.state.cash
        assert outcome.metrics["days"] == len(episode.actions)


def test_the_rollouts_are_not_trivial(shop):
    everything = [t for rounds in shop for t, _ in rounds]
    assert any(len(t.cut_observations) for t in everything)
    assert any(t.terminated[:-1].any() for t in everything)
    assert any(not (t.terminated[-1] or t.truncated[-1]) for t in everything), "some go on in the next rollout"
    assert all(t.steps == STEPS for t in everything)
    assert sum(int(t.truncated[:-1].sum()) for t in everything) == sum(len(t.cut_observations) for t in everything)


def test_max_steps_cuts_an_episode_that_began_in_the_rollout_before():
    """Choices are 200 steps, cut by max_steps alone: at rollouts of 150 the cuts are after 200, 400, 600, ..."""
    collector, model = new_collector(Choices(), 150, 1), toy_model("choices")
    truncated = np.concatenate([collector.collect(actor_weights(model), 0, 1)[0][0].trajectory.truncated.copy()
                                for _ in range(5)])  # fmt: skip
    assert (np.flatnonzero(truncated) + 1).tolist() == [200, 400, 600]


def test_threads_change_no_bit(shop):
    collector, weights = new_collector(Shop(), threads=2), actor_weights(toy_model("shop"))
    for rounds in shop:
        for (one, _), (other, _) in zip(rounds, copied(collector.collect(weights, 0, INSTANCES)[0]), strict=True):
            assert all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


def test_a_restored_collector_goes_on_to_the_bit(shop):
    """Through JSON, as a checkpoint does."""
    weights = actor_weights(toy_model("shop"))
    first, second = new_collector(Shop()), new_collector(Shop())
    first.collect(weights, 0, INSTANCES)
    records, metadata = first.state_dict()
    second.load_state_dict(CollectorState(records, json.loads(json.dumps(metadata))))
    for rounds in shop[1:]:
        for (one, a), (other, b) in zip(rounds, copied(second.collect(weights, 0, INSTANCES)[0]), strict=True):
            assert all(x.tobytes() == y.tobytes() for x, y in zip(one, other, strict=True))
            assert a == b


def test_a_record_of_another_size_is_refused():
    collector = new_collector(Shop(), instances=1)
    collector.collect(actor_weights(toy_model("shop")), 0, 1)
    records, metadata = collector.state_dict()
    with pytest.raises(UserError, match=r"unfinished episode in the checkpoint has 3 bytes, not 56"):
        collector.load_state_dict(CollectorState({name: r[:3] for name, r in records.items()}, metadata))
    with pytest.raises(UserError, match=r"unfinished episode in the checkpoint is missing"):
        collector.load_state_dict(CollectorState({}, metadata))


def test_a_record_with_fields_in_another_order_is_refused():
    """Such as that of a version that wrote arrays before numbers: as many bytes, of other fields."""
    fields = [("time", np.float64, ()), ("queue", np.int64, (3,))]
    states, policy_states = np.zeros(1, sized_dtype(fields)), np.zeros((1, 2), np.float32)
    record = np.arange(states.nbytes + policy_states.nbytes, dtype=np.uint8)
    load_instance(record, order_of(states.dtype), states, policy_states)
    assert states.tobytes() + policy_states.tobytes() == record.tobytes()
    for metadata in ({}, order_of(sized_dtype([("hour", np.float64, ()), fields[1]]))):
        with pytest.raises(UserError, match="unfinished episode in the checkpoint has other fields; resume with"):
            load_instance(record, metadata, states, policy_states)
    load_instance(record, {}, np.zeros(4), policy_states)  # one size: as ever


def test_a_fault_names_the_step_of_the_episode_and_its_instance():
    """Episodes of the faulty toy end after 12 steps; the fault is at step 7 of the first."""
    simulator = Faulty()
    simulator.parameters = FaultParameters(NAN_REWARD, 7)
    collector, weights = new_collector(simulator, 5, 2), actor_weights(toy_model("faulty"))
    collector.collect(weights, 0, 2)
    with pytest.raises(SimulatorError, match=r"Faulty, episode 0 of instance 0, step 7: .*NaN or infinite"):
        collector.collect(weights, 0, 2)


def test_the_targets_of_an_update_are_those_of_each_episode_apart(shop):
    """The first normalisation of values is mean and deviation of the critic's targets; the oracle takes them apart."""
    model = toy_model("shop")
    rollouts = shop[1]
    pieces = []
    with torch.no_grad():

        def value(observations):
            return model.values(model.normalise(torch.from_numpy(observations))).numpy()

        for t, _ in rollouts:
            begin, cuts = 0, list(t.cut_observations)
            for end in [*(np.flatnonzero((t.terminated | t.truncated)[:-1]) + 1), STEPS]:
                last = cuts.pop(0) if end < STEPS and t.truncated[end - 1] else t.observations[end]
                values = value(np.concatenate([t.observations[begin:end], last[None]]))
                terminated, ended = t.terminated[begin:end], np.arange(begin, end) == end - 1
                discounts = np.full(end - begin, 0.97)
                data = (t.rewards[begin:end], values[:-1], values[1:], discounts, terminated, ended)
                pieces.append((t.control_variate[begin:end], data))
                begin = end
    coefficient = slow_coefficient(pieces)
    expected = np.concatenate(
        [slow_gae(r - coefficient * variate, v, *rest, 0.95) + v for variate, (r, v, *rest) in pieces]
    )
    updater = toy_updater(model, batch_size=65_536, learning_rate_critic=0.0)
    batch = rollout_batch([t for t, _ in rollouts], [np.full(STEPS, 0.97)] * INSTANCES)
    updater.update(batch, toy_coefficients(), np.random.default_rng(0))
    assert float(model.tensors["value_mean"]) == pytest.approx(expected.mean(), rel=1e-5)
    assert float(model.tensors["value_std"]) == pytest.approx(expected.std(), rel=1e-5)


def test_rollouts_of_other_sizes_hold_the_same_steps(shop):
    """Rollouts of 20, 50, 7 and 23 steps have the rows of two of 50, and what follows their cuts."""
    collector, weights, parts = new_collector(Shop()), actor_weights(toy_model("shop")), []
    for steps in (20, 50, 7, 23):
        collector.resize(steps)
        parts.append(copied(collector.collect(weights, 0, INSTANCES)[0]))
    for i in range(INSTANCES):
        for name in ("observations", "actions", "log_probs", "rewards", "masks", "elapsed", "terminated", "truncated"):
            rows = slice(0, -1) if name == "observations" else slice(None)
            pieces = [np.concatenate([getattr(each[i][0], name)[rows] for each in of]) for of in (parts, shop[:2])]
            assert np.array_equal(*pieces), name
        assert [o.metrics for each in parts for o in each[i][1]] == [o.metrics for each in shop[:2] for o in each[i][1]]
        assert [len(each[i][0].observations) for each in parts] == [21, 51, 8, 24]


def rounds_with_restarts(restart_after, rounds, stop_after=None):
    """Return, for each round of 20 steps, the episode of each of three bandits, whose own are 256 steps long."""
    collector, weights = new_collector(Bandit(), 20, restart_after=restart_after), actor_weights(toy_model("bandit"))
    numbers, actions = [], []
    for number in range(rounds):
        if number == stop_after:
            state = collector.state_dict()
            collector = new_collector(Bandit(), 20, restart_after=restart_after)
            collector.load_state_dict(CollectorState(state.records, json.loads(json.dumps(state.metadata))))
        played = copied(collector.collect(weights, 0, INSTANCES)[0])
        assert all(finished == [] for _, finished in played), "an episode that is given up has no outcome"
        numbers.append([instance.number for instance in collector._instances])
        actions.append([trajectory.actions for trajectory, _ in played])
    return numbers, actions


def test_old_episodes_are_given_up_between_rollouts_the_first_ones_one_by_one():
    numbers, actions = rounds_with_restarts(60, 7)
    assert list(zip(*numbers, strict=True)) == [(0,) * 7, (0, 0, 1, 1, 1, 2, 2), (0, 0, 0, 1, 1, 1, 2)]
    forever, others = rounds_with_restarts(0, 7)
    assert forever == [[0] * INSTANCES] * 7
    assert np.array_equal(actions[0], others[0])
    assert not np.array_equal(actions[6], others[6])


def test_an_episode_that_plays_on_is_given_up_once_it_runs_away(monkeypatch):
    collector, weights = new_collector(Bandit(), 20, restart_after=60), actor_weights(toy_model("bandit"))
    first, numbers = collector._instances[0], []
    for runs_away in (False, False, False, False, True, False):
        monkeypatch.setattr(collector.exploring, "runs_away", runs_away, raising=False)
        collector.collect(weights, 0, INSTANCES)
        numbers.append(first.number)
        assert first.over is runs_away
    assert numbers == [0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("stop_after", [1, 3])
def test_old_episodes_are_given_up_alike_after_a_checkpoint(stop_after):
    for whole, parts in zip(rounds_with_restarts(60, 5), rounds_with_restarts(60, 5, stop_after), strict=True):
        assert np.array_equal(whole, parts)


def test_where_episodes_are_terminated_they_are_played_to_their_ends():
    """A shop that goes broke: from then on nothing is given up; a shop's last day is 40."""
    simulator, weights = Shop(), actor_weights(toy_model("shop"))
    collector = new_collector(simulator, 5, restart_after=20)
    given_up = terminated = 0
    for _ in range(60):
        before = [instance.terminated for instance in collector._instances]
        played = collector.collect(weights, 0, INSTANCES)[0]
        for instance, rollout in zip(collector._instances, played, strict=True):
            flags = rollout.trajectory.terminated | rollout.trajectory.truncated
            given_up += any(before) and instance.over and not flags[-1]
        terminated += sum(int(rollout.trajectory.terminated.sum()) for rollout in played)
    assert terminated > 0, "some shop went broke"
    assert given_up == 0
