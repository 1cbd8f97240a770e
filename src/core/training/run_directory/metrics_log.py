"""Where the figures of a run go: metrics.jsonl is the truth, TensorBoard shows the same."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.training.run_directory.checkpoint_writer import WriteRetry
from core.training.run_directory.files import write_atomically
from core.training.run_directory.tensorboard import TensorBoardLog

METRICS = "metrics.jsonl"


class MetricsLog:
    """Appends one JSON line an update to metrics.jsonl, and the same numbers to TensorBoard.

    Args:
        directory: of the run.
        after: lines of later episodes than this are dropped first (left by a run that died before its checkpoint).
        saving: that attempts to write.

    Raises:
        UserError: the file cannot be written.
    """

    def __init__(self, directory: Path, after: int, saving: WriteRetry | None = None) -> None:
        self._path, self._saving = directory / METRICS, saving or WriteRetry()
        self._waiting = b""
        kept = b"".join(_line(record) for record in read_metrics(directory) if record["episode"] <= after)
        try:
            write_atomically(self._path, kept)
        except OSError as error:
            raise UserError(
                f"Cannot write {self._path}: {error.strerror}. What was saved before is untouched."
            ) from None
        self._size = len(kept)
        self.note: str | None = None
        self._board = self._open_board(directory, after)

    def write(self, record: dict[str, Any]) -> None:
        """Append a record, and those that could not be written before; its ``"episode"`` is TensorBoard's step."""
        self._waiting += _line(record)
        self._saving.attempt(METRICS, self._append)
        if self._board is not None:
            self._board.write(scalars(record), record["episode"])

    def close(self) -> None:
        """Try what failed once more, and flush TensorBoard."""
        if self._waiting:
            self._saving.attempt(METRICS, self._append)
        if self._board is not None:
            self._board.close()

    def _append(self) -> None:
        with self._path.open("ab") as file:
            file.truncate(min(self._size, file.tell()))  # what an attempt wrote before it failed
            file.write(self._waiting)
            file.flush()
            self._size = file.tell()
        self._waiting = b""

    def _open_board(self, directory: Path, after: int) -> TensorBoardLog | None:
        try:
            return TensorBoardLog(directory, after, self._saving.tell)
        except ImportError:
            self.note = "TensorBoard is not installed (pip install tensorboard): metrics go to metrics.jsonl only."
            return None


def read_metrics(directory: Path) -> list[dict[str, Any]]:
    """Return the records of a run's metrics.jsonl; a line that was cut off or damaged is left out.

    Raises:
        UserError: the file cannot be read.
    """
    path = directory / METRICS
    if not path.exists():
        return []
    records = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("episode"), int):
            records.append(record)
    return records


def scalars(record: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the names and values of the numbers in a record, nested names joined by a slash, lists left out."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from scalars(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield prefix + name, float(value)


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode() + b"\n"
