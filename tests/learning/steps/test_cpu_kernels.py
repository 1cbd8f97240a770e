"""Compiled steps against torch's: loss terms, gradients, weights and state, for every kind of policy."""

import numpy as np
import pytest
import torch
from helpers.random_rollouts import random_model, random_rollout
from helpers.toy_runs import columns_of, toy_coefficients, toy_stepper

from longstride.learning.algorithms.interface import Samples
from longstride.learning.algorithms.ppo import PpoCoefficients
from longstride.learning.steps.cpu_kernels import backprop
from longstride.learning.steps.cpu_kernels.adam import adam
from longstride.learning.steps.cpu_kernels.loss_gradients import TERMS, Piece, value_head
from longstride.learning.steps.cpu_kernels.stepper import KernelStepper, kernel_coefficients
from longstride.learning.steps.interface import SKIPPED, TOTAL
from longstride.learning.steps.torch_step import TorchStepper

N = 700
"""Samples of a minibatch: three pieces."""

KINDS = [
    ("discrete", "tanh", 0),
    ("discrete", "relu", 2),
    ("choices", "relu", 0),
    ("choices", "tanh", 3),
    ("gaussian", "tanh", 0),
    ("gaussian", "relu", 0),
    ("squashed", "tanh", 0),
]


def stepper(kind, compiled, **changes):
    model = random_model(*kind)
    rates = {"learning_rate_actor": 2e-3, "learning_rate_critic": 3e-3, "adam_epsilon_actor": 1e-4}
    made = toy_stepper(model, KernelStepper if compiled else TorchStepper, **rates, **changes)
    return made, random_rollout(model, 1000)


def known(made, report):
    """Return the columns of a report that the kernels compute."""
    columns = columns_of(made, report)
    return {name: columns[name] for name in (TOTAL, *TERMS, SKIPPED)}


def minibatch(seed=0, padding=0):
    """Return indices of N samples, some padded with weight 0, and weights that differ."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(N, generator=generator)
    weights[N - padding :] = 0.0
    return torch.randint(0, 1000, (N,), generator=generator), weights / weights.sum()


def gradient_of(made, rollout, indices, weights):
    """Return torch's gradient before clipping, where the parameters lie in the flat array, and 0 elsewhere."""
    flat = torch.zeros_like(made.model.flat)
    gradient = made.gradients(rollout, indices, weights)[0]
    for part in made.model.layout.slice_of("actor"), made.model.layout.slice_of("critic"):
        flat[part] = gradient[part]
    return flat


@pytest.mark.parametrize("kind", KINDS, ids=["-".join(map(str, kind)) for kind in KINDS])
@pytest.mark.parametrize(("entropy", "value"), [(0.0, 0.5), (0.07, 1.3)])
def test_gradients_and_terms_are_those_of_torch(kind, entropy, value):
    coefficients = {"entropy_coefficient": entropy, "value_coefficient": value}
    changes = {**coefficients, "max_grad_norm": 1e9}
    (eager, rollout), (compiled, _) = stepper(kind, False, **changes), stepper(kind, True, **changes)
    indices, weights = minibatch(padding=30)
    expected = gradient_of(eager, rollout, indices, weights)
    terms, expected_terms = (known(made, made.step(rollout, indices, weights)) for made in (compiled, eager))
    assert 0.1 < expected_terms["clip_fraction"] < 0.9, "some ratios are clipped, some are not"
    torch.testing.assert_close(terms, expected_terms, rtol=3e-5, atol=3e-6)
    for name, offset in compiled.model.layout.offsets.items():
        part = slice(offset, offset + compiled.model.tensors[name].numel())
        actual = torch.from_numpy(compiled._gradient[part])
        torch.testing.assert_close(actual, expected[part], rtol=1e-4, atol=2e-6, msg=lambda m, n=name: f"{n}: {m}")
        assert expected[part].abs().max() > 1e-4 or not name.startswith(("actor", "critic")), name


def test_moments_of_gradients_that_stay_0_become_0():
    """Without that they end as numbers that are not normal, with which processors are slow."""
    values, gradient, first, second = (np.zeros(40, np.float32) for _ in range(4))
    gradient[:20] = 1e-17
    adam(values, gradient, first, second, 1.0, 1e-3, 1.0, 1e-5)
    assert first[:20].all() and second[:20].all()
    gradient[:] = 0.0
    for steps, moment in ((500, first), (2000, second)):
        for _ in range(steps):
            adam(values, gradient, first, second, 1.0, 1e-3, 1.0, 1e-5)
        assert not moment.any()


@pytest.mark.parametrize("kind", KINDS[1::2], ids=["-".join(map(str, kind)) for kind in KINDS[1::2]])
def test_weights_and_state_after_several_clipped_steps_are_those_of_torch(kind):
    made = [stepper(kind, compiled, max_grad_norm=0.05) for compiled in (False, True)]
    for seed in range(5):
        for one, rollout in made:
            one.set_coefficients(toy_coefficients(1 / (seed + 1)))
            one.step(rollout, *minibatch(seed))
    (eager, _), (compiled, _) = made
    torch.testing.assert_close(compiled.model.flat, eager.model.flat, rtol=2e-4, atol=2e-5)
    assert (eager.model.flat - random_model(*kind).flat).abs().max() > 3e-3
    expected, actual = eager.optimizer_tensors(), compiled.optimizer_tensors()
    assert expected.keys() == actual.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(actual[name], tensor, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("compiled_first", [True, False])
def test_the_state_moves_between_the_steppers(compiled_first):
    """Two steps of one and two of the other are four of torch."""
    through, rollout = stepper(KINDS[0], False)
    for seed in range(4):
        through.step(rollout, *minibatch(seed))
    first, _ = stepper(KINDS[0], compiled_first)
    second, _ = stepper(KINDS[0], not compiled_first)
    for seed in range(2):
        first.step(rollout, *minibatch(seed))
    second.model.flat.copy_(first.model.flat)
    second.load_optimizer_tensors({**first.optimizer_tensors(), "model.other": torch.zeros(1)})
    for seed in range(2, 4):
        second.step(rollout, *minibatch(seed))
    torch.testing.assert_close(second.model.flat, through.model.flat, rtol=1e-4, atol=1e-5)
    second.load_optimizer_tensors({})
    assert second.optimizer_tensors() == {}


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_bit(threads):
    results = []
    for count in (1, threads):
        made, rollout = stepper(KINDS[1], True, threads=count, microbatch=64)
        reports = [known(made, made.step(rollout, *minibatch(seed))) for seed in range(2)]
        figures = [column for report in reports for column in report.values()]
        results.append((torch.stack(figures), made.model.flat))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("microbatch", [33, 100, 2048])
def test_pieces_change_the_step_by_rounding_only(microbatch):
    reports = []
    for size in (microbatch, 256):
        made, rollout = stepper(KINDS[3], True, microbatch=size)
        reports.append((known(made, made.step(rollout, *minibatch())), torch.from_numpy(made._gradient)))
    torch.testing.assert_close(*reports, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[1], KINDS[4]], ids=["tanh", "relu", "gaussian"])
@pytest.mark.parametrize(("column", "number"), [("observations", np.nan), ("advantages", np.inf), ("returns", np.nan)])
def test_a_step_that_is_not_finite_is_skipped_like_torchs(kind, column, number):
    reports = []
    for compiled in (False, True):
        made, rollout = stepper(kind, compiled)
        indices, weights = minibatch()
        made.step(rollout, indices, weights)
        before = {"flat": made.model.flat.clone(), **{n: t.clone() for n, t in made.optimizer_tensors().items()}}
        getattr(rollout, column)[indices[5]] = number
        reports.append(known(made, made.step(rollout, indices, weights)))
        after = {"flat": made.model.flat, **made.optimizer_tensors()}
        assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert [float(report["skipped"]) for report in reports] == [1.0, 1.0]
    assert [column.isfinite() for column in reports[0].values()] == [c.isfinite() for c in reports[1].values()]


def test_a_step_that_ran_out_of_memory_is_the_step_with_half_the_microbatch(monkeypatch):
    expected, rollout = stepper(KINDS[0], True, microbatch=32, threads=2)
    expected.step(rollout, *minibatch())
    made, _ = stepper(KINDS[0], True, microbatch=64, threads=2)
    run, failures = backprop.value_head, [MemoryError(), MemoryError()]

    def fail_once(values, *rest):
        if len(values) == N % 64 and failures:
            failures.clear()
            raise MemoryError
        run(values, *rest)

    monkeypatch.setattr(backprop, "value_head", fail_once)
    made.step(rollout, *minibatch())
    assert [event.microbatch_after for event in made.memory.take_events()] == [32]
    assert torch.equal(made.model.flat, expected.model.flat)
    for name, tensor in expected.optimizer_tensors().items():
        assert torch.equal(made.optimizer_tensors()[name], tensor), name


def test_the_value_loss_by_hand():
    values, weights = np.array([1.5, -1.0], np.float32), np.array([0.75, 0.25], np.float32)
    columns = Samples(*[np.zeros(0)] * 6, np.array([0.5, 2.0], np.float32), np.zeros(0))
    coefficients, terms = kernel_coefficients(PpoCoefficients(0.2, 0.0, 2.0)), np.zeros(len(TERMS))
    value_head(values, Piece(columns, np.arange(2), weights, coefficients), terms)
    assert dict(zip(TERMS, terms, strict=True))["value_loss"] == pytest.approx(0.5 * (0.75 * 1.0 + 0.25 * 9.0))
    np.testing.assert_allclose(values, [2 * 0.75 * 1.0, 2 * 0.25 * -3.0], rtol=1e-6)
