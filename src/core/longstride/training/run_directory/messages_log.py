"""messages.log: what a run could not print, because its output cannot be written."""

import errno
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from longstride.own_files.opening import open_own
from longstride.training.run_directory.directory import RunDirectory


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
        with open_own(self._path, "ab", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            content = f"{datetime.now().astimezone().isoformat(timespec='seconds')} {line}\n".encode()
            if file.write(content) < len(content):
                file.truncate(size)  # a full disk takes a part
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
