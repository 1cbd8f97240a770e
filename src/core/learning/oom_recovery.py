"""An update that runs out of memory goes on with smaller microbatches; what is learned does not change."""

import gc
import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch

from core.hardware.detect import free_bytes

T = TypeVar("T")

SMALLEST_MICROBATCH = 16
"""Samples; below this the activations are smaller than the weights and halving them frees nothing."""

_SIGNS = ("DefaultCPUAllocator: ", "CUDA error: out of memory", "STATUS_ALLOC_FAILED")
"""What a RuntimeError says that means the same as torch.OutOfMemoryError: torch's CPU allocator, pinned memory, and
the work spaces of cuBLAS and cuDNN."""

_LOST = (
    *("CUDA error: ", "CUDA driver error: ", "CUBLAS_STATUS_", "CUDNN_STATUS_", "cuDNN error", "NVML_SUCCESS == r"),
    *("fallen off the bus", "GPU is lost"),
)
"""What a RuntimeError says when a GPU fails: CUDA, its libraries, torch's allocator asking NVML, the driver."""

_UNITS = {"": 1, "bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}


class OutOfMemory(NamedTuple):
    """What happened, for the record.

    Attributes:
        phase: of the update: ``"snapshot"`` (the state to go back to), ``"upload"``, ``"values"`` or ``"gradients"``.
        bytes_asked: that the allocator could not give, None where its message does not say.
        bytes_free: memory of the device that nobody used then.
        microbatch_before: most samples in the forward pass that failed.
        microbatch_after: the same from there on.
    """

    phase: str
    bytes_asked: int | None
    bytes_free: int
    microbatch_before: int
    microbatch_after: int


class OomRetry:
    """Runs the phases of an update, and runs them again with half the microbatch when memory runs out.

    Args:
        microbatch: most samples in a forward pass, at first.
        device: of the update.

    Attributes:
        microbatch: the same now; what is too large once stays too large for the rest of the run.
        release: called before a second attempt; lets go of memory that is held for the next step.
        gives_up: whether an error is passed on in place of a second attempt.
    """

    def __init__(self, microbatch: int, device: torch.device) -> None:
        self.microbatch, self._device = microbatch, device
        self.release: Callable[[], None] = _nothing
        self.gives_up = False
        self._events: list[OutOfMemory] = []

    def run(self, phase: str, rows: int, function: Callable[[], T]) -> T:
        """Return the result of a function that must change nothing until it returns.

        Args:
            phase: its name for the record.
            rows: samples that it works on, in forward passes of at most ``microbatch`` of them.
            function: reads ``microbatch`` each time that it is called.

        Raises:
            MemoryError: (or the RuntimeError of torch that means it) memory ran out at the smallest microbatch.
        """
        while True:
            try:
                return function()
            except (MemoryError, RuntimeError) as error:
                size = min(self.microbatch, rows)
                if self.gives_up or not is_out_of_memory(error) or size <= SMALLEST_MICROBATCH:
                    raise
                half = max(-(-size // 2), SMALLEST_MICROBATCH)
                self._events.append(OutOfMemory(phase, bytes_asked(error), free_bytes(self._device.type), size, half))
            # Outside of the except block: until its end the traceback holds the tensors of the failed attempt.
            self.microbatch = half
            self.free_caches()

    def take_events(self) -> list[OutOfMemory]:
        """Return what happened since the last call."""
        events, self._events = self._events, []
        return events

    def free_caches(self) -> None:
        """Give back what is kept for reuse."""
        self.release()
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error means that memory ran out, on the host or on a GPU, or came up while such a one was handled."""
    if error is None or isinstance(error, MemoryError | torch.OutOfMemoryError):
        return error is not None
    named = isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)
    return named or is_out_of_memory(error.__context__)  # a capture that ends early complains about that, too


def _nothing() -> None:
    pass


def is_gpu_lost(error: BaseException) -> bool:
    """Whether an error means that a GPU failed: a launch, an assertion on the device, the card itself.

    After most of them CUDA answers every later call of the process with the same error.
    """
    failed = isinstance(error, RuntimeError) and any(sign in str(error) for sign in _LOST)
    return failed and not is_out_of_memory(error)


def bytes_asked(error: BaseException) -> int | None:
    """Return how much an allocator was asked for, from its message: torch's on GPU and CPU, NumPy's."""
    found = re.search(r"[Aa]llocate (\d+(?:\.\d+)?) ?(bytes|[KMGTP]iB|)", str(error))
    return int(float(found[1]) * _UNITS[found[2]]) if found else None
