"""A worker process: answers requests until it has to stop, then those that are on their way."""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import uvicorn

from longstride.process.recommend.service.access_log import AccessLog
from longstride.process.recommend.service.app import create_app
from longstride.process.recommend.service.connection import Connection
from longstride.process.recommend.service.connections import Connections
from longstride.process.recommend.service.counts import Counts
from longstride.process.recommend.service.guard import Guard
from longstride.process.recommend.service.limits import IDLE_SECONDS, Limits, Served

BACKLOG = 2048
"""Most connections that wait for a worker to accept them."""

_CHECK_SECONDS = 0.1
_COLLECTION = 100_000, 20, 20
"""Thresholds of the garbage collector: a large body would start it repeatedly, and it halts all threads."""


@dataclass(frozen=True)
class Work:
    """Work of a worker."""

    listener: socket.socket  # socket that all workers share
    served: Served  # policy that answers
    guard: Guard  # admission of requests
    limits: Limits  # limits from settings
    access_log: str  # file, "-" for the standard output, empty for none
    counts: Counts  # counts in shared memory


class Worker:
    """Answers requests in this process.

    Args:
        work: work to do.
        tell_ready: called when requests are accepted.
        life: descriptor that becomes readable when the master has ended; -1 without a master.
    """

    def __init__(self, work: Work, tell_ready: Callable[[], None], life: int) -> None:
        self._work, self._tell_ready, self._life = work, tell_ready, life
        self._connections = Connections(work.limits, work.counts, AccessLog(work.access_log))
        app = create_app(work.served, work.guard, self._connections, self._lifespan)
        self._config = uvicorn.Config(
            app, http=partial(Connection, self._connections),  # type: ignore[arg-type]
            access_log=False, log_level="error", lifespan="on", ws="none", server_header=False,
            timeout_graceful_shutdown=1, timeout_keep_alive=IDLE_SECONDS, backlog=BACKLOG,
        )  # fmt: skip
        self._server = uvicorn.Server(self._config)
        self._server.handle_exit = self._stop  # type: ignore[method-assign, assignment]

    def run(self) -> None:
        """Answer requests until SIGTERM, or until the master has ended."""
        self._server.run(sockets=[self._work.listener])

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Start stopping at SIGTERM; ignore Ctrl-C, which reaches all processes, since the master handles it."""
        if number != signal.SIGINT or self._life < 0:
            self._connections.stopping = True

    @asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        """Run :meth:`_watch` while the application runs."""
        if self._life >= 0:
            asyncio.get_running_loop().add_reader(self._life, self._lose_master)
        watch = asyncio.create_task(self._watch())
        yield
        watch.cancel()

    def _lose_master(self) -> None:
        asyncio.get_running_loop().remove_reader(self._life)
        self._connections.stopping = True

    async def _watch(self) -> None:
        """Check the connections until the worker has to stop; then answer pending requests, and end the server."""
        try:
            while not self._server.started:
                await asyncio.sleep(0.001)
            gc.freeze()
            gc.set_threshold(*_COLLECTION)
            self._tell_ready()
            while not self._connections.stopping:
                self._connections.check()
                self._work.counts.put("beat", self._connections.now())
                await asyncio.sleep(_CHECK_SECONDS)
            await self._drain()
        finally:
            self._server.should_exit = True

    async def _drain(self) -> None:
        """Accept queued connections, close the listener, answer requests, and refuse incomplete ones at the end."""
        await self._accept_the_last()
        end = self._connections.now() + self._work.limits.drain_seconds
        while self._connections.check() and self._connections.now() < end:
            await asyncio.sleep(_CHECK_SECONDS / 2)
        for task in list(self._server.server_state.tasks):
            task.cancel()
        await asyncio.sleep(_CHECK_SECONDS)
        self._connections.end()
        await asyncio.sleep(0)

    async def _accept_the_last(self) -> None:
        """Close the listener after all queued connections were accepted: closing it first would reset them."""
        last = socket.socket(fileno=os.dup(self._work.listener.fileno()))
        for server in self._server.servers:
            server.close()
        last.setblocking(False)
        accepted = []
        try:
            while True:
                accepted.append(last.accept()[0])
        except OSError:
            last.close()
        loop = asyncio.get_running_loop()
        for connection in accepted:
            await loop.connect_accepted_socket(partial(self._protocol, loop), connection)

    def _protocol(self, loop: asyncio.AbstractEventLoop) -> asyncio.Protocol:
        return Connection(
            self._connections, config=self._config, server_state=self._server.server_state, app_state={}, _loop=loop
        )
