"""Number formats of an update: BF16 or FP16 autocast, TF32, cuDNN's choice of kernels."""

from contextlib import AbstractContextManager

import torch

from core.hardware.types import Precision


def apply_global_settings(tf32: bool, cudnn_benchmark: bool) -> None:
    """Set torch's process-wide switches.

    Only ``set_float32_matmul_precision`` is used for TF32: it keeps torch's old and new getters in agreement.
    """
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.benchmark = cudnn_benchmark


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[None]:
    """Return the context in which a forward pass runs."""
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    # No cache of cast weights: it would hold stale copies across a captured graph.
    return torch.autocast(device.type, dtype=dtype, enabled=precision != "fp32", cache_enabled=False)


def grad_scaler(device: torch.device, precision: Precision) -> torch.amp.GradScaler:
    """Return the gradient scaler that FP16 needs; for other formats it does nothing."""
    return torch.amp.GradScaler(device.type, enabled=precision == "fp16")
