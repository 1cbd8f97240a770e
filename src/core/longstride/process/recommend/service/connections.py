"""All connections of a worker: their limit, and their end when the worker stops."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from longstride.process.recommend.service.access_log import AccessLog
from longstride.process.recommend.service.counts import Counts
from longstride.process.recommend.service.limits import Limits

_REFUSED_AT_ONCE = 200
"""Connections beyond the limit that receive a reason for the refusal; further ones are closed."""


class Checked(Protocol):
    """A connection as used by :class:`Connections`."""

    def check(self, now: float) -> None:
        """End the connection if its time is over."""

    def end(self) -> None:
        """End the connection."""


class Connections:
    """The open connections of a worker.

    Args:
        limits: limits from settings.
        counts: counters of answers.
        log: access log.

    Attributes:
        stopping: whether the worker answers the requests it has received, and then ends.
    """

    def __init__(self, limits: Limits, counts: Counts, log: AccessLog) -> None:
        self.limits, self.counts, self.log = limits, counts, log
        self.stopping = False
        self._open: set[Checked] = set()
        self.now: Callable[[], float] = time.monotonic

    def admit(self, connection: Checked) -> bool:
        """Add a connection; return whether its requests are answered."""
        self._open.add(connection)
        if len(self._open) > self.limits.connections + _REFUSED_AT_ONCE:
            asyncio.get_running_loop().call_soon(connection.end)
        return len(self._open) <= self.limits.connections

    def forget(self, connection: Checked) -> None:
        """Remove a connection that has ended."""
        self._open.discard(connection)

    def check(self) -> int:
        """Check all connections and return how many there are; to be called several times a second."""
        now = self.now()
        for connection in list(self._open):
            connection.check(now)
        self.counts.put("connections", len(self._open))
        return len(self._open)

    def end(self) -> None:
        """End all connections."""
        for connection in list(self._open):
            connection.end()

    def note(self, status: int) -> None:
        """Count and log an answer given before the request was read, or a client that did not receive."""
        self.counts.observe("other", status, 0.0)
        self.write(path="other", status=status)

    def write(self, **values: object) -> None:
        """Append a line to the access log; count a line that cannot be written."""
        if not self.log.write(**values):
            self.counts.add("log_lines_lost")
