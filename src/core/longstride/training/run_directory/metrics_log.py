"""Metrics of a run: metrics.jsonl is the record, TensorBoard shows the same numbers."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from longstride.errors import UserError
from longstride.escaping import json_line
from longstride.own_files.opening import make_own_folder
from longstride.training.run_directory.checkpoint_writer import WriteRetry
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.own_file import OwnFile
from longstride.training.run_directory.read_json import RECORD, parse_json

_ALWAYS = ("steps", "simulation_seconds", "update_seconds")
"""Figures that every record has."""

_NUMBERS = (
    *("return", "mean_reward", "entropy", "approx_kl", "clip_fraction", "explained_variance", "learning_rate"),
    *("learning_rate_factor", "dead_units", "observation_effect", "choices_changed", "transfer_seconds"),
    *(
        "execution_seconds",
        *("iteration_seconds", "statistics_seconds", "checkpoint_seconds"),
        "simulated_episodes",
        "skipped_steps",
        "optimizer_steps",
        "model_transfers",
        "update_flops_per_second",
    ),
)
"""Figures that are numbers or null, if a record has them."""


class TensorBoardLog:
    """Writes numbers to TensorBoard; after a failure the run continues without it, since metrics.jsonl has the same.

    Numbers that an earlier process wrote for iterations later than ``after`` are not shown.

    Raises:
        ImportError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path, after: int, tell: Callable[[str], None]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        make_own_folder(folder)
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


class Log(Protocol):
    """Takes the records of the iterations."""

    def write(self, record: dict[str, Any]) -> None:
        """Take a record."""


class NoLog:
    """The log of a process that writes nothing, because another one does."""

    def write(self, record: dict[str, Any]) -> None:
        """Do nothing."""


class MetricsLog:
    """Appends one JSON line an iteration to metrics.jsonl, and the same numbers to TensorBoard.

    Lines after the iteration ``after`` are dropped first, because they have no checkpoint. ``note`` is a line for
    people about a missing TensorBoard, or None.

    Raises:
        UserError: the file cannot be written.
    """

    def __init__(self, directory: Path, after: int, retry: WriteRetry | None = None) -> None:
        self._path, self._retry = RunDirectory(directory).metrics, retry or WriteRetry()
        self._waiting = b""
        kept = b"".join(_line(record) for record in read_metrics(directory) if record["iteration"] <= after)
        try:
            self._file = OwnFile(self._path, kept, self._retry)
        except OSError as error:
            raise UserError(
                f"Cannot write {self._path}: {error.strerror}. What was saved before is untouched."
            ) from None
        self.note: str | None = None
        self._board = self._open_board(directory, after)

    def write(self, record: dict[str, Any]) -> None:
        """Append a record and those that could not be written before; TensorBoard's step is the iteration."""
        self._waiting += _line(record)
        self._retry.attempt(self._path.name, self._append)
        if self._board is not None:
            self._board.write(scalars(record), record["iteration"])

    def close(self) -> None:
        """Try a last time to write what failed, and flush TensorBoard."""
        self._retry.attempt(self._path.name, self._append)
        self._file.close()
        if self._board is not None:
            self._board.close()

    def _append(self) -> None:
        self._file.append(self._waiting)
        self._waiting = b""

    def _open_board(self, directory: Path, after: int) -> TensorBoardLog | None:
        try:
            return TensorBoardLog(RunDirectory(directory).tensorboard, after, self._retry.tell)
        except ImportError:
            self.note = "TensorBoard is not installed (pip install tensorboard): metrics go to metrics.jsonl only."
        except OSError as error:
            self.note = f"Cannot write tensorboard/: {error.strerror}. The run continues without it."
        return None


def read_metrics(directory: Path) -> list[dict[str, Any]]:
    """Return the records of a run's metrics.jsonl; lines that were cut or damaged are left out.

    Raises:
        UserError: the file cannot be read.
    """
    path = RunDirectory(directory).metrics
    return _parsed(path.read_bytes()) if path.exists() else []


def whole_records(directory: Path) -> list[dict[str, Any]]:
    """Return the records of :func:`read_metrics` that have what every iteration of a run writes, as numbers.

    Raises:
        UserError: the file cannot be read.
    """
    return [record for record in read_metrics(directory) if _is_whole(record)]


def _is_whole(record: dict[str, Any]) -> bool:
    numbers = [record.get(name, 0.0) for name in _NUMBERS]
    return (
        all(isinstance(record.get(name), int | float) for name in _ALWAYS)
        and all(number is None or isinstance(number, int | float) for number in numbers)
        and "return" in record
        and isinstance(record.get("metrics"), dict)
    )


class NewRecords:
    """Reads what is appended to a run's metrics.jsonl; a line that is not complete yet waits for its end."""

    def __init__(self, directory: Path) -> None:
        self._path, self._offset, self._file = RunDirectory(directory).metrics, 0, -1

    def read(self) -> list[dict[str, Any]]:
        """Return the records since the last call; all of them where the file is another one, as after a resume."""
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._file or status.st_size < self._offset:
                    self._file, self._offset = status.st_ino, 0
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            return []
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        return _parsed(whole)


def _parsed(content: bytes) -> list[dict[str, Any]]:
    """Return the records of lines of JSON, but for damaged ones."""
    records = []
    for line in content.decode(errors="replace").splitlines():
        try:
            records.append(parse_json(line, RECORD))
        except ValueError:
            continue
    return records


def scalars(record: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the names and values of the numbers in a record: nested names joined by a slash, no lists."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from scalars(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield prefix + name, float(value)


def _line(record: dict[str, Any]) -> bytes:
    return json_line(record).encode() + b"\n"
