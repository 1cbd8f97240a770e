"""Number formats of an update."""

import pytest
import torch

from longstride.hardware.planning.precision import choose_precision
from longstride.learning.torch_settings import apply_global_settings, grad_scaler


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ((6, 1), "fp32"),
        ((7, 0), "fp16"),
        ((7, 5), "fp16"),
        ((8, 0), "bf16"),
        ((8, 9), "bf16"),
        ((9, 0), "bf16"),
        ((12, 0), "bf16"),
    ],
)
def test_the_format_follows_the_compute_capability(capability, expected):
    assert choose_precision(capability) == expected


def test_only_fp16_scales_gradients():
    enabled = {p: grad_scaler(torch.device("cpu"), p).is_enabled() for p in ("fp32", "bf16", "fp16")}
    assert enabled == {"fp32": False, "bf16": False, "fp16": True}


@pytest.mark.parametrize("tf32", [True, False])
def test_global_switches(tf32):
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark
    try:
        apply_global_settings(tf32, tf32)
        assert torch.get_float32_matmul_precision() == ("high" if tf32 else "highest")
        assert torch.backends.cudnn.benchmark is tf32
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.benchmark = before[1]
