"""Runs the service until SIGTERM or Ctrl-C: what was asked before is answered, then the process ends."""

import gc
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from core.commands.recommend.recommender import Recommender
from core.commands.recommend.service.app import create_app
from core.commands.recommend.service.connection import Connection
from core.commands.recommend.service.guard import Guard
from core.errors import UserError
from core.text import Say

_GRACE = 5
"""Seconds in which requests that are under way can end."""


def serve(recommender: Recommender, guard: Guard, about: dict[str, Any], address: tuple[str, int], say: Say) -> None:
    """Answer requests at an address (host and port, 0 for any free one) until a signal ends it.

    Raises:
        UserError: the address is not available.
    """
    listener = _listen(*address)
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    recommender.compile()
    app = create_app(recommender, guard, about)
    config = uvicorn.Config(
        app, http=Connection, access_log=False, log_level="error", lifespan="off", ws="none", server_header=False,
        timeout_graceful_shutdown=_GRACE, backlog=2048,
    )  # fmt: skip
    gc.collect()
    gc.freeze()  # what is here now stays; walking through it would delay an answer
    with _signals_end_the_process_well(), listener:
        say(f"Serving {about['scenario']} on http://{shown}:{port} (POST /recommend, GET /health, GET /docs).")
        uvicorn.Server(config).run(sockets=[listener])
    say("Stopped.")


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"--serve {port}: {host} port {port} is not available ({reason}); name another.") from None


@contextmanager
def _signals_end_the_process_well() -> Iterator[None]:
    """Ignore SIGTERM and SIGINT, which uvicorn handles and then raises a second time."""
    signals = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda *_: None) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
