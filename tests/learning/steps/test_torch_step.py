"""One minibatch step: microbatches, threads, clipping, padding, the optimiser's state."""

import numpy as np
import pytest
import torch
from helpers.random_rollouts import SPACES, random_model, random_rollout
from helpers.toy_runs import columns_of, toy_coefficients, toy_episodes, toy_model, toy_stepper
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from longstride.learning.algorithms.interface import Samples
from longstride.learning.minibatches import split
from longstride.learning.steps.cpu_kernels.stepper import KernelStepper
from longstride.learning.steps.torch_step import TorchStepper


def rollout(model):
    trajectory = toy_episodes("bandit", model, 1)[0].trajectory
    n = trajectory.steps
    rng = np.random.default_rng(4)
    return Samples(
        observations=torch.from_numpy(trajectory.observations[:n].copy()),
        actions=torch.from_numpy(trajectory.actions.copy()),
        log_probs=torch.from_numpy(trajectory.log_probs.copy()),
        masks=torch.from_numpy(trajectory.masks.copy()),
        features=torch.from_numpy(trajectory.features.copy()),
        advantages=torch.from_numpy(rng.normal(size=n).astype(np.float32)),
        returns=torch.from_numpy(rng.normal(size=n).astype(np.float32)),
        values=torch.from_numpy(rng.normal(size=n).astype(np.float32)),
    )


def one_step(**changes):
    """Return report, gradients and weights after one step on the 256 samples of a bandit episode."""
    model = toy_model("bandit")
    batch = rollout(model)
    indices, weights = split(256, 256, np.random.default_rng(0))
    stepper = toy_stepper(model, **{"max_grad_norm": 1e9, **changes})
    report = stepper.step(batch, torch.from_numpy(indices)[0], torch.from_numpy(weights)[0])
    return report, stepper.optimizer.gradient, model.flat.clone()


@pytest.mark.parametrize("microbatch", [1, 50, 64, 255])
def test_microbatches_change_neither_gradient_nor_report(microbatch):
    report, gradient, _ = one_step(microbatch=256)
    split_report, split_gradient, _ = one_step(microbatch=microbatch)
    torch.testing.assert_close(split_gradient, gradient, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(split_report, report, rtol=1e-4, atol=1e-6)
    assert gradient.abs().max() > 1e-3


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_bit(threads):
    alone, together = one_step(microbatch=40), one_step(microbatch=40, threads=threads)
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("changes", [{}, {"threads": 2}, {"precision": "bf16"}], ids=str)
def test_checkpointing_changes_no_bit(space, changes):
    """And it does compute again: activations are called twice as often."""
    reports, flats, calls = [], [], []
    for checkpointing in (False, True):
        model = random_model(space)
        samples, activation, count = random_rollout(model, 64), model.activation, []
        model.activation = lambda x, activation=activation, count=count: count.append(1) or activation(x)
        stepper = toy_stepper(model, microbatch=20, checkpointing=checkpointing, **changes)
        arguments = samples, torch.arange(64), torch.full((64,), 1 / 64)
        reports += [stepper.step(*arguments), stepper.step(*arguments)]
        flats.append(model.flat.clone())
        calls.append(len(count))
    assert torch.equal(reports[1], reports[3])
    assert torch.equal(*flats)
    assert calls[1] == 2 * calls[0] > 0


def gradient_parts(stepper):
    """Return the clipped gradients of actor and critic in the last step."""
    sizes = [where.stop - where.start for where in map(stepper.model.layout.slice_of, ("actor", "critic"))]
    return torch.split(stepper.optimizer.gradient, sizes)


def test_actor_and_critic_are_clipped_apart():
    model = toy_model("bandit")
    batch = rollout(model)
    stepper = toy_stepper(model, max_grad_norm=0.01, microbatch=256)
    stepper.step(batch, torch.arange(256), torch.full((256,), 1 / 256))
    actor, critic = gradient_parts(stepper)
    assert [float(part.norm()) for part in (actor, critic)] == pytest.approx([0.01, 0.01], rel=1e-3)


def test_padding_does_not_move_the_weights():
    models = [toy_model("bandit"), toy_model("bandit")]
    batch = rollout(models[0])
    for model, padding in zip(models, (0, 30), strict=True):
        indices = torch.cat([torch.arange(100), torch.full((padding,), 200)])
        weights = torch.cat([torch.full((100,), 0.01), torch.zeros(padding)])
        toy_stepper(model, microbatch=256).step(batch, indices, weights)
    torch.testing.assert_close(models[0].flat, models[1].flat, rtol=1e-5, atol=1e-7)


def test_the_first_step_of_adam_by_hand():
    """The first step of Adam is the learning rate times gradient / (|gradient| + epsilon), epsilon 1e-5."""
    model = toy_model("bandit")
    before, batch = model.flat.clone(), rollout(model)
    rates = {"learning_rate_actor": 0.02, "learning_rate_critic": 0.004}
    stepper = toy_stepper(model, max_grad_norm=1e9, microbatch=256, **rates)
    stepper.set_coefficients(toy_coefficients(0.5))
    stepper.step(batch, torch.arange(256), torch.full((256,), 1 / 256))
    for part, rate, gradient in zip(("actor", "critic"), (0.01, 0.002), gradient_parts(stepper), strict=True):
        where = model.layout.slice_of(part)
        expected = before[where] - rate * gradient / (gradient.abs() + 1e-5)
        torch.testing.assert_close(model.flat[where].detach(), expected, rtol=1e-4, atol=1e-6)


def test_the_state_of_the_optimiser_moves_to_another_stepper():
    """Three steps equal two steps, a move and one step, to the bit."""
    weights = torch.full((256,), 1 / 256)
    through, moved = toy_model("bandit"), toy_model("bandit")
    batch = rollout(through)
    stepper = toy_stepper(through, microbatch=256)
    for _ in range(3):
        stepper.step(batch, torch.arange(256), weights)
    first = toy_stepper(moved, microbatch=256)
    assert first.optimizer_tensors() == {}
    for _ in range(2):
        first.step(batch, torch.arange(256), weights)
    saved = {name: tensor.clone() for name, tensor in first.optimizer_tensors().items()}
    second = toy_stepper(moved, microbatch=256)
    second.load_optimizer_tensors({**saved, "model.other": torch.zeros(1)})
    second.step(batch, torch.arange(256), weights)
    assert torch.equal(through.flat, moved.flat)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_first_step_that_is_skipped_leaves_no_state_of_the_optimiser(precision):
    model = toy_model("bandit")
    stepper, batch, before = toy_stepper(model, precision=precision), rollout(model), model.flat.clone()
    batch.returns[3] = torch.nan
    report = stepper.step(batch, torch.arange(256), torch.full((256,), 1 / 256))
    assert columns_of(stepper, report)["skipped"].item() == 1.0
    assert stepper.optimizer_tensors() == {}
    assert not any(tensor.any() for tensor in stepper.copy_optimizer())
    assert torch.equal(model.flat, before)


@pytest.mark.parametrize("space", SPACES)
def test_the_state_of_the_optimiser_is_the_same_after_a_way_through_both_steppers(space):
    models = [random_model(space) for _ in range(3)]
    first, kernels, last = (
        toy_stepper(model, kind)
        for model, kind in zip(models, (TorchStepper, KernelStepper, TorchStepper), strict=True)
    )
    samples = random_rollout(models[0], 64)
    for _ in range(2):
        first.step(samples, torch.arange(64), torch.full((64,), 1 / 64))
    kernels.load_optimizer_tensors(first.optimizer_tensors())
    last.load_optimizer_tensors(kernels.optimizer_tensors())
    expected, found = first.optimizer_tensors(), last.optimizer_tensors()
    assert expected.keys() == found.keys()
    parameters = [name for name in models[0].layout.shapes if name.startswith(("actor.", "critic."))]
    assert len(expected) == 3 * len(parameters)
    for i, name in enumerate(parameters):
        assert expected[f"optimizer.{i}.exp_avg"].shape == models[0].layout.shapes[name]
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name
        assert tensor.any(), name


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("space", SPACES)
def test_the_host_reads_no_number_of_a_step(space, precision):
    """On a GPU it would wait for each; here fake tensors, which have no numbers, refuse."""
    model = random_model(space)
    stepper = toy_stepper(model, precision=precision, microbatch=16)
    samples = random_rollout(model, 64)
    indices, weights = torch.arange(64), torch.full((64,), 1 / 64)
    stepper.step(samples, indices, weights)  # with the state of optimiser and scaler
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    with fake:
        report = stepper.step(samples.map(fake.from_tensor), fake.from_tensor(indices), fake.from_tensor(weights))
        with pytest.raises(DataDependentOutputException):
            columns_of(stepper, report)["total"].item()
