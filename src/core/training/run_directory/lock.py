"""One process trains in a run directory at a time.

The lock is the system's (``flock`` on ``run.lock``), held by an open file: it goes with its process, however that
dies, and a file that is left behind locks nobody out. Linux and macOS have it. On NFS Linux asks the server, so that
other machines are refused too, unless the mount says ``local_lock``. Windows has no ``flock``, and some file systems
have no locks: there a run goes on without one, and says so.
"""

import errno
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import IO

from core.errors import UserError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = "run.lock"
_WITHOUT = "{} cannot be locked: take care that no second process trains there."


class RunLock:
    """The right to write in a run directory, until :meth:`release` or the end of the process.

    Args:
        directory: of the run; made if needed.

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
        self._opened = os.open(directory, os.O_RDONLY) if os.name == "posix" else None

    def require(self) -> None:
        """Check that the directory is still there: not moved, not removed, not another one in its place.

        Raises:
            OSError: it is not. Writing there would begin a second run, or spoil somebody else's.
        """
        there = self.directory.exists()
        if not there or (
            self._opened is not None and not os.path.samestat(os.fstat(self._opened), self.directory.stat())
        ):
            raise OSError(errno.ENOENT, "the run directory was moved or removed")

    def release(self, abandon: bool = False) -> None:
        """Let others have it; may be called again.

        Args:
            abandon: remove the directory too, where it was made for this run and is empty.
        """
        if not self._file.closed and self._is_at_its_path(self._file):
            with suppress(OSError):
                self._path.unlink()  # who opened it in the meantime sees in _locked that it has gone
            if abandon and self._made:
                with suppress(OSError):
                    self.directory.rmdir()
        self._file.close()
        if self._opened is not None:
            os.close(self._opened)
            self._opened = None

    def _locked(self) -> IO[str]:
        """Return the locked file, with our name in it."""
        while True:
            file = self._path.open("a+", encoding="utf-8", errors="replace")
            try:
                self._lock(file)
                if self._is_at_its_path(file):
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
            raise UserError(
                f"{self.directory} is in use: {_holder(file)} trains there; wait for it, stop it, or name another "
                "--run-directory."
            ) from None
        except OSError:
            self.note = _WITHOUT.format(self.directory)

    def _is_at_its_path(self, file: IO[str]) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except OSError:
            return False


def _holder(file: IO[str]) -> str:
    """Return who wrote its name into the file; it may not have come to that yet."""
    file.seek(0)
    pid, host = (file.read().split() + [""] * 2)[:2]
    return f"process {pid or '(unknown)'}{f' on {host}' if host not in ('', socket.gethostname()) else ''}"
