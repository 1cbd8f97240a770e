"""Writing while a run trains: a disk that is full for a minute must not end hours of training.

What could not be written stays in memory and is tried again after each iteration and at the end. The run fails only if
something is still unsaved at its end.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from torch import Tensor

from longstride.errors import NotSavedError
from longstride.text import format_duration
from longstride.training.run_directory.checkpoint import save_checkpoint
from longstride.training.run_directory.directory import RunDirectory, Which

_SHORT, _SHARE = 2.0, 0.1
"""Seconds that a checkpoint may take after each iteration, and the share of the time that longer ones may take. A
single long one does not count: a disk may be busy for a moment."""


class WriteRetry:
    """Attempts to write, and one line for each kind of failure; ``unsaved`` has reasons by what is not written.

    ``require`` raises OSError where the run directory is no longer the run's own.
    """

    def __init__(self, require: Callable[[], None] = lambda: None) -> None:
        self.unsaved: dict[str, str] = {}
        self.require = require
        self._lost: dict[str, str] = {}  # reasons by what no later attempt can write
        self._reported: set[tuple[str, int | None]] = set()
        self._lines: deque[str] = deque()  # the thread that writes checkpoints adds to it

    def attempt(self, name: str, write: Callable[[], None]) -> bool:
        """Call a function that writes something, which has a name for people; return whether that worked."""
        try:
            self.require()
            write()
        except OSError as error:
            self._add_failure(name, error)
            return False
        if self.unsaved.pop(name, None):
            self.tell(f"{name} is written again, with everything that was missing.")
        return True

    def lose(self, name: str, reason: str) -> None:
        """Note that something that was written is lost; the run continues, and fails at its end."""
        if name not in self._lost:
            self.tell(f"{name} is not complete: {reason}. Training continues, and its checkpoints are not affected.")
        self._lost[name] = reason

    def tell(self, line: str) -> None:
        """Add a line for people."""
        self._lines.append(line)

    def lines(self) -> Iterator[str]:
        """Yield the lines since the last call."""
        while self._lines:
            yield self._lines.popleft()

    def require_all(self, directory: Path, saved_iteration: int) -> None:
        """Check at the end of a run, whose last checkpoint is of an iteration (0 for none), that everything is written.

        Raises:
            NotSavedError: something is not written.
        """
        if not self.unsaved and not self._lost:
            return
        missing = ", ".join(f"{name} ({reason})" for name, reason in (self._lost | self.unsaved).items())
        if not self.unsaved:
            raise NotSavedError(
                f"Not everything is left in {directory}: {missing}. The checkpoint of iteration {saved_iteration} is "
                "saved; restore that file from a copy if you have one."
            )
        last, remedy = f"The last checkpoint there is of iteration {saved_iteration}", "continue with --resume"
        if not saved_iteration:
            last, remedy = "No checkpoint is there", "train again"
        raise NotSavedError(
            f"Not everything could be saved in {directory}: {missing}. {last}; free space or repair the disk, and "
            f"{remedy}."
        )

    def _add_failure(self, name: str, error: OSError) -> None:
        self.unsaved[name] = error.strerror or str(error)
        if (name, error.errno) not in self._reported:
            self._reported.add((name, error.errno))
            self.tell(
                f"Cannot write {name}: {self.unsaved[name]}. Training continues, and this is tried again after each "
                "iteration; what was saved before stays as it is."
            )


class CheckpointWriter:
    """Writes checkpoints in a thread, at most one iteration's at a time: a disk can be slower than an iteration.

    Large ones are not written after each iteration: all of them together take a tenth of the time at most.

    ``kept`` last checkpoints stay, and one best. ``saved_iteration`` is that of the last one on the disk, ``begun`` of
    the last one whose writing has begun, 0 for none. ``seconds`` is the time that the run has spent on them since
    :meth:`figures`.
    """

    def __init__(self, directory: RunDirectory, kept: int = 3, retry: WriteRetry | None = None) -> None:
        self.retry = retry or WriteRetry()
        self.saved_iteration, self.begun, self.seconds = 0, 0, 0.0
        self._directory, self._kept = directory, kept
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._running: Future[None] | None = None
        self._waiting: dict[Which, tuple[dict[str, Tensor], dict[str, Any]]] = {}
        self._since, self._unsaid = 0.0, True  # when the newest one was begun
        self._took = 0.0, 0.0  # seconds that the last two took

    def is_due(self) -> bool:
        """Return whether a last checkpoint should follow; then wait until the one before is written.

        So metrics are never two iterations ahead of short ones.
        """
        if not self._has_time:
            return False
        self.wait()  # only now it may be known how long that takes
        return self._has_time

    @property
    def _has_time(self) -> bool:
        took = min(self._took)
        return self.begun == 0 or took < _SHORT or time.perf_counter() - self._since >= took / _SHARE

    def save(self, which: Which, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
        """Start writing a checkpoint of the tensors' present values, and of one that could not be written before."""
        begin = time.perf_counter()
        copies = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
        self.seconds += time.perf_counter() - begin
        self.wait()
        self._since = begin
        if which == "last":
            self.begun = metadata["iteration"]
        self._waiting[which] = copies, metadata
        self._running = self._thread.submit(self._write)

    def follow(self, iteration: int) -> None:
        """Note that another process begins to write a last checkpoint, and so has written the one before."""
        self.saved_iteration, self.begun = self.begun, iteration

    def wait(self) -> None:
        """Wait until the running write has succeeded or failed."""
        begin, running, self._running = time.perf_counter(), self._running, None
        if running is not None:
            running.result()
        self.seconds += time.perf_counter() - begin

    def figures(self) -> dict[str, float]:
        """Return what metrics.jsonl says of the time since the call before: copies and waiting for the disk."""
        seconds, self.seconds = self.seconds, 0.0
        return {"checkpoint_seconds": seconds}

    def close(self) -> None:
        """Wait, and try a last time to write what failed."""
        self.wait()
        self._write()

    def _write(self) -> None:
        begin = time.perf_counter()
        for which, (tensors, metadata) in list(self._waiting.items()):
            arguments = self._directory.checkpoints(which), tensors, metadata, self._kept if which == "last" else 1
            if self.retry.attempt(f"checkpoints/{which}", lambda: save_checkpoint(*arguments)):  # noqa: B023
                del self._waiting[which]
                if which == "last":
                    self.saved_iteration = metadata["iteration"]
        self._took = self._took[1], time.perf_counter() - begin
        if (took := min(self._took)) >= _SHORT and self._unsaid:
            self._unsaid, every = False, format_duration(took / _SHARE)
            self.retry.tell(
                f"A checkpoint takes {format_duration(took)}: one is written every {every}, and at the end of the run."
            )
