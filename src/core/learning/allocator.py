"""The settings of torch's CUDA allocator."""

import torch


def apply_allocator(settings: str) -> bool:
    """Set up the allocator and try it; return whether the settings hold (else torch's own are back).

    Args:
        settings: as in the environment variable PYTORCH_ALLOC_CONF; they take the place of all others.
    """
    try:
        _set(settings)
        torch.empty(1, device="cuda")  # virtual GPUs may lack what expandable segments need, and say so only now
    except RuntimeError:
        _set(",".join(f"{part.partition(':')[0]}:False" for part in settings.split(",")))
        return False
    return True


def _set(settings: str) -> None:
    """Tell the allocator: by the function of newer versions of torch, else by that of older ones."""
    newer = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    (newer or torch.cuda.memory._set_allocator_settings)(settings)
