"""Whole updates: ratio, transfers, value normalisation, epochs, learning."""

import threading

import numpy as np
import pytest
import torch
from helpers.toy_runs import (
    actor_weights,
    discounts_of,
    rollout_batch,
    toy_coefficients,
    toy_episodes,
    toy_model,
    toy_stepper,
    toy_update,
    toy_updater,
)
from oracles.slow_update import slow_coefficient, slow_gae
from torch.utils._python_dispatch import TorchDispatchMode

from longstride.learning.algorithms.ppo import Ppo
from longstride.learning.device_transfer import ModelTransfer, host_allocator
from longstride.learning.distributed import minibatch_drawer
from longstride.learning.minibatches import draw_epochs, split
from longstride.policies.networks import ActorCritic
from longstride.rollout.trajectory import Trajectory


@pytest.mark.parametrize(
    ("kind", "count"), [("shop", 8), ("bandit", 1), ("choices", 2), ("tracker", 2), ("squashed", 2)]
)
def test_the_update_starts_from_the_policy_that_played(kind, count):
    model = toy_model(kind)
    report = toy_update(toy_updater(model), toy_episodes(kind, model, count))
    assert report.losses["initial_ratio_error"] < 1e-3
    assert report.model_transfers == 0
    assert report.transfer_seconds == 0.0


def test_another_policy_than_the_one_that_played_shows_in_the_ratio_error():
    episodes = toy_episodes("bandit", toy_model("bandit"), 1)
    assert toy_update(toy_updater(toy_model("bandit", seed=1)), episodes).losses["initial_ratio_error"] > 0.1


def test_the_number_of_steps_and_their_size():
    """256 samples at 100 are 3 minibatches of 86; 2 epochs are 6 steps."""
    model = toy_model("bandit")
    report = toy_update(toy_updater(model, batch_size=100), toy_episodes("bandit", model, 1))
    assert (report.batch_size, report.optimizer_steps, report.epochs) == (86, 6, 2)


@pytest.mark.parametrize("execution", ["numba", "eager"])
def test_forgotten_moments_let_the_optimiser_begin_anew(execution):
    model = toy_model("bandit")
    updater, episodes = toy_updater(model, executions=(execution,)), toy_episodes("bandit", model, 1)
    toy_update(updater, episodes)
    assert updater.stepper.optimizer_tensors()
    updater.forget_moments()
    assert updater.stepper.optimizer_tensors() == {}


def test_a_tiny_learning_rate_leaves_the_policy_unchanged():
    model = toy_model("bandit")
    episodes, before = toy_episodes("bandit", model, 1), actor_weights(model).copy()
    toy_update(toy_updater(model, learning_rate_actor=1e-12), episodes)
    np.testing.assert_allclose(actor_weights(model), before, atol=1e-9)
    toy_update(toy_updater(model, learning_rate_actor=1e-3), episodes, factor=1e-9)
    np.testing.assert_allclose(actor_weights(model), before, atol=1e-9)
    toy_update(toy_updater(model, learning_rate_actor=1e-3), episodes)
    assert np.abs(actor_weights(model) - before).max() > 1e-4


@pytest.mark.parametrize("kind", ["bandit", "choices", "tracker", "squashed"])
def test_without_learning_rate_the_policy_and_its_ratio_stay(kind):
    model = toy_model(kind)
    updater = toy_updater(model, learning_rate_actor=0.0, epochs=3)
    episodes, before = toy_episodes(kind, model, 2), actor_weights(model).copy()
    errors = [toy_update(updater, episodes, seed=0).losses["initial_ratio_error"] for _ in range(2)]
    assert np.array_equal(actor_weights(model), before)
    assert errors[0] == errors[1] < 1e-3


@pytest.mark.parametrize("kind", ["tracker", "squashed"])
def test_standard_deviations_are_learned_and_reach_the_cpu_copy(kind):
    model = toy_model(kind)
    before = model.log_std.detach().clone()
    toy_update(toy_updater(model), toy_episodes(kind, model, 1))
    assert (model.log_std.detach() != before).all()
    assert np.array_equal(actor_weights(model)[-2:], model.log_std.detach().numpy())


def test_epochs_end_early_at_a_high_divergence():
    model = toy_model("bandit")
    updater = toy_updater(model, epochs=10, target_kl=1e-6, learning_rate_actor=0.05)
    report = toy_update(updater, toy_episodes("bandit", model, 1))
    assert report.epochs < 10
    assert report.optimizer_steps == report.epochs * 4


@pytest.mark.parametrize(("share", "epochs"), [(0.99, 1), (1.01, 2)])
def test_epochs_end_where_the_divergence_exceeds_one_and_a_half_times_the_target(share, epochs):
    """The divergence of the first epoch is that of an update of one epoch with the same minibatches."""
    reports = []
    for changes in ({"epochs": 1}, {"epochs": 2}):
        if reports:
            changes["target_kl"] = share * reports[0].losses["approx_kl"] / 1.5
        model = toy_model("bandit")
        updater = toy_updater(model, learning_rate_actor=0.01, **changes)
        reports.append(toy_update(updater, toy_episodes("bandit", model, 1)))
    assert reports[0].losses["approx_kl"] > 1e-4
    assert reports[1].epochs == epochs


def values_in_reward_units(model, observations):
    with torch.no_grad():
        values = model.values(model.normalise(torch.from_numpy(observations)))
        return (values * model.tensors["value_std"] + model.tensors["value_mean"]).numpy()


def test_renormalised_values_are_the_same_values():
    """With learning rates of 0 only the normalisation of values changes; what the critic says must not."""
    model = toy_model("shop")
    updater = toy_updater(model, learning_rate_actor=0.0, learning_rate_critic=0.0)
    episodes = toy_episodes("shop", model, 4)
    toy_update(updater, episodes)  # the first sight of returns sets mean and deviation
    assert float(model.tensors["value_std"]) != 1.0
    before = values_in_reward_units(model, episodes[0].trajectory.observations)
    mean = float(model.tensors["value_mean"])
    for e in episodes:
        e.trajectory.rewards[:] = 50.0 * e.trajectory.rewards + 1000.0
    toy_update(updater, episodes)
    assert float(model.tensors["value_mean"]) > mean + 100.0
    after = values_in_reward_units(model, episodes[0].trajectory.observations)
    np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-2)


def test_the_critic_learns_the_value_of_a_constant_reward():
    """Reward 3 for ever at gamma 1/2 is worth 6, with the bootstrap at the cut."""
    rng = np.random.default_rng(0)
    model = toy_model("bandit")
    n = 200
    observations = rng.random((n + 1, 5)).astype(np.float32)
    trajectory = Trajectory(
        observations=observations,
        actions=np.zeros(n, np.int64),
        log_probs=np.full(n, -1.0, np.float32),
        rewards=np.full(n, 3.0, np.float32) + rng.normal(0, 0.1, n).astype(np.float32),
        masks=np.ones((n, 4), np.bool_),
        features=np.zeros((n, 4, 0), np.float32),
        states=np.zeros((n, 0), np.float32),
        begins=np.zeros((n, 0), np.bool_),
        feasible=np.zeros((n, 0), np.int64),
        elapsed=np.ones(n),
        control_variate=np.zeros(n, np.float32),
        terminated=np.zeros(n, np.bool_),
        truncated=np.arange(n) == n - 1,
        cut_observations=np.zeros((0, 5), np.float32),
    )
    updater = toy_updater(model, learning_rate_critic=0.01, learning_rate_actor=0.0, epochs=4)
    for i in range(40):
        report = updater.update(
            rollout_batch([trajectory], [np.full(n, 0.5)]), toy_coefficients(), np.random.default_rng(i)
        )
    values = values_in_reward_units(model, observations)
    assert abs(values.mean() - 6.0) < 0.3
    assert np.isfinite(report.explained_variance)


class CountCopies(TorchDispatchMode):
    """Counts copies between tensors and their sizes."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket is torch.ops.aten.copy_:
            self.sizes.append(args[0].numel())
        return func(*args, **(kwargs or {}))


def test_a_model_transfer_is_one_flat_copy_and_is_counted():
    host, other = toy_model("bandit"), toy_model("bandit", seed=1)
    transfer = ModelTransfer(host, other)
    with CountCopies() as copies:
        transfer.to_device()
        transfer.to_host()
    assert copies.sizes == [host.layout.size] * 2
    assert torch.equal(host.flat, other.flat)
    assert transfer.count == 2
    assert transfer.seconds > 0.0
    transfer.start_iteration()
    assert (transfer.count, transfer.seconds) == (0, 0.0)


def test_a_model_that_is_already_there_is_not_moved():
    host = toy_model("bandit")
    transfer = ModelTransfer(host, host)
    transfer.to_device()
    transfer.to_host()
    assert transfer.count == 0


@pytest.mark.parametrize("kind", ["bandit", "tracker"])
def test_an_update_with_a_model_elsewhere_moves_it_twice_and_equals_the_update_in_place(kind):
    """A second model on the CPU plays the GPU."""
    in_place, host = toy_model(kind), toy_model(kind)
    episodes = toy_episodes(kind, in_place, 1)
    toy_update(toy_updater(in_place), episodes)
    updater = toy_updater(host)
    elsewhere = ActorCritic(host.spec)
    updater.model, updater.transfer = elsewhere, ModelTransfer(host, elsewhere)
    updater.stepper = updater.runner.executor.stepper = toy_stepper(elsewhere)
    report = toy_update(updater, episodes)
    assert report.model_transfers == 2
    assert report.losses["initial_ratio_error"] < 1e-3
    assert torch.equal(host.flat, elsewhere.flat)
    assert torch.equal(host.flat, in_place.flat)
    assert not torch.equal(host.flat, toy_model(kind).flat)


def slow_returns(model, episodes):
    """Return the critic's targets at lambda 0.95 and its values, each episode's from its own values."""
    pieces = []
    for episode, discounts in zip(episodes, discounts_of(episodes), strict=True):
        t = episode.trajectory
        values = values_in_reward_units(model, t.observations)
        ended = t.terminated | t.truncated
        pieces.append((t.control_variate, (t.rewards, values[:-1], values[1:], discounts, t.terminated, ended)))
    coefficient = slow_coefficient(pieces)
    returns = [slow_gae(r - coefficient * variate, v, *rest, 0.95) + v for variate, (r, v, *rest) in pieces]
    return np.concatenate(returns), np.concatenate([data[1] for _, data in pieces])


def test_several_episodes_in_one_update_are_valued_apart():
    """The first normalisation of values is mean and deviation of all returns."""
    model = toy_model("shop")
    episodes = toy_episodes("shop", model, 8)
    everything, _ = slow_returns(model, episodes)
    report = toy_update(toy_updater(model, batch_size=65_536, learning_rate_critic=0.0), episodes)
    assert float(model.tensors["value_mean"]) == pytest.approx(everything.mean(), rel=1e-4)
    assert float(model.tensors["value_std"]) == pytest.approx(everything.std(), rel=1e-4)
    assert report.batch_size == len(everything)
    assert report.optimizer_steps == 2


def test_the_explained_variance_is_that_of_the_critics_targets():
    model = toy_model("shop")
    episodes = toy_episodes("shop", model, 8)
    returns, values = slow_returns(model, episodes)
    report = toy_update(toy_updater(model), episodes)
    assert report.explained_variance == pytest.approx(1.0 - np.var(returns - values) / np.var(returns), abs=1e-4)


def learning_from(kept, **changes):
    """Return an updater of a bandit that learns from some samples of 256, and its model."""

    class LearningFromSome(Ppo):
        learns_from_all = False

        def targets(self, rollout, values, next_values):
            return super().targets(rollout, values, next_values)._replace(learned_from=kept)

    model = toy_model("bandit")
    updater = toy_updater(model, **changes)
    updater.algorithm = LearningFromSome(updater.algorithm.gae_lambda, updater.algorithm.coefficients)
    updater.stepper.algorithm = updater.algorithm
    return updater, model


def watch_minibatches(updater):
    """Return a list to which the minibatches of each epoch will be appended."""
    drawn, epoch = [], updater.runner.epoch
    updater.runner.epoch = lambda samples, minibatches: drawn.append(minibatches) or epoch(samples, minibatches)
    return drawn


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_an_update_from_some_samples_draws_those_from_the_start_of_the_stream(share):
    """As if nobody had drawn from all samples before it was known which are learned from."""
    kept = np.random.default_rng(1).random(256) < share
    updater, model = learning_from(kept, epochs=3)
    drawn, rng = watch_minibatches(updater), np.random.default_rng(5)
    report = toy_update(updater, toy_episodes("bandit", model, 1), seed=5)
    numbers = np.flatnonzero(kept)
    assert len(drawn) == report.epochs == 3
    for indices, weights in drawn:
        expected = split(len(numbers), 64, rng)
        assert np.array_equal(indices, numbers[expected.indices])
        assert np.array_equal(weights, expected.weights)
        assert np.array_equal(np.unique(indices[weights > 0]), numbers)


@pytest.mark.parametrize("kept", [None, np.ones(256, bool), np.zeros(256, bool)], ids=["none", "all", "no sample"])
def test_an_update_from_all_samples_has_the_minibatches_of_one_permutation_an_epoch(kept):
    updater, model = learning_from(kept)
    drawn, rng = watch_minibatches(updater), np.random.default_rng(5)
    toy_update(updater, toy_episodes("bandit", model, 1), seed=5)
    assert len(drawn) == 2
    for minibatches in drawn:
        for part, expected in zip(minibatches, split(256, 64, rng), strict=True):
            assert np.array_equal(part, expected)


@pytest.mark.parametrize(("device", "pinned"), [("cpu", False), ("cuda", True)])
def test_minibatches_are_drawn_into_pinned_memory_for_a_gpu_only(device, pinned, monkeypatch):
    asked = []
    monkeypatch.setattr(minibatch_drawer, "host_allocator", lambda pin: asked.append(pin) or host_allocator(False))
    updater = toy_updater(toy_model("bandit"))
    updater._drawer._device = torch.device(device)
    draws = updater._drawer.draw(100, np.random.default_rng(0)).epochs
    assert asked == [pinned]
    assert [minibatches.indices.shape for minibatches in draws] == [(2, 50)] * 2


def test_the_first_epoch_does_not_wait_for_the_last_and_an_early_end_draws_no_more(monkeypatch):
    go_on, begun = threading.Event(), []

    def waits(room, samples, rng):
        begun.append(len(begun))
        assert len(begun) == 1 or go_on.wait(60.0)
        return draw_epochs(room, samples, rng)

    monkeypatch.setattr(minibatch_drawer, "draw_epochs", waits)
    updater = toy_updater(toy_model("bandit"), epochs=4)
    epochs = updater._drawer.draw(100, np.random.default_rng(0)).epochs
    expected, rng = split(100, 64, np.random.default_rng(0)), np.random.default_rng(0)
    assert np.array_equal(next(epochs).indices, expected.indices)  # while the second one cannot be drawn
    epochs.close()
    go_on.set()
    updater._drawer._thread.shutdown()
    assert begun in ([0], [0, 1])
    assert [each.steps for each in toy_updater(toy_model("bandit"), epochs=4)._drawer.draw(100, rng).epochs] == [2] * 4


def test_an_update_from_some_samples_copies_from_the_memory_that_is_pinned_for_it(monkeypatch):
    rooms = []

    def allocate(shape, dtype):
        rooms.append(np.empty(shape, dtype))
        return rooms[-1]

    monkeypatch.setattr(minibatch_drawer, "host_allocator", lambda pin: allocate)
    updater, model = learning_from(np.arange(256) < 100)
    drawn = watch_minibatches(updater)
    toy_update(updater, toy_episodes("bandit", model, 1))
    assert all(any(np.shares_memory(minibatches.indices, room) for room in rooms) for minibatches in drawn)


def test_a_failure_while_minibatches_are_drawn_ends_the_update(monkeypatch):
    def fails(room, samples, rng):
        raise MemoryError("no room for a permutation")

    monkeypatch.setattr(minibatch_drawer, "draw_epochs", fails)
    model = toy_model("bandit")
    with pytest.raises(MemoryError, match="permutation"):
        toy_update(toy_updater(model), toy_episodes("bandit", model, 1))
