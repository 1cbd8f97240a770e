"""An update that runs out of memory continues with smaller microbatches; what is learned does not change."""

import gc
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from longstride.hardware.detect import free_bytes

T = TypeVar("T")
U = TypeVar("U")
Chunk = tuple[Tensor, ...]
"""Microbatch of some columns."""

SMALLEST_MICROBATCH = 16
"""Samples. Below this the activations are smaller than the parameters, and halving them frees nothing."""

_SIGNS = ("DefaultCPUAllocator: ", "CUDA error: out of memory", "STATUS_ALLOC_FAILED")
"""Parts of the messages of a RuntimeError that mean torch.OutOfMemoryError: those of torch's CPU allocator, of pinned
memory, and of the work spaces of cuBLAS and cuDNN."""

_LOST = (
    *("CUDA error: ", "CUDA driver error: ", "CUBLAS_STATUS_", "CUDNN_STATUS_", "cuDNN error", "NVML_SUCCESS == r"),
    *("fallen off the bus", "GPU is lost"),
)
"""Parts of the messages of a RuntimeError when a GPU fails: CUDA, its libraries, torch's allocator, the driver."""

_UNITS = {"": 1, "bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}


class OutOfMemory(NamedTuple):
    """An attempt that ran out of memory, for the record; a microbatch is the most samples in a forward pass.

    The phase is ``"snapshot"`` (of the state to return to), ``"upload"``, ``"values"``, ``"reference"`` or
    ``"log_probs"`` (of the actions under the first or the present policy), or ``"gradients"``. The bytes asked are None
    where the allocator's message does not say; the bytes free are those of the device at that time.
    """

    phase: str
    bytes_asked: int | None
    bytes_free: int
    microbatch_before: int
    microbatch_after: int


class OomRetry:
    """Runs the phases of an update, and runs them again with half the microbatch when memory runs out.

    Attributes:
        microbatch: most samples in a forward pass now; it never grows again in a run.
        pool: threads where more than one microbatch is computed at once, else None.
        release: function that frees what is held for the next step, called before another attempt.
        gives_up: whether an error is passed on in place of another attempt.
    """

    def __init__(self, microbatch: int, device: torch.device, threads: int = 1) -> None:
        self.microbatch, self._device, self._threads, self.gives_up = microbatch, device, threads, False
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.release: Callable[[], None] = lambda: None
        self._roomy = True
        self._events: list[OutOfMemory] = []

    def run(self, phase: str, rows: int, function: Callable[[], T]) -> T:
        """Return the result of a function that must change nothing until it returns; ``phase`` is for the record.

        It works on so many rows in forward passes of ``microbatch``, which it reads each time that it is called.

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

    def fits(self, function: Callable[[], object]) -> bool:
        """Return whether a function came to its end; where memory has run out once it is not tried again.

        What is kept for reuse is free then.
        """
        if self._roomy:
            try:
                function()
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                self._roomy = False
            else:
                return True
            self.free_caches()  # outside of the except block, whose traceback holds tensors
        return False

    def map_microbatches(
        self, function: Callable[[Chunk], T], *columns: Tensor, least: int = 0, unit: int = 1
    ) -> Iterator[T]:
        """Apply a function to the microbatches of some columns, on the CPU by threads; results come in order.

        Pieces have at least so many rows, where there are as many. A row counts for so many samples as ``unit`` says.
        """
        size = max(max(self.microbatch, least) // unit, 1)
        chunks = zip(*(torch.split(column, size) for column in columns), strict=True)
        return map_in_order(self.pool, function, chunks, self._threads + 1)

    def take_events(self) -> list[OutOfMemory]:
        """Return what happened since the last call."""
        events, self._events = self._events, []
        return events

    def free_caches(self) -> None:
        """Free memory that is kept for reuse."""
        self.release()
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()


def map_in_order(
    pool: ThreadPoolExecutor | None, function: Callable[[U], T], items: Iterable[U], ahead: int
) -> Iterator[T]:
    """Yield a function's results in the order of its arguments; without a pool on this thread.

    At most ``ahead`` calls wait. After a failure no thread holds memory any more.
    """
    if pool is None:
        yield from map(function, items)
        return
    pending: deque[Future[T]] = deque()
    try:
        for item in items:
            if len(pending) == ahead:
                yield pending.popleft().result()
            pending.append(pool.submit(function, item))
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
        wait(pending)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error means that memory ran out, on the host or on a GPU, or came up while such a one was handled."""
    if error is None or isinstance(error, MemoryError | torch.OutOfMemoryError):
        return error is not None
    named = isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)
    return named or is_out_of_memory(error.__context__)  # a capture that ends early complains about that, too


def is_gpu_lost(error: BaseException) -> bool:
    """Whether an error means that a GPU failed: a launch, an assertion on the device, the card itself.

    After most of them CUDA answers every later call of the process with the same error.
    """
    failed = isinstance(error, RuntimeError) and any(sign in str(error) for sign in _LOST)
    return failed and not is_out_of_memory(error)


def bytes_asked(error: BaseException) -> int | None:
    """Return how much an allocator was asked for, from its message: torch's on GPU and CPU, NumPy's."""
    match = re.search(r"[Aa]llocate (\d+(?:\.\d+)?) ?(bytes|[KMGTP]iB|)", str(error))
    return int(float(match[1]) * _UNITS[match[2]]) if match else None
