"""Whole updates with compiled steps: the updater takes them where the plan says so, with all remedies."""

import numpy as np
import pytest
import torch
from helpers.toy_runs import (
    discounts_of,
    rollout_batch,
    toy_coefficients,
    toy_episodes,
    toy_model,
    toy_update,
    toy_updater,
)
from numba import typeof

from longstride.learning import advantages
from longstride.learning.steps.cpu_kernels import backprop, stepper
from longstride.learning.steps.cpu_kernels.stepper import KernelStepper
from longstride.learning.updater import UpdateReport


def updated(execution, **changes):
    """Return updater and report after two epochs over an episode, four minibatches each."""
    model = toy_model("bandit")
    updater = toy_updater(model, executions=(execution,), **changes)
    return updater, update(updater)


def update(updater, kind="bandit") -> UpdateReport:
    return toy_update(updater, toy_episodes(kind, toy_model(kind), 1))


def test_an_update_learns_the_same_as_torchs():
    (eager, expected), (compiled, report) = updated("eager"), updated("numba")
    assert isinstance(compiled.stepper, KernelStepper)
    assert not isinstance(eager.stepper, KernelStepper)
    assert report.losses["initial_ratio_error"] < 1e-3
    assert report.optimizer_steps == expected.optimizer_steps == 8
    torch.testing.assert_close(compiled.model.flat, eager.model.flat, rtol=1e-3, atol=1e-4)
    for name in ("policy_loss", "value_loss", "entropy", "approx_kl"):
        np.testing.assert_allclose(report.losses[name], expected.losses[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_coefficients_that_change_between_updates_hold():
    results = []
    for execution in ("eager", "numba"):
        updater, _ = updated(execution)
        episodes = toy_episodes("bandit", toy_model("bandit"), 1)
        rollout = rollout_batch([e.trajectory for e in episodes], discounts_of(episodes))
        coefficients = toy_coefficients(0.5, clip_range=0.01, entropy_coefficient=0.5, value_coefficient=2.0)
        updater.update(rollout, coefficients, np.random.default_rng(0))
        results.append(updater.model.flat)
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-4)


def test_going_back_restores_weights_and_state():
    updater, _ = updated("numba")
    good = {name: t.clone() for name, t in updater.stepper.optimizer_tensors().items()}
    weights = updater.model.flat.clone()
    update(updater)
    assert not torch.equal(updater.model.flat, weights)
    updater.rollback("a test")
    assert torch.equal(updater.model.flat, weights)
    assert all(torch.equal(updater.stepper.optimizer_tensors()[name], tensor) for name, tensor in good.items())


def test_an_update_none_of_whose_steps_is_finite_changes_nothing():
    updater, _ = updated("numba")
    with torch.no_grad():
        updater.model.tensors["critic.0.weight"][0, 0] = np.nan
    report = update(updater)
    assert report.skipped_steps == report.optimizer_steps == 8
    assert report.fallbacks
    assert updater.model.flat.isfinite().all(), "back at the weights before"


KERNELS = [
    *((backprop, name) for name in ("gather", "forward", "backward", "choices_head", "gaussian_head", "value_head")),
    *((stepper, name) for name in ("norm", "adam")),
    (advantages, "_advantages"),
]


@pytest.mark.parametrize("kind", ["bandit", "shop", "choices", "tracker", "squashed"])
def test_nothing_is_left_to_compile_when_updates_begin(kind, monkeypatch):
    asked = set()

    def noting(name, kernel):
        def call(*arguments):
            asked.add((name, tuple(typeof(argument) for argument in arguments)))
            return kernel(*arguments)

        return call

    for module, name in KERNELS:
        monkeypatch.setattr(module, name, noting(name, getattr(module, name)))
    updater = toy_updater(toy_model(kind), executions=("numba",))
    before = updater.model.flat.clone()
    updater.compile()
    compiled = set(asked)
    assert torch.equal(updater.model.flat, before)
    assert not updater.stepper.optimizer_tensors()
    update(updater, kind)
    assert asked == compiled
    assert len({name for name, _ in asked}) == 8
