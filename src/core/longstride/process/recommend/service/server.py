"""Runs the service until SIGTERM or Ctrl-C; earlier requests are answered before the process ends."""

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
class ServiceOptions:
    """Options of the service."""

    host: str  # address to listen at
    port: int  # 0 for any free one
    workers: int = 1  # processes that answer
    access_log: str = ""  # file, "-" for the standard output, empty for none
    limits: Limits = field(default_factory=Limits)  # limits from settings
    reload_seconds: float = 0.0  # seconds between checks for a newer checkpoint; 0 for none


def serve(
    options: ServiceOptions, load: Load, guard_at: Callable[[str], Guard], fingerprint: Callable[[], object], say: Say
) -> None:
    """Answer requests until a signal ends it.

    Args:
        options: options of the service.
        load: returns the newest intact checkpoint's policy.
        guard_at: returns the guard of an address, with the current tokens.
        fingerprint: returns a value that changes with the checkpoint.
        say: prints a line.

    Raises:
        UserError: the address or the access log is not available.
    """
    listener = inherited_listener()
    host = options.host if listener is None else listener.getsockname()[0]
    guard, listener = guard_at(host), listener or _bound(options.host, options.port)
    AccessLog(options.access_log)  # a wrong access log is refused before anything is served
    served = _ready(load())
    _open(listener, options)
    counts = Counts(rows_of(options.workers))
    work = Work(listener, served, guard, options.limits, options.access_log, counts)
    reloading = Reloading(lambda: (_ready(load()), guard_at(host)), fingerprint, options.reload_seconds)
    line = f"Serving {served.about['scenario']} on {_shown(listener)} (POST /recommend, GET /health, GET /docs)."
    if hasattr(os, "fork"):
        Master(work, options.workers, reloading, say, line).run()
    else:
        Worker(work, lambda: say(line), -1).run()
    say("Stopped.")


def _ready(served: Served) -> Served:
    """Compile the recommender, and let workers share its memory."""
    for recommender in (served.recommender, served.other):
        if recommender is not None:
            recommender.compile()
    gc.collect()
    gc.freeze()  # current objects stay; scanning them would delay answers and copy them into each worker
    return served


def _bound(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet: the port opens when the service is ready."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except (OSError, OverflowError, UnicodeError) as error:
        raise _not_available(host, port, error) from None
    return listener


def _open(listener: socket.socket, options: ServiceOptions) -> None:
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        raise _not_available(options.host, options.port, error) from None


def _not_available(host: str, port: int, error: Exception) -> UserError:
    reason = getattr(error, "strerror", None) or error
    return UserError(f"--serve {port}: {host} port {port} is not available ({reason}); name another.")


def _shown(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
