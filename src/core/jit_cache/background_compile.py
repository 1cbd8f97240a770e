"""Compiles kernels in a copy of this process while this process compiles others.

Numba compiles one function at a time in a process, so only a second process can use a second core. The copy puts its
kernels into the folder, where this process finds them later. It compiles a missing kernel itself, so a copy that fails
or is late costs nothing.
"""

import ctypes
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from core.jit_cache import cache


@contextmanager
def compiled_ahead(work: Sequence[Callable[[], object]], cores: int) -> Iterator[None]:
    """Start the copy when the folder lacks a kernel for the first time; end it with the block at the latest.

    Without Linux, whose processes can be copied with their memory, nothing happens.

    Args:
        work: functions that compile the kernels of this process, in the order of their use.
        cores: number of usable cores; with one no copy is started.
    """
    copies: list[int] = []

    def start() -> None:
        with suppress(OSError):  # the system allows no further process or has no memory for it
            copies.append(_copy(work))
            cache.CACHE_STATS.loaded_alone = cache.CACHE_STATS.loaded

    if sys.platform == "linux" and cores > 1:
        cache.CACHE_STATS.at_first_miss = start
    try:
        yield
    finally:
        cache.CACHE_STATS.at_first_miss = None
        for pid in copies:
            _end(pid)


def _copy(work: Sequence[Callable[[], object]]) -> int:
    """Run functions in a copy of this process, which then exits silently; return the copy's process id.

    Raises:
        OSError: the system allows no further process.
    """
    parent = os.getpid()
    with warnings.catch_warnings():
        # Python warns of threads that hold locks. Those of torch wait for work, and the copy has none for them.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    with suppress(BaseException):
        _live_and_die_with(parent)
        for function in work:
            with suppress(Exception):
                function()
    os._exit(0)


def _end(pid: int) -> None:
    """End a copy that may have ended already, and that is gone where SIGCHLD is ignored."""
    with suppress(ChildProcessError, ProcessLookupError):
        if os.waitpid(pid, os.WNOHANG) == (0, 0):  # it still runs and is our own child
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _live_and_die_with(parent: int) -> None:
    """Close all files of the parent, above all the lock of its run, and end when the parent ends."""
    os.closerange(0, 65_536)
    for _ in range(3):  # for libraries that write or read
        os.open(os.devnull, os.O_RDWR)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(0)
