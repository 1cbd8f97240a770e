"""Keeps a Ray cluster that this process starts to itself: on the loopback interface, with a token of its own."""

import contextlib
import importlib
import os
import secrets
from collections.abc import Iterator
from typing import Any

LOOPBACK = "127.0.0.1"
_TOKEN_BYTES = 32
_NO_CLUSTER = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's variable for machines whose firewall asks before a port opens: 0 makes all its processes use the loopback."""


@contextlib.contextmanager
def private_cluster(ray: Any) -> Iterator[None]:
    """Let a cluster that begins within listen on the loopback interface alone, and ask for a new random token.

    The token goes to Ray's processes in their environment, which other users cannot read. It is on no command line and
    in no file. Variables are restored at the end, so that the next connection follows the user's own.
    """
    changed = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(_TOKEN_BYTES), _NO_CLUSTER: "0"}
    before = {name: os.environ.get(name) for name in changed}
    constants = ray._private.ray_constants
    reached = constants.ENABLE_RAY_CLUSTER
    os.environ.update(changed)
    constants.ENABLE_RAY_CLUSTER = False  # it was read when Ray was imported
    _read_again()
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = reached
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        _read_again()


def _read_again() -> None:
    """Let Ray read mode and token again, which it keeps from the first connection on."""
    with contextlib.suppress(ImportError, AttributeError):  # before Ray 2.52, which has no tokens
        raylet: Any = importlib.import_module("ray._raylet")
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()


def exposure(ray: Any) -> str:
    """Return a sentence if the cluster that this process has started is not on the loopback interface."""
    addresses = {node["NodeManagerAddress"] for node in ray.nodes()} - {LOOPBACK}
    if not addresses:
        return ""
    return (
        f"Ray {ray.__version__} listens on {', '.join(sorted(addresses))}, not on this machine alone; its token keeps "
        "others out, and a firewall should close its ports."
    )
