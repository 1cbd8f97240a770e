"""Runs the service until SIGTERM or Ctrl-C: what was asked before is answered, then the process ends."""

import gc
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from longstride.errors import UserError
from longstride.process.recommend.service.access_log import AccessLog
from longstride.process.recommend.service.counts import Counts
from longstride.process.recommend.service.guard import Guard
from longstride.process.recommend.service.limits import Limits, Load, Served
from longstride.process.recommend.service.processes.master import Master, Reloading, rows_of
from longstride.process.recommend.service.processes.systemd import inherited_listener
from longstride.process.recommend.service.processes.worker import BACKLOG, Work, Worker
from longstride.text import Say


@dataclass(frozen=True)
class Wanted:
    """What the service is to be."""

    host: str  # address to listen at
    port: int  # 0 for any free one
    workers: int = 1  # processes that answer
    access_log: str = ""  # file, "-" for the standard output, empty for none
    limits: Limits = field(default_factory=Limits)  # limits that settings name
    reload_seconds: float = 0.0  # between looks for a newer checkpoint; 0 for none


def serve(
    wanted: Wanted, load: Load, guard_at: Callable[[str], Guard], fingerprint: Callable[[], object], say: Say
) -> None:
    """Answer requests until a signal ends it.

    Args:
        wanted: what the service is to be.
        load: reads the newest intact checkpoint.
        guard_at: returns who may ask at an address, with the present tokens.
        fingerprint: returns another value once there is another checkpoint.
        say: prints a line.

    Raises:
        UserError: the address or the access log is not available.
    """
    listener = inherited_listener()
    host = wanted.host if listener is None else listener.getsockname()[0]
    guard, listener = guard_at(host), listener or _bound(wanted.host, wanted.port)
    AccessLog(wanted.access_log)  # is refused before anything is served
    served = _ready(load())
    _open(listener, wanted)
    counts = Counts(rows_of(wanted.workers))
    work = Work(listener, served, guard, wanted.limits, wanted.access_log, counts)
    reloading = Reloading(lambda: (_ready(load()), guard_at(host)), fingerprint, wanted.reload_seconds)
    line = f"Serving {served.about['scenario']} on {_shown(listener)} (POST /recommend, GET /health, GET /docs)."
    if hasattr(os, "fork"):
        Master(work, wanted.workers, reloading, say, line).run()
    else:
        Worker(work, lambda: say(line), -1).run()
    say("Stopped.")


def _ready(served: Served) -> Served:
    """Compile what answers, and let workers share its memory."""
    for recommender in (served.recommender, served.other):
        if recommender is not None:
            recommender.compile()
    gc.collect()
    gc.freeze()  # what is here now stays; walking through it would delay an answer and copy it into each worker
    return served


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket with an address that accepts nothing yet: the port opens when the service is ready."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except (OSError, OverflowError, UnicodeError) as error:
        raise _not_available(host, port, error) from None
    return listener


def _open(listener: socket.socket, wanted: Wanted) -> None:
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        raise _not_available(wanted.host, wanted.port, error) from None


def _not_available(host: str, port: int, error: Exception) -> UserError:
    reason = getattr(error, "strerror", None) or error
    return UserError(f"--serve {port}: {host} port {port} is not available ({reason}); name another.")


def _shown(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
