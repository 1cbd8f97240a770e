"""A connection with limits on the head of a request and on slow clients, which uvicorn does not have."""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from longstride.escaping import json_line
from longstride.process.recommend.service.connections import Connections
from longstride.process.recommend.service.limits import MOST_HEAD_BYTES, MOST_SECONDS, STOPPING

_END = b"\r\n\r\n"
"""Bytes that end the head of a request."""

_IDLE_AT_STOP = 1.0
"""Seconds of idling after which a stopping service closes a connection: no request is on its way then."""


class _Channel:
    """A transport that drops data written after its end, like asyncio's transport; uvloop's raises an error.

    Args:
        transport: transport of the connection.

    Attributes:
        dropped: whether something was dropped.
    """

    def __init__(self, transport: Any) -> None:
        self._transport, self.dropped = transport, False

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the transport."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write data, or drop them."""
        if self._transport.is_closing():
            self.dropped = True
        else:
            self._transport.write(data)


class Connection(asyncio.Protocol):
    """Uvicorn's protocol behind limits.

    The body of a request is limited elsewhere, after a guard has admitted the request.

    Args:
        connections: all connections of this process, which call ``check`` several times a second.
        arguments: arguments of uvicorn's own protocol.

    Requests find their connection as ``scope["state"]["connection"]``.
    """

    def __init__(self, connections: Connections, **arguments: Any) -> None:
        self._all = connections
        arguments["app_state"] = {**arguments["app_state"], "connection": self}
        self._inner: Any = AutoHTTPProtocol(**arguments)
        self._read = 0  # bytes of an incomplete head
        self._tail = b""  # its last bytes, which may be the first part of the end mark
        self._blocked_since = 0.0  # time since which the client does not receive; 0 if it does
        self._refused = self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start waiting for the first request."""
        self._transport: Any = _Channel(transport)
        self._waits_since = self._idle_since = self._all.now()  # the first is 0 between two requests
        self._refused = not self._all.admit(self)
        self._inner.connection_made(self._transport)

    def data_received(self, data: bytes) -> None:
        """Pass data on unless the head of a request is too long."""
        if self._refused:
            self._refuse(
                "503 Service Unavailable", "The service has too many connections; try again.", "Retry-After: 1"
            )
            return
        if not self._answering and self._head_after(data) > MOST_HEAD_BYTES:
            self._refuse("431 Request Header Fields Too Large", "The header of the request is too large.")
            return
        self._inner.data_received(data)
        self._idle_since = self._all.now()
        if self._answering:
            self._read, self._tail, self._waits_since = 0, b"", 0.0
            return
        self._read, self._tail = self._read + len(data), (self._tail + data)[1 - len(_END) :]
        self._waits_since = self._waits_since or self._idle_since

    @property
    def _answering(self) -> bool:
        """Return whether the head of a request is complete but its answer is not."""
        return self._inner.cycle is not None and not self._inner.cycle.response_complete

    def _head_after(self, data: bytes) -> int:
        """Return the size in bytes of the head so far, including the part of ``data`` up to the head's end."""
        end = (self._tail + data).find(_END)
        return self._read + (len(data) if end < 0 else end - len(self._tail))

    def eof_received(self) -> None:
        """Pass the end of the data on."""
        self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the end of the connection on."""
        self._lost = True
        self._all.forget(self)
        self._inner.connection_lost(exc)

    @property
    def left(self) -> bool:
        """Whether the client has left before it received its answer."""
        return self._lost or bool(self._transport.dropped)

    def pause_writing(self) -> None:
        """Pass on that the client receives too slowly."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the client has received."""
        self._inner.resume_writing()

    def check(self, now: float) -> None:
        """End the connection if its client is too slow, or if the service stops and the connection is idle."""
        if self._is_blocked(now):
            self._all.note(499)
            self._transport.abort()
        elif self._answering or self._transport.is_closing():
            self._idle_since = now
        elif self._waits_since:
            if now - self._waits_since > MOST_SECONDS:
                sentence = f"The request did not arrive within {MOST_SECONDS:.0f} seconds."
                self._refuse("408 Request Timeout", sentence)
        elif self._all.stopping and now - self._idle_since > _IDLE_AT_STOP:
            self._transport.close()

    def _is_blocked(self, now: float) -> bool:
        """Return whether the client has not read data for too long; closing would also wait for it."""
        if not self._transport.get_write_buffer_size():
            self._blocked_since = 0.0
            return False
        self._blocked_since = self._blocked_since or now
        return bool(now - self._blocked_since > self._all.limits.write_seconds)

    def end(self) -> None:
        """End the connection of a stopping service; refuse an incomplete head of a request."""
        if self._answering:
            self._transport.abort()
        elif self._read:
            self._refuse("503 Service Unavailable", STOPPING)
        else:
            self._transport.close()

    def _refuse(self, status: str, sentence: str, *headers: str) -> None:
        """Answer with a sentence, and close the connection."""
        self._waits_since = 0.0
        if not self._transport.is_closing():
            self._all.note(int(status[:3]))
            body = json_line({"error": sentence})
            lines = [f"HTTP/1.1 {status}", "content-type: application/json", f"content-length: {len(body)}", *headers]
            self._transport.write(("\r\n".join([*lines, "connection: close"]) + f"\r\n\r\n{body}").encode())
            self._transport.close()
