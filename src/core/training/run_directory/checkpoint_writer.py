"""What a run does when something cannot be written: it says so, goes on, and tries again.

Hours of training are worth more than a disk that is full for a minute. So nothing that fails to be written while a run
goes on ends it; what failed stays in memory and is tried again after each round and at the end. Only if the end comes
with something unsaved does the run fail, with :class:`~core.errors.NotSavedError`.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from torch import Tensor

from core.errors import NotSavedError
from core.training.run_directory.checkpoint import save_checkpoint


class WriteRetry:
    """Attempts to write, and what people read about those that fail: a line for each kind of failure, once.

    Args:
        require: raises OSError where the run directory is no longer the run's own.
    """

    def __init__(self, require: Callable[[], None] = lambda: None) -> None:
        self.unsaved: dict[str, str] = {}
        self._require = require
        self._said: set[tuple[str, int | None]] = set()
        self._lines: deque[str] = deque()  # the thread that writes checkpoints adds to it

    def attempt(self, what: str, write: Callable[[], None]) -> bool:
        """Write something; return whether that worked."""
        try:
            self._require()
            write()
        except OSError as error:
            self._failed(what, error)
            return False
        if self.unsaved.pop(what, None):
            self._lines.append(f"{what} is written again, with all that was kept back.")
        return True

    def tell(self, line: str) -> None:
        """Have a line said with the others."""
        self._lines.append(line)

    def lines(self) -> Iterator[str]:
        """Yield what has not been said yet."""
        while self._lines:
            yield self._lines.popleft()

    def _failed(self, what: str, error: OSError) -> None:
        self.unsaved[what] = error.strerror or str(error)
        if (what, error.errno) not in self._said:
            self._said.add((what, error.errno))
            self._lines.append(
                f"Cannot write {what}: {self.unsaved[what]}. Training goes on, and this is tried again after each "
                "round; what was saved before stays as it is."
            )

    def require_all(self, directory: Path, saved: int) -> None:
        """Check at the end of a run that nothing is left unsaved.

        Args:
            directory: of the run.
            saved: training episode of the last checkpoint on the disk; 0 for none.

        Raises:
            NotSavedError: something is.
        """
        if self.unsaved:
            what = ", ".join(f"{name} ({reason})" for name, reason in self.unsaved.items())
            there = (
                f"The last checkpoint there is that of training episode {saved}" if saved else "No checkpoint is there"
            )
            raise NotSavedError(
                f"Not everything could be saved in {directory}: {what}. {there}; free space or mend what is wrong with "
                f"the disk and {'go on with --resume' if saved else 'train again'}."
            )


class CheckpointWriter:
    """Writes checkpoints while the run goes on, because waiting for a disk can take longer than a round.

    At most one round's are on their way: a process that dies has the checkpoint before the last one saved, or the last.

    Args:
        directory: of the run.
        kept: last checkpoints that stay; of the best one.
        saving: that attempts it.
    """

    def __init__(self, directory: Path, kept: int = 3, saving: WriteRetry | None = None) -> None:
        self.saving = saving or WriteRetry()
        self.saved_episode = 0
        self._directory, self._kept = directory, kept
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._on_its_way: Future[None] | None = None
        self._waiting: dict[str, tuple[dict[str, Tensor], dict[str, Any]]] = {}

    def save(self, which: str, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Have the checkpoint ``"last"`` or ``"best"`` written, of the tensors as they are now.

        What could not be written before is tried again, unless this takes its place.
        """
        now = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
        self.wait()
        self._waiting[which] = now, facts
        self._on_its_way = self._thread.submit(self._write)

    def wait(self) -> None:
        """Wait until the disk has, or has refused, what is on its way."""
        pending, self._on_its_way = self._on_its_way, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Wait, and try what failed once more."""
        self.wait()
        self._write()

    def _write(self) -> None:
        for which, (tensors, facts) in list(self._waiting.items()):
            directory, kept = self._directory / "checkpoints" / which, self._kept if which == "last" else 1
            if self.saving.attempt(f"checkpoints/{which}", lambda: save_checkpoint(directory, tensors, facts, kept)):  # noqa: B023
                del self._waiting[which]
                if which == "last":
                    self.saved_episode = facts["episode"]
