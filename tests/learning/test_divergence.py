"""Loss and gradient that are not finite: skipped steps, and the way back to good weights."""

import numpy as np
import pytest
import torch
from helpers.toy_runs import columns_of, toy_episodes, toy_model, toy_stepper, toy_update, toy_updater
from learning.steps.test_torch_step import rollout
from torch.utils._python_dispatch import TorchDispatchMode

from longstride.learning.divergence import DivergedError, DivergenceGuard, safer_precision
from longstride.rollout.trajectory import first_not_finite

WEIGHTS = torch.full((128,), 1 / 128)
FIRST, SECOND = torch.arange(128), torch.arange(128, 256)


def state_of(stepper):
    return {"flat": stepper.model.flat.clone(), **{n: t.clone() for n, t in stepper.optimizer_tensors().items()}}


def assert_equal(a, b):
    assert a.keys() == b.keys()
    for name, tensor in a.items():
        assert torch.equal(tensor, b[name]), name


def poisoned(batch, column, value):
    changed = getattr(batch, column).clone()
    changed[200] = value
    return batch._replace(**{column: changed})


def skipped(stepper, *minibatch):
    return float(columns_of(stepper, stepper.step(*minibatch))["skipped"])


@pytest.mark.parametrize(
    ("column", "value"),
    [("advantages", torch.inf), ("returns", torch.nan), ("log_probs", -1e4), ("observations", torch.nan)],
)
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_step_that_is_not_finite_changes_no_bit(column, value, precision):
    model = toy_model("bandit")
    stepper = toy_stepper(model, precision=precision)
    batch = rollout(model)
    batch.advantages[200] = -1.0  # a sample whose ratio overflows then has an infinite loss
    assert skipped(stepper, batch, FIRST, WEIGHTS) == 0.0
    before, scale = state_of(stepper), stepper.scaler.get_scale()
    assert skipped(stepper, poisoned(batch, column, value), SECOND, WEIGHTS) == 1.0
    assert_equal(state_of(stepper), before)
    assert stepper.scaler.get_scale() == (scale / 2 if precision == "fp16" else 1.0)
    assert skipped(stepper, batch, SECOND, WEIGHTS) == 0.0
    assert not torch.equal(model.flat, before["flat"])


def test_training_after_a_skipped_step_is_that_without_it_to_the_bit():
    """Even where it would have been the first one, which makes the state of the optimiser."""
    with_it, without = toy_model("bandit"), toy_model("bandit")
    batch = rollout(with_it)
    steppers = [toy_stepper(with_it), toy_stepper(without)]
    steppers[0].step(poisoned(batch, "advantages", torch.nan), SECOND, WEIGHTS)
    for _ in range(3):
        for stepper in steppers:
            stepper.step(batch, FIRST, WEIGHTS)
    assert_equal(*(state_of(stepper) for stepper in steppers))


def test_a_norm_that_overflows_is_no_gradient_to_step_along():
    model = toy_model("bandit")
    batch = rollout(model)
    stepper, before = toy_stepper(model), model.flat.clone()
    assert skipped(stepper, batch._replace(returns=batch.returns + 1e36), FIRST, WEIGHTS) == 1.0
    assert torch.equal(model.flat, before)


class NoWaiting(TorchDispatchMode):
    """Forbids what would make the host wait for a GPU: reading a tensor's value."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket in (torch.ops.aten._local_scalar_dense, torch.ops.aten.is_nonzero):
            raise AssertionError(f"the host reads a value: {func}")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("value", [1.0, torch.inf])
def test_a_step_never_reads_a_value_of_the_device(precision, value):
    model = toy_model("bandit")
    stepper = toy_stepper(model, precision=precision, microbatch=256)
    batch = poisoned(rollout(model), "advantages", value)
    with NoWaiting():
        stepper.step(batch, SECOND, WEIGHTS)
    with pytest.raises(AssertionError), NoWaiting():
        float(batch.returns[0])


def bandit_updater(**changes):
    model = toy_model("bandit")
    return toy_updater(model, **changes), toy_episodes("bandit", model, 1)


def test_an_update_counts_its_skipped_steps_and_leaves_them_out_of_its_means():
    """256 samples in minibatches of 64, one of them poisoned: one step of four in each of two epochs."""
    updater, episodes = bandit_updater()
    episodes[0].trajectory.log_probs[10] = np.nan
    report = toy_update(updater, episodes)
    assert (report.skipped_steps, report.optimizer_steps) == (2, 8)
    assert report.fallbacks == []
    for name in ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction"):
        assert np.isfinite(report.losses[name]), name
    assert report.losses["approx_kl"] < 0.1


def test_an_update_without_a_finite_step_has_no_means():
    updater, episodes = bandit_updater(epochs=1)
    episodes[0].trajectory.log_probs[:] = np.nan
    report = toy_update(updater, episodes)
    assert (report.skipped_steps, *(report.losses[name] for name in ("policy_loss", "initial_ratio_error"))) == (
        4,
        None,
        None,
    )


def explode(updater):
    """Give the critic weights that are finite, but the squares of whose values are not."""
    with torch.no_grad():
        updater.model.layers("critic")[-1][0].fill_(1e30)


@pytest.mark.parametrize(("precision", "after"), [("fp32", "fp32"), ("bf16", "fp32")])
def test_an_update_that_skips_every_step_goes_back_to_weights_that_worked(precision, after):
    """Good is what the last finite update started from: what it ended with has never been tried."""
    updater, episodes = bandit_updater(precision=precision)
    toy_update(updater, episodes)
    good = state_of(updater.stepper)
    report = toy_update(updater, episodes, seed=1)
    assert report.skipped_steps == 0
    explode(updater)
    report = toy_update(updater, episodes, seed=2)
    assert report.skipped_steps == report.optimizer_steps == 8
    assert report.explained_variance is None or np.isfinite(report.explained_variance)
    (fallback,) = report.fallbacks
    assert (fallback["precision_before"], fallback["precision"]) == (precision, after)
    assert fallback["learning_rate_factor"] == updater.guard.rate_factor == 0.8
    assert_equal(state_of(updater.stepper), good)
    report = toy_update(updater, episodes, seed=3)
    assert report.skipped_steps == 0
    assert not torch.equal(updater.model.flat, good["flat"])


def test_values_that_are_not_finite_do_not_reach_the_normalisation_of_values():
    updater, episodes = bandit_updater()
    with torch.no_grad():
        updater.model.layers("critic")[-1][1].fill_(torch.inf)
    before = updater.model.tensors["value_mean"].clone()
    report = toy_update(updater, episodes)
    assert report.skipped_steps == report.optimizer_steps
    assert torch.equal(updater.model.tensors["value_mean"], before)


def guard_of_a_toy(precision="fp32"):
    stepper = toy_stepper(toy_model("bandit"), precision=precision)
    return DivergenceGuard(stepper), stepper


def judge(guard, skipped, steps=10):
    guard.start_update()
    return guard.end_update(steps, skipped)


def test_three_updates_in_a_row_with_skipped_steps_are_one_too_many():
    guard, _ = guard_of_a_toy()
    assert [judge(guard, n) is not None for n in (0, 1, 2, 0, 1, 1)] == [False] * 6
    assert "3 updates in a row" in judge(guard, 1).reason
    assert [judge(guard, 1) is not None for _ in range(3)] == [False, False, True], "counted afresh"


def test_nothing_helps_for_ever():
    guard, stepper = guard_of_a_toy("bf16")
    precisions = [judge(guard, 10).precision for _ in range(5)]
    assert precisions == ["fp32"] * 5
    assert guard.rate_factor == pytest.approx(0.8**5)
    with pytest.raises(DivergedError, match="no step of the update was finite"):
        judge(guard, 10)
    assert not stepper.scaler.is_enabled()


def test_weights_that_have_never_been_updated_cannot_be_left():
    guard, _ = guard_of_a_toy()
    with pytest.raises(DivergedError, match="the policy's outputs"):
        guard.rollback("the policy's outputs")


def test_the_search_of_fp16_for_its_scale_is_no_failure():
    """The gradients of a step overflow in FP16 at first; the scaler halves its scale until they do not."""
    model = toy_model("bandit")
    updater = toy_updater(model, precision="fp16", epochs=1, batch_size=256)
    updater.stepper.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30)
    episodes, reports = toy_episodes("bandit", model, 1), []
    while not reports or reports[-1].skipped_steps:
        reports.append(toy_update(updater, episodes))
    assert 3 < len(reports) < 30
    assert all(report.fallbacks == [] for report in reports)
    assert all(report.skipped_steps == report.optimizer_steps == 1 for report in reports[:-1])


def test_fp16_below_its_least_scale_is_a_failure():
    guard, stepper = guard_of_a_toy("fp16")
    stepper.scaler = torch.amp.GradScaler("cpu", init_scale=0.5)
    stepper.scaler.scale(torch.zeros(1))  # makes its tensors
    assert judge(guard, 10).precision == "fp32", "the CPU has no BF16 of its own"
    assert not stepper.scaler.is_enabled()


@pytest.mark.parametrize(
    ("precision", "bf16", "expected"),
    [("fp16", True, "bf16"), ("fp16", False, "fp32"), ("bf16", True, "fp32"), ("fp32", True, "fp32")],
)
def test_the_next_format(precision, bf16, expected):
    assert safer_precision(precision, bf16) == expected


@pytest.mark.parametrize(
    ("reward", "discount", "growth", "found"),
    [
        (np.nan, 0.9, 0.0, "reward"),
        (-np.inf, 0.9, 0.0, "reward"),
        (2e12, 0.9, 0.0, "reward"),
        (1.0, np.nan, 0.0, "clock"),
        (1.0, 0.9, np.nan, "control_variate"),
        (1.0, 0.9, np.inf, "control_variate"),
    ],
)
def test_a_decision_that_cannot_be_learned_from_is_found(reward, discount, growth, found):
    rewards, discounts, variate = np.ones(5, np.float32), np.full(5, 0.9), np.zeros(5, np.float32)
    assert first_not_finite(rewards, discounts, variate) is None
    rewards[3], discounts[3], variate[3] = reward, discount, growth
    step, what = first_not_finite(rewards, discounts, variate)
    assert step == 3
    assert found in what
