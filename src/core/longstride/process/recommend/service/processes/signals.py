"""Signal handling of the service: while it starts, and as events of its master."""

import os
import select
import signal
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

_HANGUP = getattr(signal, "SIGHUP", None)


@contextmanager
def end_well_while_starting() -> Iterator[None]:
    """End the process with exit code 0 and a line at SIGTERM or Ctrl-C, and ignore SIGHUP, until requests are served.

    An exception does not work: it is lost if it is raised while the compiler has called back into Python.
    """
    handlers: dict[int, Any] = {
        signal.SIGTERM: _end,
        signal.SIGINT: _end,
        **({_HANGUP: signal.SIG_IGN} if _HANGUP else {}),
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(1, b"Stopped before it served.\n")
    os._exit(0)


class Signals:
    """A context in which signals arrive as numbers and do not end the process."""

    def __init__(self) -> None:
        self._reading, self._writing = socket.socketpair()

    def __enter__(self) -> "Signals":
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, *([_HANGUP] if _HANGUP else [])]
        self._before = {number: signal.signal(number, lambda *_: None) for number in numbers}
        self._wakeup = signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._reading.close()
        self._writing.close()

    def wait(self, seconds: float, others: Iterable[int] = ()) -> list[int]:
        """Wait for a signal, a readable descriptor, or the end of the time; return the signals."""
        select.select([self._reading.fileno(), *others], [], [], seconds)
        try:
            return list(self._reading.recv(4096))
        except BlockingIOError:
            return []
