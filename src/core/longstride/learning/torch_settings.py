"""torch's settings for an update: number formats, TF32, cuDNN's choice of kernels, the CUDA allocator."""

import torch

from longstride.hardware.types import Precision


def apply_global_settings(tf32: bool, cudnn_benchmark: bool) -> None:
    """Set torch's process-wide switches."""
    # The one switch for TF32 that keeps torch's old and new getters in agreement.
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.benchmark = cudnn_benchmark


def grad_scaler(device: torch.device, precision: Precision) -> torch.amp.GradScaler:
    """Return the gradient scaler that FP16 needs; for other formats it does nothing."""
    return torch.amp.GradScaler(device.type, enabled=precision == "fp16")


def apply_allocator(settings: str) -> bool:
    """Set up the CUDA allocator and try it; return whether the settings hold (else torch's own are back).

    They are those of the environment variable PYTORCH_ALLOC_CONF, and replace all others.
    """
    try:
        _set_allocator(settings)
        torch.empty(1, device="cuda")  # virtual GPUs may lack what expandable segments need, and fail only now
    except RuntimeError:
        _set_allocator(",".join(f"{part.partition(':')[0]}:False" for part in settings.split(",")))
        return False
    return True


def _set_allocator(settings: str) -> None:
    """Call the function of newer versions of torch, else that of older ones."""
    newer = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    (newer or torch.cuda.memory._set_allocator_settings)(settings)
