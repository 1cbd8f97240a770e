"""Where the figures of a run go: metrics.jsonl is the truth, TensorBoard shows the same."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.training.files import write_atomically

METRICS = "metrics.jsonl"


class MetricsLog:
    """Appends one JSON line an update to metrics.jsonl, and the same numbers to TensorBoard.

    Args:
        directory: of the run.
        after: lines of later episodes than this are dropped first (left by a run that died before its checkpoint).
    """

    def __init__(self, directory: Path, after: int) -> None:
        self._path = directory / METRICS
        kept = [line for line in read_metrics(directory) if line["episode"] <= after]
        _guard(self._path, lambda: write_atomically(self._path, "".join(map(_line, kept)).encode()))
        self.note: str | None = None
        self._board = self._open_board(directory, after)

    def write(self, record: dict[str, Any]) -> None:
        """Append a record; its ``"episode"`` is TensorBoard's step."""

        def append() -> None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(_line(record))

        _guard(self._path, append)
        if self._board is not None:
            for name, value in scalars(record):
                self._board.add_scalar(name, value, record["episode"])

    def close(self) -> None:
        """Flush TensorBoard."""
        if self._board is not None:
            self._board.close()

    def _open_board(self, directory: Path, after: int) -> Any:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self.note = "TensorBoard is not installed (pip install tensorboard): metrics go to metrics.jsonl only."
            return None
        return SummaryWriter(str(directory / "tensorboard"), max_queue=1000, purge_step=after + 1)  # never wait for it


def read_metrics(directory: Path) -> list[dict[str, Any]]:
    """Return the records of a run's metrics.jsonl; a last line that was cut off is left out.

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
        except json.JSONDecodeError:
            break
        if not isinstance(record, dict) or not isinstance(record.get("episode"), int):
            break
        records.append(record)
    return records


def scalars(record: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the names and values of the numbers in a record, nested names joined by a slash, lists left out."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from scalars(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield prefix + name, float(value)


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record) + "\n"


def _guard(path: Path, write: Any) -> None:
    try:
        write()
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}. What was saved before is untouched.") from None
