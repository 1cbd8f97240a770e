"""The measured gradient noise: against a direct computation, and without bias on gradients of known noise."""

import numpy as np
import pytest
import torch
from helpers.toy_runs import KINDS, discounts_of, rollout_batch, toy_episodes, toy_model, toy_stepper

from longstride.learning.batch.prepare import prepare_batch
from longstride.learning.batch.upload import upload_rollout
from longstride.learning.device_transfer import DeviceBuffers
from longstride.learning.gradient_noise import gradient_noise
from longstride.learning.steps.cpu_kernels.stepper import KernelStepper
from longstride.learning.steps.torch_step import TorchStepper


def test_signal_and_noise_are_those_of_the_definition():
    gradients = np.random.default_rng(0).normal(1.0, 2.0, (7, 11)).astype(np.float32)
    mean = gradients.mean(axis=0, dtype=np.float64)
    variance = gradients.astype(np.float64).var(axis=0, ddof=1).sum() / len(gradients)
    measured = gradient_noise(torch.from_numpy(gradients))
    assert measured.noise == pytest.approx(variance, rel=1e-9)
    assert measured.signal == pytest.approx((mean**2).sum() - variance, rel=1e-9)


def test_neither_has_a_bias():
    """3,000 rollouts of four gradients with mean (3, 0, 0, ...) and variance 4 in each of 10 numbers."""
    rng, mean = np.random.default_rng(1), np.r_[3.0, np.zeros(9)]
    measured = [gradient_noise(torch.from_numpy(mean + rng.normal(0.0, 2.0, (4, 10)))) for _ in range(3000)]
    assert np.mean([m.noise for m in measured]) == pytest.approx(10 * 4 / 4, rel=0.02)
    signals = [m.signal for m in measured]
    assert abs(np.mean(signals) - 9.0) < 4 * np.std(signals) / 3000**0.5


def test_a_single_part_says_nothing_of_noise():
    assert gradient_noise([torch.ones(3)]) is None
    assert gradient_noise([]) is None


@pytest.mark.parametrize("kind", KINDS)
def test_both_steppers_give_the_same_gradient_and_change_nothing(kind):
    model = toy_model(kind)
    episodes = toy_episodes(kind, model, 2)
    rollout = rollout_batch([e.trajectory for e in episodes], discounts_of(episodes))
    kernels, other = toy_stepper(model, KernelStepper), toy_stepper(model, TorchStepper)
    buffers = DeviceBuffers(other.device)
    samples = prepare_batch(other, rollout, upload_rollout(other, rollout, buffers), buffers).samples
    before, which = model.flat.clone(), torch.arange(3, rollout.steps, 2)
    gradients = [stepper.actor_gradient(samples, which) for stepper in (kernels, other)]
    assert torch.equal(model.flat, before)
    assert kernels.optimizer_tensors() == other.optimizer_tensors() == {}
    assert gradients[0].norm() > 1e-4
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)
