"""A wall-clock limit for calls of ordinary Python."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooLong(BaseException):
    """A call took longer than its limit; no Exception, so that no ``except Exception`` of a simulator catches it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`TooLong` in the block after some seconds.

    There is no limit outside the main thread, on a system without interval timers, and within compiled code. While
    Numba compiles a function that the block calls, the time begins again.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    handler = signal.signal(signal.SIGALRM, _stop)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def _stop(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("numba."):
            return
        frame = frame.f_back
    raise TooLong
