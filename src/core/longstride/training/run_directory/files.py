"""Writing files so that a crash or a full disk loses nothing that was there before."""

import os
from pathlib import Path
from typing import Any

from longstride.errors import UserError
from longstride.escaping import json_text
from longstride.own_files.opening import open_own


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, making its folder if needed.

    Raises:
        UserError: it cannot be written.
    """
    write_or_refuse(path, (json_text(content, indent=1) + "\n").encode(), makes_folder=True)


def write_or_refuse(path: Path, content: bytes, makes_folder: bool = False) -> None:
    """Replace a file as :func:`write_atomically` does.

    Raises:
        UserError: it cannot be written.
    """
    try:
        if makes_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}.") from None


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file so that readers see the old content or the new, even after a crash."""
    temporary = path.with_name(path.name + ".tmp")
    write_durably(temporary, content)
    os.replace(temporary, path)
    _sync_directory(path.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it; a failed write leaves no file, and a link is not followed."""
    with open_own(path, "wb") as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise


def _sync_directory(directory: Path) -> None:
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
