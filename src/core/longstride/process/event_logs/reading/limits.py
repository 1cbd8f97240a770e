"""Limits of one log: bytes, memory, rows, columns, sheets, nesting, and seconds without progress."""

import time
from dataclasses import dataclass
from typing import NoReturn

import psutil

from longstride.errors import UserError

LONGEST_TEXT = 1_000_000
"""Most characters of a line, of a cell, and between two tags of XML; event logs have fewer."""

_ALWAYS_UNPACKED = 100_000_000
"""Bytes that any packed file may unpack to, even a very small one."""


@dataclass(frozen=True)
class LogLimits:
    """Limits of reading a log; each attribute is a setting of the same name with the prefix ``LOG_``.

    Attributes:
        max_bytes: most bytes of the log, unpacked.
        max_unpacking: most bytes that a packed byte may become, once the log has more than 100 MB.
        max_memory: most bytes by which the process may grow while it reads the log.
        max_rows: most rows or events.
        max_columns: most columns.
        max_sheets: most sheets of a workbook.
        max_nesting: most elements of XML, or containers of JSON, inside each other.
        max_seconds: most seconds without a new row; 0 for no limit.
    """

    max_bytes: int = 8_000_000_000
    max_unpacking: int = 200
    max_memory: int = 4_000_000_000
    max_rows: int = 50_000_000
    max_columns: int = 1_000
    max_sheets: int = 100
    max_nesting: int = 100
    max_seconds: float = 60.0


class Guard:
    """Enforces the limits while one log is read; each method raises a UserError that names the setting."""

    def __init__(self, limits: LogLimits, source: str, has_settings: bool = True) -> None:
        """Start measuring time and memory.

        Args:
            limits: limits to enforce.
            source: name of the file for messages.
            has_settings: whether the user can change the limits, so that messages name the setting.
        """
        self.limits, self.source, self._has_settings = limits, source, has_settings
        self._process = psutil.Process()
        self._before = int(self._process.memory_info().rss)
        self._rows, self._progress = 0, time.monotonic()

    def count_rows(self, count: int) -> None:
        """Count further rows, which are progress."""
        self._rows += count
        if count:
            self.progress()
        self.require_rows(self._rows)
        self.check()

    def progress(self) -> None:
        """Note that reading makes progress."""
        self._progress = time.monotonic()

    def is_late(self) -> bool:
        """Return whether reading made no progress for too long."""
        return 0 < self.limits.max_seconds < time.monotonic() - self._progress

    def check(self) -> None:
        """Refuse a log that makes no progress, or for which the process has grown too much."""
        if self.is_late():
            self._refuse(f"no new row was found for {self.limits.max_seconds:g} s", "max_seconds")
        if self._process.memory_info().rss - self._before > self.limits.max_memory:
            self.refuse_memory()

    def require_rows(self, count: int) -> None:
        """Refuse a log of too many rows."""
        if count > self.limits.max_rows:
            self._refuse(f"it has more than {self.limits.max_rows:,} rows", "max_rows")

    def require_columns(self, count: int) -> None:
        """Refuse a log of too many columns."""
        if count > self.limits.max_columns:
            self._refuse(f"it has {count:,} columns", "max_columns")

    def require_sheets(self, count: int) -> None:
        """Refuse a workbook of too many sheets."""
        if count > self.limits.max_sheets:
            self._refuse(f"it has {count:,} sheets", "max_sheets")

    def require_nesting(self, depth: int) -> None:
        """Refuse a log that nests too deeply."""
        if depth > self.limits.max_nesting:
            self.refuse_nesting()

    def require_bytes(self, count: int, packed: int | None = None) -> None:
        """Refuse a log of too many bytes; ``packed`` is its size in the file, None if it is not packed."""
        if count > self.limits.max_bytes:
            self._refuse(f"it has more than {_size(self.limits.max_bytes)}", "max_bytes")
        if packed is not None and count > max(_ALWAYS_UNPACKED, packed * self.limits.max_unpacking):
            self._refuse(f"{_size(packed)} of it unpack to more than {_size(count - 1)}", "max_unpacking")

    def require_memory(self, needed: int) -> None:
        """Refuse a log whose content would take too many bytes of memory."""
        if needed > self.limits.max_memory:
            self.refuse_memory()

    def refuse_memory(self) -> NoReturn:
        """Refuse a log that takes too much memory."""
        self._refuse(f"it takes more than {_size(self.limits.max_memory)} of memory", "max_memory")

    def refuse_nesting(self) -> NoReturn:
        """Refuse a log that nests too deeply."""
        self._refuse(f"it nests more than {self.limits.max_nesting:,} levels deep", "max_nesting")

    def _refuse(self, what: str, name: str) -> NoReturn:
        advice = f" (LOG_{name.upper()} is {getattr(self.limits, name):,}); raise that setting if the log is genuine"
        raise UserError(f"{self.source} is refused because {what}{advice if self._has_settings else ''}.")


def _size(count: int) -> str:
    """Return a number of bytes in a unit that fits."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} bytes"
