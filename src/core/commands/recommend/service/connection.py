"""A connection that ends where the head of a request is too long or slow; uvicorn waits for it, and keeps it all."""

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from core.commands.recommend.service.guard import MOST_SECONDS

MOST_HEAD_BYTES = 2**16
"""Bytes of the head of a request: its first line and its header."""


_END = b"\r\n\r\n"
"""End of the head of a request."""


class Connection(asyncio.Protocol):
    """Uvicorn's protocol behind a limit; its arguments are those that uvicorn gives its own.

    The body of a request is not limited here: a guard admits requests first.
    """

    def __init__(self, **arguments: Any) -> None:
        self._inner: Any = AutoHTTPProtocol(**arguments)
        self._read = 0  # bytes of a head that is not complete
        self._tail = b""  # the last of them, which may begin the end of the head
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        self._transport: Any = transport
        self._inner.connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Pass data on, as long as the head of a request is not too long."""
        if not self._answering and self._head_after(data) > MOST_HEAD_BYTES:
            self._refuse("431 Request Header Fields Too Large", "The header of the request is too large.")
            return
        self._inner.data_received(data)
        if self._answering:
            self._read, self._tail = 0, b""
            self._stop_waiting()
            return
        self._read, self._tail = self._read + len(data), (self._tail + data)[1 - len(_END) :]
        if self._timer is None:
            self._wait()

    @property
    def _answering(self) -> bool:
        """Whether the head of a request is complete, and its answer is not."""
        return self._inner.cycle is not None and not self._inner.cycle.response_complete

    def _head_after(self, data: bytes) -> int:
        """Return the bytes of the head that have arrived, with data that belongs to it up to its end."""
        end = (self._tail + data).find(_END)
        return self._read + (len(data) if end < 0 else end - len(self._tail))

    def eof_received(self) -> None:
        """Pass the end of the data on."""
        self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the end of the connection on."""
        self._stop_waiting()
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass on that the client reads too slowly."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the client has read."""
        self._inner.resume_writing()

    def _wait(self) -> None:
        sentence = f"The request did not arrive within {MOST_SECONDS:.0f} seconds."
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(MOST_SECONDS, self._refuse, "408 Request Timeout", sentence)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: str, sentence: str) -> None:
        """Answer in a sentence, and close the connection."""
        self._stop_waiting()
        if not self._transport.is_closing():
            body = json.dumps({"error": sentence})
            head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
            self._transport.write(f"{head}\r\nconnection: close\r\n\r\n{body}".encode())
            self._transport.close()
