"""A copy of this process that compiles kernels which this one will need a little later.

Numba compiles one function at a time in a process, so a second core is of use only to a second process. The copy puts
its kernels into the folder, where this process finds them when it comes to them; what is not there by then it compiles
itself, so that a copy that fails, or comes too late, costs nothing.
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
    """Start the copy as soon as a kernel is not in the folder; it ends with the block at the latest.

    On Linux, where a process can be copied with what it has built; elsewhere nothing happens.

    Args:
        work: functions that compile what this process will need, in the order in which it will need it.
        cores: that are usable; with one there is nobody to help.
    """
    copies: list[int] = []

    def start() -> None:
        with suppress(OSError):  # no process more is allowed, or there is no memory for one
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
    """Run some functions in a copy of this process, which then ends without a word; return the copy's number.

    Raises:
        OSError: the system gives no process more.
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
    """End a copy that may have ended, and that the system has done away with where SIGCHLD is ignored."""
    with suppress(ChildProcessError, ProcessLookupError):
        if os.waitpid(pid, os.WNOHANG) == (0, 0):  # it is still there, and nobody else's
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _live_and_die_with(parent: int) -> None:
    """Let go of all that the parent holds, the lock of its run above all, and end when it does."""
    os.closerange(0, 65_536)
    for _ in range(3):  # what a library writes or reads goes nowhere
        os.open(os.devnull, os.O_RDWR)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(0)
