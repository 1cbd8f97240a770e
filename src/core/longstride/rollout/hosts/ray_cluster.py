"""Ray as it is used here: connecting to a cluster, or starting one on this machine. Ray is optional."""

import contextlib
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from longstride.errors import UserError, one_line
from longstride.rollout.hosts.ray_guard import RayGuard, processes_here
from longstride.rollout.hosts.ray_privacy import exposure, private_cluster

LOCAL = "local:"
_SOURCES = str(Path(__file__).resolve().parents[3])

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
}
"""Ray sends no usage statistics, hides no GPU and prints nothing of its own."""

_PATHS = {"RAY_AUTH_TOKEN_PATH", "RAY_TMPDIR"}
"""Variables of the user that name a file or folder, which may be relative to the working folder."""

_LEAST_STORE, _MOST_STORE = 80 << 20, 2 << 30
"""Bytes of the object store of a cluster on this machine: as Ray demands; more than waits there at once."""


_ANSWER = 2.0
"""Seconds in which a machine accepts a connection."""


class Place(NamedTuple):
    """Where a player runs."""

    node: str  # Ray's id of the node; empty for any
    name: str  # for messages
    cores: int  # threads of the player
    number: int = 0  # of several players on a node


def import_ray() -> Any:
    """Return the module, set up to be quiet.

    Raises:
        UserError: it is not installed.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise UserError(
            f"ROLLOUT_HOSTS needs Ray ({error}); pip install 'longstride[ray]' (or pip install ray) adds it."
        ) from None
    return ray


def local_count(address: str) -> int:
    """Return N of ``local:N``, 0 of another address.

    Raises:
        UserError: N is no number from 1 on.
    """
    if not address.startswith(LOCAL):
        return 0
    number = address.removeprefix(LOCAL)
    if not number.isdecimal() or not 1 <= int(number) <= 1024:
        raise UserError(f"ROLLOUT_HOSTS is {address!r}; write local:2 for two players on this machine.")
    return int(number)


def check_address(address: str) -> None:
    """Check how an address is written.

    Raises:
        UserError: it is neither auto nor local:N nor HOST:PORT.
    """
    if address == "auto" or local_count(address):
        return
    host, colon, port = address.rpartition(":")
    if "/" in address or not (host and colon and port.isdecimal()):
        raise UserError(
            f"ROLLOUT_HOSTS is {address!r}; write auto, HOST:PORT as `ray start --head` printed it, or local:2."
        )


class Cluster:
    """A connection to Ray.

    Raises:
        UserError: Ray is not installed, or there is no cluster at the address.
    """

    def __init__(self, address: str) -> None:
        self.ray = import_ray()
        self._address, self._count, self._began = address, local_count(address), not self.ray.is_initialized()
        self._open = contextlib.ExitStack()
        self._guard: RayGuard | None = None
        self.note = ""  # sentence for the user
        if self._began:
            self._begin()

    def _begin(self) -> None:
        try:
            with _own_sigterm(), _in_folder(self._open.enter_context(tempfile.TemporaryDirectory())):
                self._connect()
        except (ConnectionError, RuntimeError, ValueError, OSError, self.ray.exceptions.RayError) as error:
            self._open.close()
            raise UserError(_no_cluster(self._address, one_line(error))) from None
        self._guard = RayGuard(processes_here(self.ray._private.worker.global_worker.node.raylet_socket_name))

    def _connect(self) -> None:
        if self._count:
            self._start_here()
        else:
            self.ray.init(address=self._address, log_to_driver=False, logging_level="ERROR")

    def _start_here(self) -> None:
        """Start a cluster that this machine alone can reach."""
        self._find_code()
        self._open.enter_context(private_cluster(self.ray))
        quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
        self.ray.init(address="local", num_cpus=self._count, object_store_memory=_store_bytes(), **quiet)
        self.note = exposure(self.ray)

    def _find_code(self) -> None:
        """Let the processes that Ray starts here find this package where it is not installed."""
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if _SOURCES not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_SOURCES, *paths]))

    def places(self, threads: int, one_each: bool = False) -> list[Place]:
        """Return where players are to run: so many here, or one on each node that has cores.

        With ``one_each`` a player has one thread, and a node as many players as cores: for simulators in Python.
        """
        if self._count:
            share = 1 if one_each else max(threads // self._count, 1)
            return [Place("", f"{number + 1} on this machine", share) for number in range(self._count)]
        alive = [node for node in self.ray.nodes() if node["Alive"]]
        cores = [(node, int(node["Resources"].get("CPU", 0))) for node in alive]
        nodes = [(node["NodeID"], node["NodeManagerAddress"], count) for node, count in cores if count]
        if one_each:
            return [Place(node, name, 1, number) for node, name, count in nodes for number in range(count)]
        return [Place(*node) for node in nodes]

    def close(self) -> None:
        """Leave the cluster, or end it where it was started here."""
        if self._guard is not None:
            self._guard.stop()
        if self._began:
            with contextlib.suppress(Exception):  # it is over in any case
                self.ray.shutdown()
        self._open.close()


@contextlib.contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep what SIGTERM does: Ray ends the process in place of it, and aborts."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


@contextlib.contextmanager
def _in_folder(folder: str) -> Iterator[None]:
    """Work in an empty folder: Ray lets players import first from the folder that it is begun in."""
    before = os.getcwd()
    for name in _PATHS & os.environ.keys():
        os.environ[name] = os.path.abspath(os.environ[name])
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _no_cluster(address: str, reason: str) -> str:
    """Return a sentence about a cluster that cannot be joined, for a reason in Ray's words."""
    if "authentication" in reason.lower() or _answers(address):
        return (
            f"The Ray cluster at ROLLOUT_HOSTS = {address!r} does not let this machine in ({reason}); set "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH to a file with the cluster's token, and install its version "
            "of Ray."
        )
    return (
        f"There is no Ray cluster that ROLLOUT_HOSTS = {address!r} can join ({reason}); start one with `ray start "
        "--head`, or see docs/how-to/play-on-several-hosts.md."
    )


def _answers(address: str) -> bool:
    """Return whether something accepts connections at HOST:PORT."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return False
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _ANSWER):
            return True
    except (OSError, OverflowError):
        return False


def _store_bytes() -> int:
    """Return the bytes of the object store of a cluster on this machine, a tenth of what is free."""
    import psutil

    free = int(psutil.virtual_memory().available)
    return max(_LEAST_STORE, min(_MOST_STORE, free // 10))
