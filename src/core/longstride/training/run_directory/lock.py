"""One process trains in a run directory at a time.

The lock is the system's (``flock`` on ``run.lock``), held by an open file. It ends with its process, however that
dies, and a file that is left behind locks nobody out. Linux and macOS have it. On NFS Linux asks the server, so other
machines are refused too, unless the mount says ``local_lock``. Windows has no ``flock``, and some file systems have no
locks: a run continues without one there, and says so.
"""

import errno
import os
import re
import socket
import weakref
from contextlib import suppress
from pathlib import Path
from typing import IO

from longstride.errors import UserError
from longstride.own_files.opening import open_own
from longstride.training.run_directory.directory import LOCK

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


_LEFT, _LONGEST = re.compile(r"(\d+ \S+\n?)?|\d+ ?"), 300
"""What a process writes into the lock, whole or cut off, and the longest that it can be."""

_REMEDY = "trains there; wait for it, stop it, or name another --run-directory"


class RunLock:
    """The right to write in a run directory (made if needed), until :meth:`release` or the end of this object.

    ``note`` is a line for people about a missing lock, or None.

    Raises:
        UserError: another process has it, or the directory cannot be written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory, self._path = directory, directory / LOCK
        self._made = not directory.exists()
        self.note: str | None = None
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = self._locked()
        except OSError as error:
            raise UserError(f"Cannot write in {directory}: {error.strerror}.") from None
        # Held open, so that no other directory can get its inode.
        self._descriptor = os.open(directory, os.O_RDONLY) if os.name == "posix" else None
        self._close = weakref.finalize(self, _close, self._file, self._descriptor)

    def require(self) -> None:
        """Check that the directory is still there: not moved, not removed, not replaced by another one.

        Raises:
            OSError: it is gone. Writing to its path would begin a second run, or spoil another one.
        """
        if not self.directory.exists() or (
            self._descriptor is not None and not os.path.samestat(os.fstat(self._descriptor), self.directory.stat())
        ):
            raise OSError(errno.ENOENT, "the run directory was moved or removed")

    def release(self, abandon: bool = False) -> None:
        """Unlock the directory, once or again; ``abandon`` removes it too, if it was made for this run and is empty."""
        if not self._file.closed and self._is_at_its_path(self._file):
            if fcntl is None:
                self._file.close()  # Windows removes no open file; there is no lock that this would end too early
            with suppress(OSError):
                self._path.unlink()  # a process that has just opened it notices in _locked that it is gone
            if abandon and self._made:
                with suppress(OSError):
                    self.directory.rmdir()
        self._close()
        self._descriptor = None

    def _locked(self) -> IO[str]:
        """Return the locked file, which names this process."""
        while True:
            file: IO[str] = open_own(self._path, "a+", encoding="utf-8", errors="replace")
            try:
                self._lock(file)
                if self._is_at_its_path(file):
                    _require_lock_file(file)
                    file.truncate(0)
                    with suppress(OSError):  # a full disk: others cannot be told who it is
                        os.write(file.fileno(), f"{os.getpid()} {socket.gethostname()}\n".encode())
                    return file
            except BaseException:
                file.close()
                raise
            file.close()

    def _lock(self, file: IO[str]) -> None:
        try:
            if fcntl is None:
                raise OSError
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{self.directory} is in use: {_holder(file)} {_REMEDY}.") from None
        except OSError:
            self.note = f"{self.directory} cannot be locked: take care that no second process trains there."

    def _is_at_its_path(self, file: IO[str]) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._path.lstat())
        except OSError:
            return False


def _close(file: IO[str], descriptor: int | None) -> None:
    """Close what a lock holds open, also where a run was built and dropped without training."""
    file.close()
    if descriptor is not None:
        os.close(descriptor)


def is_locked(directory: Path) -> bool:
    """Return whether a process trains in a run directory; without locks of the system, whether it looks so."""
    path = directory / LOCK
    try:
        with path.open("rb") as file:
            if fcntl is None:
                return True
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    except BlockingIOError:
        return True
    except OSError:
        return path.exists() and fcntl is None


def _require_lock_file(file: IO[str]) -> None:
    """Check that a file which is about to be emptied is a lock that a process has left.

    Raises:
        OSError: it is something else.
    """
    file.seek(0)
    if _LEFT.fullmatch(file.read(_LONGEST + 1)) is None:
        raise OSError(
            errno.EEXIST, f"its {os.path.basename(file.name)} is not a lock of Longstride; move that file away"
        )


def _holder(file: IO[str]) -> str:
    """Return the process that locked a file; it may not have written its name yet."""
    file.seek(0)
    pid, host = (file.read().split() + [""] * 2)[:2]
    return f"process {pid or '(unknown)'}{f' on {host}' if host not in ('', socket.gethostname()) else ''}"
