"""The predicted bytes of a step against what torch's allocator counts on a real GPU."""

import gc

import numpy as np
import pytest
import torch
from helpers.real_steps import prepared_step, prepared_update
from helpers.specs import mlp_spec

from longstride.hardware.planning.update_memory import workspace_bytes
from longstride.learning.step_costs.update_memory import estimate_memory
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no NVIDIA GPU here"),
]

SHAPES = [
    mlp_spec((32, 128, 128, 128, 8), (32, 256, 256, 256, 1), space=Discrete(8)),
    mlp_spec((151, 128, 128, 128, 62), (151, 256, 256, 256, 1), space=Discrete(62), action_features=5),
    mlp_spec((16, 1024, 1024, 50), (16, 2048, 2048, 1), space=MultiDiscrete([30, 20])),
    mlp_spec((32, 64, 64, 6), (32, 96, 96, 1), space=Box([-1.0] * 6, [1.0] * 6, squashed=True)),
]


@pytest.mark.parametrize("shape", SHAPES, ids=["small", "loan desk", "wide", "box"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("parts", [1, 4])
def test_the_prediction_is_within_a_tenth_of_a_real_step(shape, precision, parts):
    if precision == "bf16" and torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("BF16 needs compute capability 8.0")
    samples = 65_536
    stepper, rollout, indices, weights = prepared_step(shape, precision, samples, samples // parts, device="cuda")
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    stepper.step(rollout, indices, weights)
    torch.cuda.synchronize()
    real = torch.cuda.max_memory_allocated() - before
    predicted = estimate_memory(shape, precision != "fp32", samples, samples, samples // parts, 1, on_card=True)
    assert predicted.activations + predicted.gradients - predicted.parameters == pytest.approx(real, rel=0.1)


@pytest.mark.parametrize("width", [1024, 4096])
def test_the_peak_is_within_a_tenth_of_a_whole_updates(width):
    """Beside the workspace of matrix products that a product makes before; another is made on the second stream."""
    a = torch.randn(64, 64, device="cuda")
    torch.mm(a, a)
    del a
    gc.collect()  # what earlier tests left
    before = torch.cuda.memory_allocated()
    updater, played, predicted = prepared_update(width, "cuda")
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    updater.update(*played, np.random.default_rng(2))
    torch.cuda.synchronize()
    another = workspace_bytes(torch.cuda.get_device_capability()) // 4
    assert predicted.peak + another == pytest.approx(torch.cuda.max_memory_allocated() - before, rel=0.1)
