"""TensorBoard's copy of a run's numbers, where it is installed."""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


class TensorBoardLog:
    """Writes numbers to TensorBoard; after a failure the run continues without it, since metrics.jsonl has the same.

    Numbers that an earlier process wrote for iterations later than ``after`` are not shown.

    Raises:
        ImportError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path, after: int, tell: Callable[[str], None]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._tell, self._hook = tell, threading.excepthook
        threading.excepthook = self._hide_traceback
        # A queue of 1000: a run never waits for it.
        self._writer: Any = SummaryWriter(str(folder), max_queue=1000, purge_step=after + 1)

    def write(self, scalars: Iterable[tuple[str, float]], iteration: int) -> None:
        """Add the names and values of an iteration."""
        self._attempt(lambda: [self._writer.add_scalar(name, value, iteration) for name, value in scalars])

    def close(self) -> None:
        """Wait until its file has everything."""
        self._attempt(lambda: self._writer.close())
        threading.excepthook = self._hook

    def _attempt(self, write: Callable[[], object]) -> None:
        try:
            if self._writer is not None:
                write()
        except Exception as error:  # an optional display must not end a run, whatever fails in it
            self._writer = None
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            self._tell(f"Cannot write tensorboard/: {reason}. The run continues without; metrics.jsonl has the same.")

    def _hide_traceback(self, arguments: threading.ExceptHookArgs) -> None:
        """Print no traceback of TensorBoard's own thread: the next write raises its error again and reports it."""
        if not type(arguments.thread).__module__.startswith("tensorboard"):
            self._hook(arguments)
