"""Requests to the service of --mode recommend while it loads policies, restarts and is killed: is any of them lost?

    python benchmarks/service_load.py --run-directory runs/loan_desk

The port belongs to this program, which hands it to each service as systemd does (LISTEN_FDS), so that a restart of the
whole service refuses nobody. A request is lost if its connection ends without an answer; one to a killed process may
be, and is sent again.
"""

import argparse
import asyncio
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.service import request_of, states_of  # noqa: E402

_STARTER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.executable, sys.argv[2:])
"""
_ATTEMPTS = 4
"""A request that met a kill is sent again; a retry can meet the next kill."""


class Service:
    """A service on a socket of this process, with a thread that reads its lines."""

    def __init__(self, listener: socket.socket, run: str, workers: int) -> None:
        script = ROOT / "scripts" / "train.py"
        command = [sys.executable, str(script), "--mode", "recommend", "--run-directory", run, "--serve", "0"]
        command += ["--workers", str(workers)]
        variables = {**os.environ, "LISTEN_FDS": "1", "COLUMNS": "500"}
        passed = listener.fileno()
        command = [sys.executable, "-c", _STARTER, str(passed), *command]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables, pass_fds=[passed])
        self.lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        self.wait_for("Serving")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())

    def wait_for(self, beginning: str, count: int = 1) -> None:
        """Wait until lines with this beginning have come."""
        while sum(line.startswith(beginning) for line in self.lines) < count:
            if self.process.poll() is not None:
                raise SystemExit(f"The service ended: {self.lines}")
            time.sleep(0.02)

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        while not (found := [child.pid for child in psutil.Process(self.process.pid).children()]):
            time.sleep(0.01)
        return found

    def end(self) -> int:
        """End the service by SIGTERM and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


class Clients:
    """Clients with keep-alive connections, which open another one only where the service says ``Connection: close``."""

    def __init__(self, port: int, requests: list[bytes], connections: int, retry: bool = False) -> None:
        self._port, self._requests, self._connections, self._retry = port, requests, connections, retry
        self.seconds: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.lost, self.again, self._left = 0, 0, 0

    def play(self, total: int, until: Callable[[], bool] = lambda: True) -> None:
        """Send a number of requests, and further ones until something else is over."""
        self._left, self._until = total, until
        asyncio.run(self._all())

    async def _all(self) -> None:
        await asyncio.gather(*(self._client(i) for i in range(self._connections)))

    async def _client(self, number: int) -> None:
        channel: Any = None
        while self._left > 0 or not self._until():
            self._left -= 1
            request, begin = self._requests[self._left % len(self._requests)], time.perf_counter()
            for attempt in range(_ATTEMPTS if self._retry else 1):
                try:
                    channel = channel or await asyncio.open_connection("127.0.0.1", self._port)
                    status, closes = await _answer(channel, request)
                except (OSError, EOFError):
                    channel = None
                    last = attempt + 1 == (_ATTEMPTS if self._retry else 1)
                    self.lost, self.again = self.lost + last, self.again + (not last)
                    continue
                self.statuses[status] += 1
                self.seconds.append(time.perf_counter() - begin)
                if closes:
                    channel[1].close()
                    channel = None
                break

    def row(self, name: str) -> str:
        """Return a line about the requests."""
        times = np.array(self.seconds) * 1e3
        p50, p99 = np.quantile(times, 0.5), np.quantile(times, 0.99)
        return (
            f"{name}: {len(times):,} answers {dict(self.statuses)}, lost {self.lost}, sent again {self.again}, "
            f"p50 {p50:.2f} ms, p99 {p99:.1f} ms, longest {times.max():,.0f} ms"
        )


async def _answer(channel: Any, request: bytes) -> tuple[int, bool]:
    reader, writer = channel
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = re.search(rb"content-length: (\d+)", head)
    await reader.readexactly(int(length[1]) if length else 0)
    return int(head[9:12]), b"connection: close" in head


@contextmanager
def disturbed(act: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Do something in a thread; yield what says whether it is over."""
    thread = threading.Thread(target=act)
    thread.start()
    yield lambda: not thread.is_alive()
    thread.join()


def main() -> None:
    """Print a line for each part, and end with exit code 1 if a request was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-directory", required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--disturbed-requests", type=int, default=5_000)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--reloads", type=int, default=10)
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--kills", type=int, default=50)
    options: Any = parser.parse_args()
    requests = [request_of(state) for state in states_of(options.run_directory)]
    lost = sum(part(options, requests) for part in (undisturbed, reloads_and_restarts, kills))
    print("Lost:", lost)
    raise SystemExit(int(lost > 0))


def undisturbed(options: Any, requests: list[bytes]) -> int:
    """Measure one worker, by one connection and by many in turns; return the lost requests."""
    with _listener() as listener:
        port, service = listener.getsockname()[1], Service(listener, options.run_directory, 1)
        Clients(port, requests, 8).play(500)
        one, many = Clients(port, requests, 1), Clients(port, requests, options.connections)
        for _ in range(4):  # in turns, since the load of the machine changes
            one.play(options.requests // 4)
            many.play(options.disturbed_requests // 4)
        print(one.row("one connection"))
        print(many.row(f"{options.connections} connections"), flush=True)
        service.end()
    return one.lost + many.lost


def reloads_and_restarts(options: Any, requests: list[bytes]) -> int:
    """Load the policy again, end workers and restart the service under each load; return the lost requests."""
    loads = {1: options.requests, options.connections: options.disturbed_requests}
    return sum(_reloads_and_restarts(options, requests, *load) for load in loads.items())


def _reloads_and_restarts(options: Any, requests: list[bytes], connections: int, least: int) -> int:
    with _listener() as listener:
        services = [Service(listener, options.run_directory, options.workers)]

        def act() -> None:
            for i in range(options.reloads):
                services[0].process.send_signal(signal.SIGHUP)
                services[0].wait_for("Loaded", i + 1)
                os.kill(random.choice(services[0].workers()), signal.SIGTERM)
                time.sleep(0.3)
            for _ in range(options.restarts):
                assert services[0].end() == 0
                services[0] = Service(listener, options.run_directory, options.workers)

        clients = Clients(listener.getsockname()[1], requests, connections)
        with disturbed(act) as over:
            clients.play(least, over)
        name = f"{options.reloads} reloads and SIGTERMs of workers, {options.restarts} restarts of the service"
        print(clients.row(f"{name}, {connections} connection{'s' * (connections > 1)}"), flush=True)
        services[0].end()
    return clients.lost


def kills(options: Any, requests: list[bytes]) -> int:
    """Kill workers under load; return the requests that were lost although they were sent again."""
    with _listener() as listener:
        service = Service(listener, options.run_directory, options.workers)

        def act() -> None:
            for i in range(options.kills):
                os.kill(random.choice(service.workers()), signal.SIGKILL)
                service.wait_for("Worker", i + 1)
                time.sleep(random.uniform(0.05, 0.4))

        clients = Clients(listener.getsockname()[1], requests, options.connections, retry=True)
        with disturbed(act) as over:
            clients.play(0, over)
        print(clients.row(f"{options.kills} SIGKILLs of workers, {options.connections} connections"), flush=True)
        service.end()
    return clients.lost


def _listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0), backlog=2048)


if __name__ == "__main__":
    main()
