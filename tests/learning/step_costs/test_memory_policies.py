"""The plan for policies with memory: predicted bytes, launches and traffic of a step against what is counted."""

import pytest
import torch
from helpers.counted_work import CountedWork
from helpers.memory_models import memory_spec
from helpers.memory_samples import chunked_samples
from helpers.peak_memory import PeakBytes
from helpers.real_steps import bytes_of, last_gradient, optimizer_moments
from helpers.toy_runs import toy_stepper
from torch.utils.flop_counter import FlopCounterMode

from longstride.learning.step_costs.columns import column_bytes
from longstride.learning.step_costs.update_memory import estimate_memory
from longstride.learning.step_costs.work import step_work
from longstride.policies.networks import ActorCritic, initialise
from longstride.policies.spec import CHUNK
from longstride.simulators.spaces import Discrete

STEPS = 512
SPECS = {
    "usual": memory_spec(32, Discrete(8), (128,) * 3, (256,) * 3, "relu"),
    "desk": memory_spec(151, Discrete(62), (128,) * 2, (256,) * 2, "relu", features=2),
    "small": memory_spec(4, Discrete(4), (16,), (16,)),
}


def prepared(spec, microbatch=STEPS, precision="fp32", checkpointing=False, on_card=False):
    """Return a stepper that has taken a step, as on a GPU or not, and the arguments of its next one."""
    model = ActorCritic(spec, on_card=on_card)
    initialise(model, "xavier_uniform", torch.Generator().manual_seed(0))
    stepper = toy_stepper(model, microbatch=microbatch, precision=precision, checkpointing=checkpointing)
    samples = chunked_samples(model, (STEPS,))
    arguments = samples, torch.arange(STEPS // CHUNK), samples.shares(torch.arange(STEPS // CHUNK))
    stepper.step(*arguments)
    return stepper, arguments


@pytest.fixture
def on_a_card(monkeypatch):
    """Scan as on a GPU: in rounds over all steps, for which the launches are counted."""
    monkeypatch.setattr("longstride.policies.families.mingru.network._step_by_step", lambda tensor: False)


def ratio_of_bytes(spec, microbatch, precision, checkpointing):
    """Return predicted over real bytes that a step adds."""
    stepper, arguments = prepared(spec, microbatch, precision, checkpointing)
    copies = [leaf for leaf in stepper._read.leaves.values() if leaf.dtype != torch.float32]
    held = [stepper.model.flat, last_gradient(stepper), *optimizer_moments(stepper), *copies, *stepper._state()]
    with PeakBytes(*arguments[0].tensors, *arguments[1:], *held) as real:
        stepper.step(*arguments)
    half = precision != "fp32"
    predicted = estimate_memory(spec, half, STEPS, STEPS, microbatch, 1, checkpointing=checkpointing)
    return (predicted.activations + predicted.gradients - 4 * spec.layout.size) / real.peak


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("microbatch", [128, STEPS])
@pytest.mark.parametrize("name", SPECS)
def test_the_bytes_of_a_step_are_little_more_than_real_ones(name, microbatch, precision):
    assert 0.95 <= ratio_of_bytes(SPECS[name], microbatch, precision, False) <= 1.1


@pytest.mark.parametrize("name", SPECS)
def test_the_bytes_of_a_step_that_computes_activations_again(name):
    assert 0.95 <= ratio_of_bytes(SPECS[name], STEPS, "fp32", True) <= 1.1


@pytest.mark.parametrize("name", ["desk", "usual"])
def test_the_bytes_of_such_a_step_in_half_precision(name):
    assert 0.95 <= ratio_of_bytes(SPECS[name], STEPS, "bf16", True) <= 1.1


@pytest.mark.parametrize("name", SPECS)
def test_the_bytes_of_a_scan_in_rounds(on_a_card, name):
    assert 0.95 <= ratio_of_bytes(SPECS[name], STEPS, "fp32", False) <= 1.1


def counted(name, microbatch, precision, checkpointing=False):
    """Return predicted and counted work of a step; the products of action features are not predicted."""
    spec = SPECS[name]
    stepper, arguments = prepared(spec, microbatch, precision, checkpointing, on_card=True)
    with CountedWork() as real, FlopCounterMode(display=False) as flops:
        stepper.step(*arguments)
    predicted = step_work(spec, precision != "fp32", STEPS, microbatch, checkpointing=checkpointing)
    return predicted, real, flops.get_total_flops()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("microbatch", [128, STEPS])
@pytest.mark.parametrize("name", SPECS)
def test_the_work_of_a_step_is_what_is_counted(on_a_card, name, microbatch, precision):
    predicted, real, flops = counted(name, microbatch, precision)
    assert predicted.launches == pytest.approx(real.launches, rel=0.01)
    assert predicted.traffic == pytest.approx(real.traffic, rel=0.02)
    assert 0.95 * flops < predicted.flops + predicted.wide_flops <= flops


@pytest.mark.parametrize("name", SPECS)
def test_the_work_of_a_step_that_computes_activations_again(on_a_card, name):
    predicted, real, _ = counted(name, STEPS, "fp32", checkpointing=True)
    assert predicted.launches == pytest.approx(real.launches, rel=0.01)
    assert predicted.traffic == pytest.approx(real.traffic, rel=0.02)


def test_the_columns_of_a_rollout_are_those_that_go_up():
    """But for the states before chunks of 128 steps, which count in full bytes a step."""
    spec = SPECS["desk"]
    samples = chunked_samples(ActorCritic(spec), (STEPS,))
    real = bytes_of(samples.tensors)
    columns = column_bytes(spec)
    assert real <= STEPS * sum(columns.values()) <= real + 4 * STEPS
    assert columns["begins"] == 1
    assert columns["chunks"] == 8 + 4 + 1 + 4 * (256 + 512) // CHUNK
