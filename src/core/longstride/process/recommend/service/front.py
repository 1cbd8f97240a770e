"""The outermost layer of the application: request ids, admission, the access log and counts."""

import re
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from longstride.process.recommend.service.connections import Connections
from longstride.process.recommend.service.counts import ROUTES
from longstride.process.recommend.service.guard import Guard, RefusedError

OPEN_TO_ALL = ("/health", "/ready")
"""Paths without a token."""

_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")


_LEFT = 499
"""Logged status of a request whose client left before its answer, as in nginx."""


class Front:
    """Admits requests by a guard, and answers ``POST /recommend`` itself.

    This is a plain ASGI application, which saves the time of FastAPI's routes for recommendations.

    Args:
        app: application for all other requests.
        guard: admission of requests.
        recommend: answers ``POST /recommend``.
        connections: connections of this worker.
    """

    def __init__(
        self, app: Any, guard: Guard, recommend: Callable[[Request], Awaitable[Response]], connections: Connections
    ) -> None:
        self._app, self._guard, self._recommend, self._connections = app, guard, recommend, connections

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request of the ASGI server."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, request = time.perf_counter(), Request(scope, receive)
        sent = _Sent(send, scope, _id_of(request), self._connections)
        try:
            await self._answer(request, sent, scope, receive)
        finally:
            self._note(scope, sent, time.perf_counter() - begin)

    async def _answer(self, request: Request, sent: "_Sent", scope: Any, receive: Any) -> None:
        response: Any = self._app
        try:
            if scope["path"] not in OPEN_TO_ALL:
                self._guard.check(request)
            if scope["path"] == "/recommend" and scope["method"] == "POST":
                response = await self._recommend(request)
        except RefusedError as error:
            response = problem(error.status, str(error))
        await response(scope, receive, sent)

    def _note(self, scope: Any, sent: "_Sent", seconds: float) -> None:
        """Count and log an answer; only known paths are logged."""
        path, status = scope["path"] if scope["path"] in ROUTES else "other", sent.status or 500
        self._connections.counts.observe(path, status, seconds)
        self._connections.write(
            request_id=sent.request_id,
            client=(scope.get("client") or ("",))[0],
            method=scope["method"],
            path=path,
            status=status,
            seconds=round(seconds, 6),
            bytes=sent.size,
        )


class _Sent:
    """Passes an answer on with the headers of every answer, and remembers its status."""

    def __init__(self, send: Any, scope: Any, request_id: str, connections: Connections) -> None:
        self._send, self.request_id, self._connections = send, request_id, connections
        self._connection = scope.get("state", {}).get("connection")  # None in an application without a server
        self.status, self.size = 0, 0

    async def __call__(self, message: Any) -> None:
        """Pass a message of the application on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), (b"x-request-id", self.request_id.encode())]
            if self._connections.stopping:
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
        else:
            self.size += len(message.get("body", b""))
        await self._send(message)
        if self._connection is not None and self._connection.left:
            self.status = _LEFT


def _id_of(request: Request) -> str:
    """Return the request's id: from its header if short and plain, else a new one."""
    given = request.headers.get("x-request-id", "")
    return given if _SANE_ID.fullmatch(given) else uuid4().hex


def problem(status: int, sentence: str) -> Response:
    """Return the answer to a request that is refused."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    # The server would take the unread rest of a body for the next request.
    headers |= {"Connection": "close"} if status in (401, 408, 413, 503) else {}
    return JSONResponse({"error": sentence}, status, headers)
