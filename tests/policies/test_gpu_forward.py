"""Captured forward passes of half-batches on a real GPU against the CPU's; and the same tests on the CPU."""

import numpy as np
import pytest
import torch
from helpers.devices import DEVICES, require
from helpers.memory_models import memory_model, memory_spec
from helpers.recorded_graphs import RecordedGraphs
from helpers.toy_runs import toy_model
from helpers.transformer_models import transformer_spec

from longstride.learning.steps.cuda_graph import CudaGraphs
from longstride.learning.torch_settings import apply_global_settings
from longstride.policies.batched_forward import TorchForward

ROWS, STEPS, CPU = 16, 40, torch.device("cpu")
MODELS = {
    "mlp": lambda: toy_model("shop"),
    "mingru": lambda: memory_model(memory_spec()),
    "transformer": lambda: memory_model(transformer_spec(widths=(32, 24))),
}


@pytest.fixture(autouse=True)
def full_float32():
    """Compare in float32 without TF32, whose ten bits of mantissa would hide errors."""
    apply_global_settings(tf32=False, cudnn_benchmark=False)


def forward_of(model, device, new_graphs=None, in_bf16=False):
    forward = TorchForward(model.spec, 2, ROWS, device, new_graphs, in_bf16)
    forward.load(model.flat[: model.layout.actor_size].numpy())
    return forward


def answer(forward, inputs):
    forward.observations[1], forward.begins[1] = inputs
    forward.launch(1)
    forward.wait(1)
    return forward.outputs[1].copy()


def inputs_for(spec):
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        yield rng.normal(0, 2, (ROWS, spec.observation_size)).astype(np.float32), rng.random((ROWS, 1)) < 0.1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("name", "in_bf16", "largest"),
    [("mlp", False, 1e-4), ("mingru", False, 1e-4), ("transformer", False, 1e-4), ("transformer", True, 0.1)],
)
def test_a_captured_pass_is_that_of_the_cpu_in_float32(device, name, in_bf16, largest):
    """Rings in BF16 move logits of 4 by up to 0.05 on a CPU, and kernels of attention differ in what they round."""
    require(device, "bf16" if in_bf16 else "fp32")
    model, where = MODELS[name](), torch.device(device)
    on_cpu = forward_of(model, CPU)
    graphs = RecordedGraphs if name != "mingru" else None  # on a CPU its scan is no operation of torch
    captured = forward_of(model, where, (lambda: CudaGraphs(where)) if device == "cuda" else graphs, in_bf16)
    differences = []
    for inputs in inputs_for(model.spec):
        expected, found = answer(on_cpu, inputs), answer(captured, inputs)
        differences.append(np.abs(expected - found).max())
    assert captured.note == ""
    assert max(differences) < largest
    assert not in_bf16 or max(differences) > 1e-4, "rings are rounded"
    if model.spec.has_memory:
        kept = np.zeros((ROWS, model.spec.state_size), np.float32)
        captured.read_states(1, kept)
        assert np.array_equal(kept, captured.copy_states()(1))
        assert np.array_equal(kept[:, -1:], on_cpu.copy_states()(1)[:, -1:]) or name == "mingru", "ages"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("in_bf16", [False, True])
def test_a_transformer_resumes_to_the_bit(device, in_bf16):
    require(device, "bf16" if in_bf16 else "fp32")
    model, where = MODELS["transformer"](), torch.device(device)
    whole, resumed = (forward_of(model, where, in_bf16=in_bf16) for _ in range(2))
    for step, inputs in enumerate(inputs_for(model.spec)):
        if step == STEPS // 2:
            resumed.set_states(1, whole.copy_states()(1))
        expected = answer(whole, inputs)
        if step >= STEPS // 2:
            assert np.array_equal(answer(resumed, inputs), expected), step
