"""Ctrl-C while a run trains."""

import signal
import threading
from collections.abc import Callable
from typing import Any


class StopOnInterrupt:
    """Turns the first of some signals into a request to stop after the iteration; the second interrupts at once.

    Outside the main thread, where Python handles no signals, it changes nothing.
    """

    def __init__(self, say: Callable[[str], None], *signals: signal.Signals) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        self._say, self._signals, self._stop = say, signals if is_main else (), False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopOnInterrupt":
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
        if self._stop:
            raise KeyboardInterrupt
        self._stop = True
        self._say("Stopping after this iteration. Press Ctrl-C again to stop at once.")
