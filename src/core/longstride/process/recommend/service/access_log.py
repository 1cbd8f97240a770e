"""The access log: a line of JSON for each answer, without tokens and without data of a state."""

import os
import select
import stat
from datetime import UTC, datetime

from longstride.errors import UserError
from longstride.escaping import json_line


class AccessLog:
    """Writes lines, and drops a line before it delays an answer or makes it fail.

    Args:
        path: file to append to, ``-`` for the standard output, empty for no log.

    Raises:
        UserError: the file cannot be opened.
    """

    def __init__(self, path: str = "") -> None:
        self._descriptor, self._poll = -1, None
        if path == "-":
            self._descriptor = 1
        elif path:
            self._descriptor = _opened(path)
        if self._descriptor >= 0 and not stat.S_ISREG(os.fstat(self._descriptor).st_mode) and hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(self._descriptor, select.POLLOUT)

    def write(self, **values: object) -> bool:
        """Append a line with the current time; return False only if a line was dropped."""
        if self._descriptor < 0:
            return True
        line = json_line({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **values}) + "\n"
        try:
            if self._poll is not None and not self._poll.poll(0):
                return False  # the reader of a pipe is too slow
            # A line is shorter than a page, so lines of several workers do not mix.
            return os.write(self._descriptor, line.encode()) == len(line)
        except OSError:
            return False


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o640)
    except OSError as error:
        raise UserError(f"--access-log {path}: the file cannot be opened ({error.strerror}).") from None
