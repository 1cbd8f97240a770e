"""A file that one process appends to, and that others remove, replace or cut meanwhile."""

import os
from contextlib import suppress
from pathlib import Path

from longstride.own_files.opening import open_own
from longstride.training.run_directory.checkpoint_writer import WriteRetry
from longstride.training.run_directory.files import write_atomically


class OwnFile:
    """A file with some content that grows at its end; it is held open, so its content outlives its name.

    If it was removed it is written again. If another file has its name, that one is renamed and the own one is written
    again. If another process cut it, what is lost is reported at the end of the run, and later content is appended.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, path: Path, content: bytes, retry: WriteRetry) -> None:
        self._path, self._retry = path, retry
        write_atomically(path, content)
        self._file = open_own(path, "r+b", buffering=0)
        self._size, self._failed = len(content), False

    def append(self, content: bytes) -> None:
        """Append content, after a check that the file is still the own one.

        Raises:
            OSError: it cannot be written; the same content may be appended later.
        """
        self._check_name()
        self._check_size()
        left, self._failed = memoryview(content), True
        self._file.seek(self._size)
        while left:
            left = left[self._file.write(left) :]
        self._size, self._failed = self._size + len(content), False

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _check_name(self) -> None:
        """Give the file its name again if it has lost it."""
        try:
            present = self._path.lstat()
        except FileNotFoundError:
            self._write_again("was removed by another program")
            return
        if os.path.samestat(present, os.fstat(self._file.fileno())):
            return
        aside = next(path for i in range(1, 10_000) if not os.path.lexists(path := self._aside(i)))
        os.rename(self._path, aside)
        self._write_again(f"was replaced by another file, which is now {aside.name}")

    def _aside(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.replaced-{number}")

    def _write_again(self, what: str) -> None:
        """Write the content, which the open file still has, under its name."""
        self._file.seek(0)
        content = self._file.read(self._size)
        write_atomically(self._path, content)
        file = open_own(self._path, "r+b", buffering=0)
        with suppress(OSError):
            self._file.close()
        self._file, self._size = file, len(content)
        self._retry.tell(f"{self._path.name} {what}; it is written again, and nothing is missing in it.")

    def _check_size(self) -> None:
        """Drop what a failed attempt has written, and note what another process has cut off."""
        size = os.fstat(self._file.fileno()).st_size
        if size > self._size and self._failed:
            self._file.truncate(self._size)
        elif size > self._size:
            self._size = size  # another process has appended something, which stays
        elif size < self._size:
            self._retry.lose(self._path.name, f"another program cut off {self._size - size:,} of its bytes")
            self._size = size
