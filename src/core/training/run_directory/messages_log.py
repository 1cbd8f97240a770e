"""messages.log: what a run could not print, because its output cannot be written."""

import errno
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from core.training.run_directory.directory import RunDirectory


class MessagesLog:
    """Appends lines with their time to messages.log, which is made with the first one.

    Args:
        directory: run directory.
        require: raises OSError if the directory is no longer the run's own.
    """

    def __init__(self, directory: Path, require: Callable[[], None]) -> None:
        self._path, self._require = RunDirectory(directory).messages, require

    def append(self, line: str) -> None:
        """Append a line.

        Raises:
            OSError: it cannot be written; the file is as it was before.
        """
        self._require()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(self._path, flags, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            content = f"{datetime.now().astimezone().isoformat(timespec='seconds')} {line}\n".encode()
            if os.write(descriptor, content) < len(content):
                os.ftruncate(descriptor, size)  # a full disk takes a part
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)
