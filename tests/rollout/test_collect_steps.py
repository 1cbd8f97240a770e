"""The fused episode against a slow one, its faults, its parallel episodes."""

import numpy as np
import pytest
import torch
from helpers.toy_runs import SEED, actor_weights, toy_collector, toy_episodes, toy_model
from oracles.slow_episode import play_slowly
from oracles.toy_simulators import (
    LONG_OBSERVATION,
    NAN_OBSERVATION,
    NAN_REWARD,
    NO_ACTION,
    NO_FAULT,
    Bandit,
    FaultParameters,
    Forgetful,
    Shop,
)

from longstride.errors import SimulatorError
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.simulators.check import check_simulator


@pytest.mark.parametrize(("kind", "count"), [("shop", 8), ("bandit", 2), ("choices", 3)])
def test_the_fused_episode_makes_every_step_of_the_slow_one(kind, count):
    model = toy_model(kind)
    collector = toy_collector(kind)
    for number, episode in enumerate(toy_episodes(kind, model, count)):
        slow, outcome = play_slowly(collector.simulator, model, SEED, number), episode.finished[0]
        trajectory = episode.trajectory
        assert trajectory.steps == len(slow.actions)
        assert np.array_equal(trajectory.actions, slow.actions)
        assert np.array_equal(trajectory.observations, np.stack(slow.observations))
        assert np.array_equal(trajectory.masks, np.stack(slow.masks))
        assert np.array_equal(trajectory.features, np.stack(slow.features))
        assert np.array_equal(trajectory.rewards, np.asarray(slow.rewards, np.float32))
        assert np.array_equal(trajectory.elapsed, slow.elapsed)
        assert np.array_equal(trajectory.control_variate, np.float32(slow.control_variate))
        assert np.array_equal(trajectory.terminated, slow.terminated)
        assert np.array_equal(trajectory.truncated, slow.truncated)
        np.testing.assert_allclose(trajectory.log_probs, slow.log_probs, rtol=1e-5, atol=1e-5)
        assert outcome.total_reward == pytest.approx(sum(slow.rewards), abs=1e-12)
        if kind == "shop":
            assert outcome.metrics["cash"] == slow.state.cash
            assert outcome.metrics["days"] == trajectory.steps
            assert outcome.metrics["sold_by_kind"] == [slow.state.sold, slow.state.wanted - slow.state.sold]


@pytest.mark.parametrize("kind", ["tracker", "squashed"])
def test_the_fused_episode_of_real_actions_follows_the_slow_one(kind):
    """Means differ by rounding, and with them actions and, through them, states."""
    model, collector = toy_model(kind), toy_collector(kind)
    for number, episode in enumerate(toy_episodes(kind, model, 3)):
        slow, trajectory = play_slowly(collector.simulator, model, SEED, number), episode.trajectory
        assert trajectory.steps == len(slow.actions)
        assert trajectory.actions.dtype == np.float32
        assert trajectory.masks.shape == (trajectory.steps, 0)
        np.testing.assert_allclose(trajectory.actions, slow.actions, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(trajectory.observations, slow.observations, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(trajectory.log_probs, slow.log_probs, rtol=1e-5, atol=2e-5)
        np.testing.assert_allclose(trajectory.rewards, slow.rewards, rtol=1e-5, atol=2e-5)
        assert episode.finished[0].total_reward == pytest.approx(sum(slow.rewards), rel=1e-5)


@pytest.mark.parametrize("kind", ["tracker", "squashed"])
def test_step_receives_real_actions_within_the_bounds(kind):
    """The trajectory keeps draws beyond them, so that the policy learns from what it drew."""
    model, collector = toy_model(kind), toy_collector(kind)
    with torch.no_grad():
        model.log_std.fill_(0.5)
    for number, episode in enumerate(toy_episodes(kind, model, 3)):
        assert np.abs(episode.trajectory.actions[:, 0]).max() > 1.5
        assert len(np.unique(episode.trajectory.actions[:, 0])) == episode.trajectory.steps
        largest = play_slowly(collector.simulator, model, SEED, number).state.largest
        assert 1.0 < largest <= 1.5


def test_the_toys_end_in_all_ways_and_use_their_masks():
    """Without this the comparison above could be one of trivial episodes."""
    shop = [e.trajectory for e in toy_episodes("shop", toy_model("shop"), 8)]
    ends = {(bool(t.terminated[-1]), bool(t.truncated[-1])) for t in shop}
    assert ends == {(True, False), (False, True)}
    assert not any(t.terminated[:-1].any() or t.truncated[:-1].any() for t in shop)
    assert all(t.steps == 30 for t in shop if t.truncated[-1]), "cut by the simulator, not by max_steps = 40"
    assert any(not t.masks.all() for t in shop)
    assert len({a for t in shop for a in t.actions.tolist()}) == 4
    (bandit,) = toy_episodes("bandit", toy_model("bandit"), 1)
    assert bandit.trajectory.steps == Bandit.max_steps
    assert bandit.trajectory.truncated[-1]
    assert not bandit.trajectory.terminated[-1]


def test_an_end_that_is_both_counts_as_terminated():
    """With one day an episode is always cut after it, unless the shop is broke by then."""
    collector, model = toy_collector("shop"), toy_model("shop")
    try:
        collector.simulator.parameters = Shop.parameters._replace(days=1)
        played = [e.trajectory for e in collector.collect(actor_weights(model), 0, 8)[0]]
    finally:
        del collector.simulator.parameters
    assert all(t.steps == 1 for t in played)
    assert all(t.truncated[0] != t.terminated[0] for t in played)
    assert {bool(t.terminated[0]) for t in played} == {True, False}


def test_forbidden_actions_are_never_taken():
    trajectory = toy_episodes("bandit", toy_model("bandit"), 1)[0].trajectory
    assert trajectory.masks[np.arange(trajectory.steps), trajectory.actions].all()
    assert not trajectory.masks.all()


def test_the_return_has_no_control_variate_in_it():
    for episode in toy_episodes("shop", toy_model("shop"), 4):
        total, metrics, _ = episode.finished[0]
        # The shop starts with 1.5 of cash and earns its rewards.
        assert total == pytest.approx(metrics["cash"] - 1.5)
        assert episode.trajectory.rewards.sum() == pytest.approx(total, abs=1e-4)
        assert np.abs(episode.trajectory.control_variate).max() > 0.1


def bits(episodes) -> list[bytes]:
    return [column.tobytes() for e in episodes for column in e.trajectory]


def test_threads_change_no_bit():
    model, collector = toy_model("shop"), toy_collector("shop")
    alone = bits(toy_episodes("shop", model, 8))
    try:
        collector.threads = 2
        assert bits(toy_episodes("shop", model, 8)) == alone
    finally:
        collector.threads = 1


def test_an_episode_depends_on_its_number_only():
    model = toy_model("shop")
    one_by_one = [b for number in range(4) for b in bits(toy_episodes("shop", model, 1, first=number))]
    assert bits(toy_episodes("shop", model, 4)) == one_by_one
    assert len(set(one_by_one)) > 4


@pytest.mark.parametrize(
    ("fault", "step", "sentence"),
    [
        (NAN_OBSERVATION, 4, "observe wrote a NaN"),
        (NAN_OBSERVATION, 0, "observe wrote a NaN"),
        (NAN_OBSERVATION, 12, "observe wrote a NaN"),
        (LONG_OBSERVATION, 3, "more than the declared observation_size = 2"),
        (NO_ACTION, 5, "allowed no action"),
        (NAN_REWARD, 7, "NaN or infinite"),
    ],
)
def test_a_fault_is_named_with_episode_and_step(fault, step, sentence):
    collector = toy_collector("faulty")
    collector.simulator.parameters = FaultParameters(fault, step)
    with pytest.raises(SimulatorError, match=rf"Faulty, episode 42, step {step}: .*{sentence}"):
        collector.collect(actor_weights(toy_model("faulty")), 42, 1)


def test_an_empty_mask_after_the_end_is_no_fault():
    collector = toy_collector("faulty")
    collector.simulator.parameters = FaultParameters(NO_ACTION, 12)
    (episode,), _ = collector.collect(actor_weights(toy_model("faulty")), 0, 1)
    assert episode.trajectory.steps == 12
    assert episode.finished[0].total_reward == 12.0


def test_a_policy_of_nans_is_not_blamed_on_the_simulator():
    collector = toy_collector("faulty")
    collector.simulator.parameters = FaultParameters(NO_FAULT, 0)
    weights = actor_weights(toy_model("faulty")).copy()
    weights[-1] = np.nan
    with pytest.raises(SimulatorError, match="the policy's own outputs were NaN"):
        collector.collect(weights, 0, 1)


def test_entries_that_observe_does_not_write_are_zero():
    model = toy_model("bandit")
    collector = EpisodeCollector(Forgetful(), model.spec, RolloutPlan(SEED, 1))
    (episode,), _ = collector.collect(actor_weights(model), 0, 1)
    observations = episode.trajectory.observations
    assert set(np.unique(observations)) == {0.0, 1.0}
    assert (observations.sum(axis=1) == 1.0).all(), "one entry written, none left over from the step before"


@pytest.mark.parametrize("simulator", [Shop(), Bandit()])
def test_the_check_finds_nothing_wrong_with_the_toys(simulator):
    check_simulator(simulator)
