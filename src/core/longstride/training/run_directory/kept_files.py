"""The small files that a run writes once at its beginning; they are written again if they vanish."""

from pathlib import Path

from longstride.training.run_directory.checkpoint_writer import WriteRetry
from longstride.training.run_directory.files import write_atomically

_LARGEST = 8 * 2**20
"""Bytes of the largest file whose content is kept in memory."""


class KeptFiles:
    """Remembers the content of files, as far as they are there, and writes again those that were removed.

    Args:
        paths: files, which have their final content.
        retry: tries again what cannot be written, and takes lines for people.
    """

    def __init__(self, paths: list[Path], retry: WriteRetry) -> None:
        small = [path for path in paths if path.is_file() and path.stat().st_size <= _LARGEST]
        self._contents, self._retry = {path: path.read_bytes() for path in small}, retry

    def restore(self) -> None:
        """Write again each file that is missing; one that has changed stays as it is."""
        for path, content in self._contents.items():
            if path.exists():
                self._retry.unsaved.pop(path.name, None)  # where the directory was away for a while
            elif path.parent.exists() and self._retry.attempt(path.name, lambda: write_atomically(path, content)):  # noqa: B023
                self._retry.tell(f"{path.name} was removed by another program; it is written again.")
