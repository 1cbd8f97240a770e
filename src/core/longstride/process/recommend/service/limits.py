"""Limits of the service, and the state that the parts of one worker share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from longstride.process.recommend.recommender import Recommender

MOST_BYTES = 2**20
"""Bytes of a body: a state with about 8,000 tasks."""

MOST_HEAD_BYTES = 2**16
"""Bytes of the head of a request: its first line and its header."""

MOST_SECONDS = 10.0
"""Time in which the head of a request must arrive, and then its body."""

IDLE_SECONDS = 75
"""Time that a connection may be idle: longer than proxies keep theirs (nginx 60 s), so that they close first."""

STOPPING = "The service is stopping and the request did not arrive completely; send it again."


@dataclass(frozen=True)
class Limits:
    """Limits that settings name."""

    connections: int = 1000  # open connections of a worker
    write_seconds: float = 20.0  # time in which a client must take its answer
    drain_seconds: float = 10.0  # time for what is in progress when the service is told to stop


@dataclass(frozen=True)
class Served:
    """A policy that answers.

    Attributes:
        recommender: it answers on the event loop.
        about: ``scenario``, ``policy``, ``iteration``, ``policy_sha256`` and ``saved`` (Unix time of the checkpoint).
        other: the same policy for another thread, which checks large bodies; None to answer them like the others.
    """

    recommender: Recommender
    about: dict[str, Any]
    other: Recommender | None = None


Load = Callable[[], Served]
"""Reads the newest intact checkpoint."""
