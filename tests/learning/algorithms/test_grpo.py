"""GRPO: targets by hand, its loss beside PPO's, compiled steps beside torch's, what updates learn from, the penalty."""

from typing import ClassVar

import numpy as np
import pytest
import torch
from helpers.group_runs import GROUP, copied, group_collector, shop_model
from helpers.random_rollouts import random_model, random_rollout
from helpers.toy_runs import (
    actor_weights,
    columns_of,
    rollout_batch,
    toy_algorithm,
    toy_coefficients,
    toy_settings,
    toy_updater,
)
from learning.test_group_advantages import member
from oracles.slow_update import SlowModel, slow_distribution

from longstride.learning.algorithms.grpo import Grpo
from longstride.learning.algorithms.ppo import PpoCoefficients
from longstride.learning.schedule import Coefficients
from longstride.learning.steps.cpu_kernels.loss_gradients import TERMS
from longstride.learning.steps.cpu_kernels.stepper import KernelStepper
from longstride.learning.steps.interface import TOTAL, UpdateSettings
from longstride.learning.steps.torch_step import TorchStepper
from longstride.learning.updater import Updater

COEFFICIENTS = PpoCoefficients(0.2, 0.05, 0.5)


def batch_of(trajectories, gamma):
    return rollout_batch(trajectories, [np.full(t.steps, gamma) for t in trajectories])


def targets_of(algorithm, rollout, values=None, next_values=None):
    """Return the targets of a rollout, whose values are 0 where they are not given."""
    zeros = [np.zeros(t.steps, np.float32) for t in rollout.trajectories]
    return algorithm.targets(rollout, values or zeros, next_values or zeros)


def test_the_targets_of_two_groups_by_hand():
    """Gamma is 1/2. Of the first group 2, 2 and 1, 0 are left: advantages of 1, 2, -1, -2, the second is identical.

    The mean square of those four is 10/4.
    """
    group = [member([1, 2], terminated=[1]), member([1, 0], terminated=[1])]
    rollout = batch_of([*group, *[member([3, 1, 4], terminated=[2])] * 2], 0.5)
    targets = targets_of(Grpo(2, COEFFICIENTS), rollout)
    expected = np.array([1, 2, -1, -2, *[0] * 6]) / np.sqrt(2.5)
    np.testing.assert_allclose(targets.advantages, expected, rtol=1e-6)
    assert targets.advantages.dtype == np.float32
    assert targets.learned_from.tolist() == [True] * 4 + [False] * 6
    assert not targets.returns.any()
    assert targets.figures == {"compared_groups": 2, "identical_groups": 1, "compared_steps": 4}


@pytest.mark.parametrize(("divided", "expected"), [(False, [1, -1, 7, -7]), (True, [2, -2, 2, -2])])
def test_groups_keep_their_weights_unless_they_are_divided_by_their_deviation(divided, expected):
    """Sums are 3 and 2, of deviation 1/2, and 10 and 3, of deviation 7/2."""
    rollout = batch_of([member([reward], terminated=[0]) for reward in (3, 2, 10, 3)], 1.0)
    targets = targets_of(Grpo(2, COEFFICIENTS, divided), rollout)
    np.testing.assert_allclose(targets.advantages, expected / np.sqrt(np.mean(np.square(expected))), rtol=1e-6)


def test_advantages_have_unit_size_over_the_steps_that_are_learned_from():
    rng = np.random.default_rng(0)
    different = [member(rng.normal(0, 50, 6), terminated=[2, 5]) for _ in range(4 * 3)]
    same = [member(rng.normal(0, 50, 8), terminated=[7])] * 3
    targets = targets_of(Grpo(3, COEFFICIENTS), batch_of([*different, *same], 0.9))
    assert targets.learned_from.tolist() == [True] * 72 + [False] * 24
    assert np.mean(np.square(targets.advantages[targets.learned_from])) == pytest.approx(1.0, rel=1e-5)
    assert not targets.advantages[~targets.learned_from].any()


def test_groups_without_a_difference_have_no_advantages():
    targets = targets_of(Grpo(2, COEFFICIENTS), batch_of([member([1, 2], terminated=[1])] * 4, 0.9))
    assert not targets.advantages.any()
    assert not targets.learned_from.any()
    assert targets.figures == {"compared_groups": 2, "identical_groups": 2, "compared_steps": 0}


KINDS = [("discrete", "tanh", 0), ("discrete", "relu", 2), ("choices", "tanh", 3), ("gaussian", "relu", 0)]
IDS = ["-".join(map(str, kind)) for kind in KINDS]


def grpo(**changes):
    return Grpo(GROUP, toy_settings(PpoCoefficients, **changes))


def stepper_of(stepper, algorithm, kind, **changes):
    return stepper(random_model(*kind), algorithm, toy_settings(UpdateSettings, adam_epsilon_actor=1e-4, **changes))


def samples_of(kind):
    """Return a rollout and the indices and weights of a minibatch."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(600, generator=generator)
    return random_rollout(random_model(*kind), 1000), torch.randperm(1000, generator=generator)[:600], weights / 300


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
@pytest.mark.parametrize("value_coefficient", [0.5, 7.0])
def test_the_loss_is_ppos_without_the_critics_term(kind, value_coefficient):
    changes = {"value_coefficient": value_coefficient, "entropy_coefficient": 0.07}
    rollout, indices, weights = samples_of(kind)
    ours = stepper_of(TorchStepper, grpo(**changes), kind)
    theirs = stepper_of(TorchStepper, toy_algorithm(**changes), kind)
    loss, ppo = (each.loss(rollout.at(indices), weights) for each in (ours, theirs))
    others = {name: term for name, term in ppo.terms._asdict().items() if name != "value_loss"}
    assert loss.terms._asdict() == others
    expected = ppo.total - value_coefficient * ppo.terms.value_loss
    torch.testing.assert_close(loss.total, expected, rtol=1e-5, atol=1e-5)
    assert 0.1 < ppo.terms.clip_fraction < 0.9
    actor = ours.model.layout.slice_of("actor")
    one, other = (each.gradients(rollout, indices, weights)[0][actor] for each in (ours, theirs))
    assert torch.equal(one, other)
    assert one.any()


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_compiled_steps_are_torchs(kind):
    changes = {"entropy_coefficient": 0.07, "max_grad_norm": 0.3}
    eager, compiled = (stepper_of(each, grpo(**changes), kind, **changes) for each in (TorchStepper, KernelStepper))
    rollout, indices, weights = samples_of(kind)
    for factor in (1.0, 0.5, 0.25):
        reports = []
        for each in (eager, compiled):
            each.set_coefficients(toy_coefficients(factor, **changes))
            reports.append(columns_of(each, each.step(rollout, indices, weights)))
        names = {TOTAL, *TERMS} & reports[0].keys()
        expected, found = ({name: report[name] for name in names} for report in reports)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(compiled.model.flat, eager.model.flat, rtol=2e-4, atol=2e-5)
    assert (eager.model.flat - random_model(*kind).flat).abs().max() > 1e-3
    states = [each.optimizer_tensors() for each in (eager, compiled)]
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        torch.testing.assert_close(states[1][name], tensor, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("stepper", [TorchStepper, KernelStepper])
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_steps_leave_the_critic_alone(kind, stepper):
    made, before = stepper_of(stepper, grpo(), kind), random_model(*kind)
    made.step(*samples_of(kind))
    for part, stays in {"critic": True, "actor": False}.items():
        pairs = zip(made.model.part_parameters(part), before.part_parameters(part), strict=True)
        assert all(torch.equal(*pair) == stays for pair in pairs)
    assert len(made.optimizer_tensors()) == 3 * len(before.part_parameters("actor"))


@pytest.mark.parametrize("stepper", [TorchStepper, KernelStepper])
def test_the_gradient_whose_noise_is_measured_is_the_actors(stepper):
    rollout, indices, _ = samples_of(KINDS[0])
    ours, theirs = (stepper_of(stepper, each, KINDS[0]) for each in (grpo(), toy_algorithm()))
    assert torch.equal(ours.actor_gradient(rollout, indices), theirs.actor_gradient(rollout, indices))


PAIR = 2
"""Members of a group in the updates below."""


@pytest.fixture(scope="module")
def played():
    """Four trajectories of the shop in groups of two."""
    collector = group_collector(30, 2 * PAIR, group_size=PAIR)
    return [copied(r).trajectory for r in collector.collect(actor_weights(shop_model()), 0, 2 * PAIR)[0]]


def updated(rollout, algorithm=None, **changes):
    """Return the report of an update of the shop's policy, its updater, and the minibatches of its epochs."""
    updater = updater_of(shop_model(), algorithm or Grpo(PAIR, toy_settings(PpoCoefficients)), **changes)
    epoch, minibatches = updater.runner.epoch, []
    updater.runner.epoch = lambda samples, each: minibatches.append(each) or epoch(samples, each)
    coefficients = Coefficients(1.0, updater.algorithm.coefficients)
    return updater.update(rollout, coefficients, np.random.default_rng(0)), updater, minibatches


def updater_of(model, algorithm, **changes):
    return Updater(model, torch.device("cpu"), algorithm, toy_settings(UpdateSettings, **changes))


def slots_of(minibatches):
    """Return the samples of an epoch, padding left out."""
    return sorted(minibatches.indices[minibatches.weights > 0].tolist())


def test_the_epochs_use_each_sample_that_is_learned_from_once_and_no_other(played):
    """The second group plays its first member's rollout twice."""
    rollout = batch_of([*played[:2], played[2], played[2]], 0.97)
    report, _, minibatches = updated(rollout, batch_size=16, epochs=2)
    kept = np.flatnonzero(targets_of(Grpo(PAIR, COEFFICIENTS), rollout).learned_from).tolist()
    assert 0 < len(kept) <= 2 * 30
    assert [slots_of(each) for each in minibatches] == [kept, kept]
    assert report.optimizer_steps == 2 * -(-len(kept) // 16)


def test_what_is_not_learned_from_changes_nothing(played):
    """Neither the parameters nor the figures of the loss: another identical group may stand beside the first one."""
    reports, models = [], []
    for number in (2, 3):
        rollout = batch_of([*played[:2], played[number], played[number]], 0.97)
        report, updater, _ = updated(rollout, batch_size=16)
        reports.append(report.losses)
        models.append(updater.model.flat)
    assert torch.equal(*models)
    assert reports[0] == reports[1]
    assert not torch.equal(models[0], shop_model().flat)


def test_the_figures_of_the_groups_are_in_the_report(played):
    rollout = batch_of([*played[:2], played[2], played[2]], 0.97)
    report, _, (minibatches, *_) = updated(rollout)
    expected = targets_of(Grpo(PAIR, COEFFICIENTS), rollout).figures
    record = report.as_dict()
    assert {name: record[name] for name in expected} == expected
    assert record["identical_groups"] >= 1
    assert record["compared_groups"] > record["identical_groups"]
    assert record["compared_steps"] == len(slots_of(minibatches))
    assert record["explained_variance"] is None
    assert "value_loss" not in record
    assert record["initial_ratio_error"] < 1e-3


def test_without_a_critic_its_parameters_and_the_normalisation_of_values_stay(played):
    _, updater, _ = updated(batch_of(played, 0.97))
    before, after = shop_model(), updater.model
    for part, changes in {"critic": False, "actor": True}.items():
        pairs = zip(before.part_parameters(part), after.part_parameters(part), strict=True)
        assert all(torch.equal(*pair) != changes for pair in pairs)
    assert (after.tensors["value_mean"].item(), after.tensors["value_std"].item()) == (0.0, 1.0)


def test_the_noise_is_that_between_groups(played):
    """Of two parts with the mean gradients a and b: (|a|^2 + |b|^2) / 2 less |(a + b) / 2|^2."""
    algorithm = Grpo(PAIR, toy_settings(PpoCoefficients))
    rollout = batch_of(played, 0.97)
    report, *_ = updated(rollout, algorithm, measure_noise=True)
    updater = updater_of(shop_model(), algorithm)
    samples, parts = updater._prepare(rollout, None)[0].samples, torch.arange(4 * 30).split(2 * 30)
    gradients = [updater.stepper.actor_gradient(samples, part).double() for part in parts]
    mean = float(((gradients[0] + gradients[1]) / 2).square().sum())
    noise = sum(float(each.square().sum()) for each in gradients) / 2 - mean
    assert report.gradient_noise.noise == pytest.approx(noise, rel=1e-5)
    assert report.gradient_noise.signal == pytest.approx(mean - noise, rel=1e-5)


def slow_log_probs(model, normalised, trajectory):
    """Return log-probabilities of a trajectory's actions in float64."""
    outputs, log_std, _ = SlowModel(model).heads(normalised, trajectory.features)
    columns = zip(outputs, trajectory.masks, trajectory.actions, strict=True)
    return [slow_distribution(model.spec.action_space, row, log_std, mask, action)[0] for row, mask, action in columns]


class Asked(Grpo):
    """Keeps the rollout that it is asked for the targets of."""

    rollouts: ClassVar[list] = []

    def targets(self, rollout, values, next_values):
        self.rollouts.append(rollout)
        return super().targets(rollout, values, next_values)


@pytest.fixture
def asked():
    """The rollouts that targets were asked for."""
    Asked.rollouts.clear()
    return Asked.rollouts


def test_the_penalty_is_the_log_ratio_to_the_first_policy_times_the_coefficient(asked):
    """After the run began its policy has moved, and so have the scales of the observations, which both policies use."""
    model, other = shop_model(), shop_model(seed=1)
    updater = updater_of(model, Asked(PAIR, toy_settings(PpoCoefficients)), kl_coefficient=0.3)
    with torch.no_grad():
        model.flat.add_(0.05 * other.flat)
        model.tensors["observation_mean"].add_(0.2)
        model.tensors["observation_scale"].mul_(1.3)
    collector = group_collector(30, 2 * PAIR, group_size=PAIR)
    rollout = batch_of([copied(r).trajectory for r in collector.collect(actor_weights(model), 0, 2 * PAIR)[0]], 0.97)
    normalised = [model.normalise(torch.from_numpy(t.observations[:-1])).double().numpy() for t in rollout.trajectories]
    updater.update(rollout, toy_coefficients(), np.random.default_rng(0))
    ratios = []
    for t, charged, inputs in zip(rollout.trajectories, asked[0].trajectories, normalised, strict=True):
        ratio = t.log_probs - slow_log_probs(shop_model(), inputs, t)
        np.testing.assert_allclose(t.rewards - charged.rewards, 0.3 * ratio, atol=2e-5)
        ratios.append(ratio)
    assert np.concatenate(ratios).std() > 0.05
    assert len(asked) == 1


def test_the_first_update_is_charged_nothing(played, asked):
    updated(batch_of(played, 0.97), Asked(PAIR, toy_settings(PpoCoefficients)), kl_coefficient=5.0)
    for t, charged in zip(played, asked[0].trajectories, strict=True):
        np.testing.assert_allclose(charged.rewards, t.rewards, atol=1e-4)


def test_a_penalty_changes_what_ppo_learns_too():
    """Of two updates; the first one is charged nothing."""
    ends = []
    for coefficient in (0.0, 1.0):
        model = shop_model()
        updater = toy_updater(model, kl_coefficient=coefficient, learning_rate_actor=0.01)
        collector = group_collector(30, 2)
        for seed in range(2):
            rollout = batch_of([r.trajectory for r in collector.collect(actor_weights(model), 0, 2)[0]], 0.97)
            updater.update(rollout, toy_coefficients(), np.random.default_rng(seed))
        ends.append(model.flat.clone())
    assert not torch.allclose(*ends, atol=1e-4)


def test_without_a_coefficient_there_is_no_reference(monkeypatch):
    def refuse(*_):
        raise AssertionError("a reference was made")

    monkeypatch.setattr("longstride.learning.updater.Penalty", refuse)
    toy_updater(shop_model(), kl_coefficient=0.0)
    with pytest.raises(AssertionError, match="a reference was made"):
        toy_updater(shop_model(), kl_coefficient=1e-3)
