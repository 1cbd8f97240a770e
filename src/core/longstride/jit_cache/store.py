"""The folder of compiled kernels, one file a kernel, named by its fingerprint.

A file is complete or absent: it is written under another name and renamed, and it begins with the digest of the rest.
Files are pickles, which can run code when they are read, so only the user may be able to write to the folder. Other
files in it are never touched: ours have an ending of their own.
"""

import hashlib
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from longstride.jit_cache.trusted_path import untrusted_part
from longstride.own_files.opening import open_own

MOST_BYTES = 256 * 2**20
"""Limit of all files together; the least recently used are removed first. A kernel has 0.1 to 2 MB."""

ENDING = ".longstride-kernel"
"""Ending of a kernel's file."""

_UNFINISHED, _UNFINISHED_SECONDS = f"{ENDING}-tmp", 3600.0


class UnusableFolderError(Exception):
    """The folder cannot be used; the message names the reason."""


def usual_folder() -> Path:
    """Return the folder in the user's cache directory (XDG base directory specification).

    Raises:
        UnusableFolderError: the user has no home directory.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "longstride" / "kernels"
    except RuntimeError as error:
        raise UnusableFolderError("there is no home directory") from error


def open_folder(path: Path) -> Path:
    """Make the folder if needed, accessible only to this user, and return it.

    Raises:
        UnusableFolderError: the folder cannot be made, or another user could write to it.
    """
    try:
        _require_trusted(path)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_trusted(path)  # folders above it are new, with the rights that the umask leaves
        status = path.lstat()
    except OSError as error:
        raise UnusableFolderError(error.strerror or str(error)) from error
    if hasattr(os, "getuid") and (
        not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022
    ):
        raise UnusableFolderError("it is not a directory that only you can write to")
    return path


def _require_trusted(path: Path) -> None:
    """Check the folders above a folder.

    Raises:
        UnusableFolderError: another user could replace one of them.
    """
    if reason := untrusted_part(path.parent):
        raise UnusableFolderError(reason)


def read(folder: Path, name: str) -> bytes | None:
    """Return the content of a kernel; None if it is missing or damaged, or no regular file."""
    try:
        with open_own(folder / f"{name}{ENDING}", "rb") as file:
            content: bytes = file.read()
            os.utime(file.fileno() if os.utime in os.supports_fd else file.name)  # used now
    except OSError:
        return None
    digest, rest = content[:32], content[32:]
    return rest if hashlib.sha256(rest).digest() == digest else None


def write(folder: Path, name: str, content: bytes) -> None:
    """Write a kernel, and remove old ones if there are too many; several processes may do so at once.

    Raises:
        OSError: the file cannot be written; nothing is left of it.
    """
    descriptor, temporary = tempfile.mkstemp(_UNFINISHED, dir=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
        os.replace(temporary, folder / f"{name}{ENDING}")
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _tidy(folder)


def _tidy(folder: Path) -> None:
    """Remove files of ours that dead processes left, and the least recently used kernels beyond the limit."""
    files, now = [], time.time()
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # another process may have removed it
                status = entry.stat(follow_symlinks=False)
                if entry.name.endswith((ENDING, _UNFINISHED)) and stat.S_ISREG(status.st_mode):
                    files.append((status.st_mtime, status.st_size, entry.path))
    total = 0
    for used, size, path in sorted(files, reverse=True):
        total += size
        unfinished = path.endswith(_UNFINISHED)
        if now - used > _UNFINISHED_SECONDS if unfinished else total > MOST_BYTES:
            with suppress(OSError):
                os.unlink(path)
