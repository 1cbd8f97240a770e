"""Ctrl-C, SIGTERM and a lost terminal: they end a command at once, and a training after its iteration."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from longstride.text import Say


class Interrupt:
    """Handler of SIGINT that raises KeyboardInterrupt, and remembers that somebody asked.

    An exception that is raised while the compiler has called back into Python is lost. So whoever begins long work
    after compiling looks at ``asked``.
    """

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, number: int, frame: object) -> None:
        """Handle the signal."""
        self.asked = True
        raise KeyboardInterrupt


@contextmanager
def remembered_interrupt() -> Iterator[Interrupt]:
    """Let Ctrl-C be remembered; nothing changes outside the main thread, and where the caller handles it."""
    interrupt = Interrupt()
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupt
        return
    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, previous)


def ending_signals() -> list[signal.Signals]:
    """Return the signals that ask a training to end: Ctrl-C, SIGTERM and, unless nohup ignores it, a lost terminal."""
    lost = getattr(signal, "SIGHUP", None)  # Windows has none
    heard = lost is not None and signal.getsignal(lost) is not signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([lost] if lost is not None and heard else [])]


class StopOnInterrupt:
    """Turns the first of some signals into a request to stop after the iteration; the second interrupts at once.

    Signals within ``once_for`` seconds are the same request: torchrun passes on what the terminal has sent to all.
    SIGHUP never interrupts: the system and the shell both send it when a terminal is lost.
    Outside the main thread, where Python handles no signals, it changes nothing.
    """

    def __init__(self, say: Say, *signals: signal.Signals, once_for: float = 0.0) -> None:
        self._once_for, self._since = once_for, 0.0
        is_main = threading.current_thread() is threading.main_thread()
        self._say, self._signals = say, signals if is_main else ()
        self._stop = self._by_terminal = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopOnInterrupt":
        before = [signal.getsignal(number) for number in self._signals]
        if any(isinstance(handler, Interrupt) and handler.asked for handler in before):
            raise KeyboardInterrupt  # while something was compiled, where it was lost
        for number in self._signals:
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def requested(self) -> bool:
        """Return whether a signal asked to stop."""
        return self._stop

    def _handle(self, number: int, frame: object) -> None:
        by_terminal = number == getattr(signal, "SIGHUP", None)
        if self._stop:
            if by_terminal:
                return
            if self._by_terminal:  # SIGTERM follows SIGHUP where a session ends
                self._by_terminal = False
                return
            if time.monotonic() - self._since < self._once_for:
                return
            raise KeyboardInterrupt
        self._stop, self._since, self._by_terminal = True, time.monotonic(), by_terminal
        self._say("Stopping after this iteration. Press Ctrl-C again to stop at once.")
