"""The folder on disk where machine code lies, one file a kernel, named by its fingerprint.

A file is complete or not there: it is written under another name and renamed, and it begins with the digest of the
rest. Files are pickles, which can do anything when they are read, so the folder must be the user's own.
"""

import hashlib
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

MOST_BYTES = 256 * 2**20
"""Of all files; those unused for longest go first. A kernel has 0.1 to 2 MB."""

_UNFINISHED, _UNFINISHED_SECONDS = ".tmp", 3600.0


class UnusableFolderError(Exception):
    """The folder cannot be used; the text says why."""


def usual_folder() -> Path:
    """Return the folder in the user's cache directory (XDG base directory specification).

    Raises:
        UnusableFolderError: the user has no home.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "longstride" / "kernels"
    except RuntimeError as error:
        raise UnusableFolderError("there is no home directory") from error


def open_folder(path: Path) -> Path:
    """Make the folder if needed, for nobody else, and return it.

    Raises:
        UnusableFolderError: it cannot be made, or somebody else could put something into it.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = path.lstat()
    except OSError as error:
        raise UnusableFolderError(error.strerror or str(error)) from error
    if hasattr(os, "getuid") and (
        not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o022
    ):
        raise UnusableFolderError("it is not a directory that only you can write to")
    return path


def read(folder: Path, name: str) -> bytes | None:
    """Return what was written under a name; None if there is nothing or it is damaged."""
    path = folder / name
    try:
        content = path.read_bytes()
        os.utime(path)  # used now
    except OSError:
        return None
    digest, rest = content[:32], content[32:]
    return rest if hashlib.sha256(rest).digest() == digest else None


def write(folder: Path, name: str, content: bytes) -> None:
    """Write a file, and remove old ones where there are too many; processes may do so at the same time.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    descriptor, temporary = tempfile.mkstemp(_UNFINISHED, dir=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
        os.replace(temporary, folder / name)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _tidy(folder)


def _tidy(folder: Path) -> None:
    """Remove what processes that died have left, and the files unused for longest beyond the most bytes."""
    files, now = [], time.time()
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # another process may have removed it
                facts = entry.stat(follow_symlinks=False)
                files.append((facts.st_mtime, facts.st_size, entry.path))
    total = 0
    for used, size, path in sorted(files, reverse=True):
        total += size
        unfinished = path.endswith(_UNFINISHED)
        if now - used > _UNFINISHED_SECONDS if unfinished else total > MOST_BYTES:
            with suppress(OSError):
                os.unlink(path)
