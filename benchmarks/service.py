"""The service of --mode recommend: requests a second and waiting times.

    python benchmarks/service.py --run-directory runs/loan_desk --rate 1000 --seconds 60 --clients 200

Each client sends at its own times, whether or not the service keeps up, and waits from then on: a request that is late
because of the one before counts as slow. The service and the clients share the machine, so figures name its other load.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from longstride.process.recommend.command import recommender_of
from longstride.process.snapshots.schema import parse_state
from longstride.seeding import stream
from longstride.settings import load_settings
from longstride.simulators.simulator import compile_functions, new_state

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.dump_state import dump_state

WARM_UP, STATES = 400, 400
SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "train.py"
NOOP = """
import socket, uvicorn
from fastapi import FastAPI, Request, Response
app = FastAPI()
@app.post("/recommend")
async def nothing(request: Request) -> Response:
    await request.body()
    return Response(b"{}" + b" " * 1200, media_type="application/json")
listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
print(f"Serving nothing on http://127.0.0.1:{listener.getsockname()[1]} .", flush=True)
config = uvicorn.Config(app, access_log=False, log_level="warning", lifespan="off", ws="none")
uvicorn.Server(config).run(sockets=[listener])
"""


class Answer(NamedTuple):
    """An answer, and how long it took since its request was due."""

    status: int
    seconds: float
    body: bytes


def request_of(body: bytes) -> bytes:
    """Return the bytes of a request."""
    head = "POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return int(head[9:12]), await reader.readexactly(length)


async def play(port: int, requests: list[bytes], clients: int, seconds: float, rate: float) -> list[Answer]:
    """Send requests for some seconds, ``rate`` a second from all clients; 0 for as fast as they are answered."""
    begin, found = time.perf_counter() + 0.2, list[Answer]()

    async def client(i: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        k = i
        while True:
            due = begin + k / rate if rate else max(begin, time.perf_counter())
            if due >= begin + seconds:
                break
            wait = due - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            writer.write(requests[k % len(requests)])
            status, body = await _read(reader)
            found.append(Answer(status, time.perf_counter() - due, body))
            k += clients
        writer.close()

    await asyncio.gather(*(client(i) for i in range(clients)))
    return found


class Server:
    """A process that serves, and its CPU time."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "500"}
        )
        assert self.process.stdout is not None
        while "Serving" not in (line := self.process.stdout.readline()):
            if not line and self.process.poll() is not None:
                raise SystemExit("The service did not start.")
        self.port = int(line.split("http://")[1].split()[0].rsplit(":", 1)[1])
        time.sleep(0.3)

    def cpu(self) -> float:
        """Return the CPU seconds so far, with those of the workers."""
        main = psutil.Process(self.process.pid)
        times = [process.cpu_times() for process in (main, *main.children(recursive=True))]
        return float(sum(each.user + each.system for each in times))

    def end(self, number: int = signal.SIGTERM) -> int:
        """End the process by a signal and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(30)


def measure(name: str, server: Server, run: Callable[[], Coroutine[Any, Any, list[Answer]]]) -> None:
    """Print a row: requests a second, CPU time of the service for each, waiting times."""
    psutil.cpu_percent()
    before, begin = server.cpu(), time.perf_counter()
    answers = asyncio.run(run())
    cpu, seconds = (server.cpu() - before) / len(answers), time.perf_counter() - begin
    times = np.array([answer.seconds for answer in answers]) * 1e3
    p50, p99, most = np.quantile(times, 0.5), np.quantile(times, 0.99), times.max()
    counts = dict(Counter(answer.status for answer in answers))
    print(
        f"{name}: {len(answers) / seconds:,.0f} requests a second, {cpu * 1e6:,.0f} µs of CPU each "
        f"({1 / cpu:,.0f} a second on one core), median {p50:.2f} ms, 99 % within {p99:.1f} ms, longest {most:.0f} ms, "
        f"statuses {counts}; machine {psutil.cpu_percent():.0f} % busy, load {os.getloadavg()[0]:.1f}.",
        flush=True,
    )


def states_of(directory: str) -> list[bytes]:
    """Return states of an evaluation's episode in which the recommendations are followed."""
    recommender, _ = recommender_of(Path(directory), load_settings(None, {}), print)
    simulator, functions = recommender.simulator, compile_functions(recommender.simulator)
    states, rng, found = new_state(simulator), stream(0, "evaluation", 0), list[bytes]()
    functions.reset(states[0], simulator.parameters, rng)
    for _ in range(WARM_UP + STATES):
        found.append(json.dumps(dump_state(states[0], simulator)).encode())
        action = recommender.advise(parse_state(found[-1], "state"), 1).action
        functions.step(states[0], simulator.parameters, action, rng)
    return found[WARM_UP:]


def main() -> None:
    """Measure, and print a line for each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-directory", required=True)
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    options: Any = parser.parse_args()
    states = states_of(options.run_directory)
    requests = [request_of(state) for state in states]
    print(f"{len(states)} states of {np.mean([len(s) for s in states]):,.0f} bytes on average.")
    command = [sys.executable, str(SCRIPT), "--mode", "recommend", "--run-directory", options.run_directory]
    command += ["--serve", "0"]
    nothing, service = Server([sys.executable, "-c", NOOP]), Server(command)
    try:
        measure_all(options, requests, nothing, service)
    finally:
        for server in (nothing, service):
            if server.process.poll() is None:
                server.end(signal.SIGKILL)


def measure_all(options: Any, requests: list[bytes], nothing: Server, service: Server) -> None:
    """Measure both services in turns, then one at a fixed rate."""
    asyncio.run(play(service.port, requests, 8, 2.0, 0.0))
    for _ in range(options.repeats):
        for name, server in (("nothing", nothing), ("recommend", service)):
            run = partial(play, server.port, requests, 8, 4.0, 0.0)
            measure(f"{name}, as fast as it goes", server, run)
    run = partial(play, service.port, requests, options.clients, options.seconds, options.rate)
    measure(f"{options.rate:,.0f} a second from {options.clients} clients", service, run)


if __name__ == "__main__":
    main()
