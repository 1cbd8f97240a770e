"""TensorBoard's copy of a run's figures, where it is installed."""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


class TensorBoardLog:
    """Writes figures to TensorBoard; where that fails the run goes on without, since metrics.jsonl has the same.

    Args:
        directory: of the run.
        after: what an earlier process wrote of later training episodes is not shown.
        tell: takes a line for people.

    Raises:
        ImportError: TensorBoard is not installed.
    """

    def __init__(self, directory: Path, after: int, tell: Callable[[str], None]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._tell, self._hook = tell, threading.excepthook
        threading.excepthook = self._without_its_traceback
        # A queue of 1000: a run never waits for it.
        self._writer: Any = SummaryWriter(str(directory / "tensorboard"), max_queue=1000, purge_step=after + 1)

    def write(self, figures: Iterable[tuple[str, float]], episode: int) -> None:
        """Add the figures of a training episode."""
        self._attempt(lambda: [self._writer.add_scalar(name, value, episode) for name, value in figures])

    def close(self) -> None:
        """Wait until its file has everything."""
        self._attempt(lambda: self._writer.close())
        threading.excepthook = self._hook

    def _attempt(self, write: Callable[[], object]) -> None:
        try:
            if self._writer is not None:
                write()
        except Exception as error:  # whatever a convenience meets, training matters more
            self._writer = None
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            self._tell(f"Cannot write tensorboard/: {reason}. The run goes on without it; metrics.jsonl has the same.")

    def _without_its_traceback(self, arguments: threading.ExceptHookArgs) -> None:
        """Print no traceback of TensorBoard's own thread: its error comes again at the next write, and is told."""
        if not type(arguments.thread).__module__.startswith("tensorboard"):
            self._hook(arguments)
