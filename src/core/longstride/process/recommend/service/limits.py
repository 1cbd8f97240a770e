"""Limits of the service, and the policy that it serves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from longstride.process.recommend.recommender import Recommender

MOST_BYTES = 2**20
"""Most bytes of a body: a state with about 8,000 tasks."""

MOST_HEAD_BYTES = 2**16
"""Most bytes of the head of a request: its first line and its header."""

MOST_SECONDS = 10.0
"""Seconds in which the head of a request must arrive, and then its body."""

IDLE_SECONDS = 75
"""Seconds that a connection may be idle: longer than in proxies (nginx 60 s), so that these close first."""

STOPPING = "The service is stopping and the request did not arrive completely; send it again."


@dataclass(frozen=True)
class Limits:
    """Limits from settings."""

    connections: int = 1000  # open connections of a worker
    write_seconds: float = 20.0  # time in which a client must receive its answer
    drain_seconds: float = 10.0  # time for requests in progress when the service stops


@dataclass(frozen=True)
class Served:
    """A policy that answers.

    Attributes:
        recommender: recommender that answers on the event loop.
        about: ``scenario``, ``policy``, ``iteration``, ``mean_of_late_policies``, ``policy_sha256`` and ``saved`` (Unix
            time of the checkpoint).
        other: recommender with the same policy for the thread of large bodies; None to answer them like the others.
    """

    recommender: Recommender
    about: dict[str, Any]
    other: Recommender | None = None


Load = Callable[[], Served]
"""Reads the newest intact checkpoint."""
