"""The master: starts workers, replaces those that end and those whose policy is not the newest, and ends them."""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NoReturn

from longstride.errors import one_line
from longstride.process.recommend.service.guard import Guard
from longstride.process.recommend.service.limits import Served
from longstride.process.recommend.service.processes.signals import Signals
from longstride.process.recommend.service.processes.systemd import notify, notify_reloading
from longstride.process.recommend.service.processes.worker import Work, Worker
from longstride.text import Say

_LOOK_SECONDS = 0.2
_SILENT_SECONDS = 30.0
"""A worker that has not been alive for so long is killed."""

_MORE_SECONDS = 5.0
"""Time beyond that of the requests in progress, after which workers are killed when the service stops."""


@dataclass
class _Child:
    """A worker, as its master sees it."""

    pid: int
    row: int  # of the counts
    generation: int  # number of the policy that it answers with
    ready: int  # descriptor that can be read once it is ready; -1 afterwards
    begun: float = field(default_factory=time.monotonic)
    leaving: bool = False  # whether it was told to end


@dataclass(frozen=True)
class Reloading:
    """How a newer policy is found and loaded."""

    load: Callable[[], tuple[Served, Guard]]
    fingerprint: Callable[[], object]  # another one if there is another checkpoint
    seconds: float = 0.0  # between looks at it; 0 for none


class Master:
    """Keeps a number of workers that answer with the newest policy.

    Args:
        work: what each worker does.
        workers: number of workers.
        reloading: how a newer policy is found.
        say: prints a line.
        ready: line to print once the first worker is ready.
    """

    def __init__(self, work: Work, workers: int, reloading: Reloading, say: Say, ready: str) -> None:
        self._work, self._count, self._reloading = work, workers, reloading
        self._say, self._ready = say, ready
        self._children: list[_Child] = []
        self._free_rows = list(range(1, rows_of(workers)))
        self._generation, self._wants_reload, self._stopping = 0, False, False
        self._not_before = self._killing = 0.0
        self._seen, self._looked = reloading.fingerprint(), time.monotonic()
        self._life = os.pipe()  # its reading end tells workers that the master has ended

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT; SIGHUP loads the newest checkpoint and the tokens."""
        with Signals() as signals:
            while self._children or not self._stopping:
                self._fill()
                waits = [child.ready for child in self._children if child.ready >= 0]
                for number in signals.wait(_LOOK_SECONDS, waits):
                    self._take(number)
                self._bury()
                self._welcome()
                self._look()

    def _fill(self) -> None:
        """Start workers where some are missing."""
        present = sum(child.generation == self._generation and not child.leaving for child in self._children)
        if not self._stopping and time.monotonic() >= self._not_before:
            for _ in range(min(self._count - present, len(self._free_rows))):
                self._fork()

    def _fork(self) -> None:
        reading, writing = os.pipe()
        row = self._free_rows.pop(0)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            self._be_worker(row, writing)
        os.close(writing)
        self._children.append(_Child(pid, row, self._generation, reading))

    def _be_worker(self, row: int, writing: int) -> NoReturn:
        """Answer in the process that has just begun."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            # The terminal tells all of its processes; only the master is to follow.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # until it answers
            os.close(self._life[1])
            self._work.counts.use_row(row)
            Worker(self._work, lambda: os.close(writing), self._life[0]).run()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _take(self, number: int) -> None:
        """Act on a signal."""
        if number == signal.SIGHUP:
            self._wants_reload = True
        elif number == signal.SIGINT and self._stopping:
            self._killing = time.monotonic()  # Ctrl-C a second time
        elif number in (signal.SIGTERM, signal.SIGINT) and not self._stopping:
            self._stopping = True
            notify("STOPPING=1")
            self._killing = time.monotonic() + self._work.limits.drain_seconds + _MORE_SECONDS
            self._work.listener.close()
            for child in self._children:
                self._retire(child)

    def _retire(self, child: _Child) -> None:
        if not child.leaving:
            child.leaving = True
            os.kill(child.pid, signal.SIGTERM)

    def _bury(self) -> None:
        """Forget workers that have ended, and report those that were not told to end."""
        for child in list(self._children):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if not pid:
                continue
            self._children.remove(child)
            self._free_rows.append(child.row)
            self._work.counts.clear(child.row)
            if child.ready >= 0:
                os.close(child.ready)
                self._not_before = time.monotonic() + 1.0  # what never worked is not tried again at once
            if not child.leaving:
                code = os.waitstatus_to_exitcode(status)
                how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
                self._say(f"Worker {pid} ended {how}; another one takes its place.")
                self._work.counts.add("worker_restarts")

    def _welcome(self) -> None:
        """Note which workers are ready; once all of the newest policy are, the others may go."""
        for child in self._children:
            if child.ready >= 0 and _is_closed(child.ready):
                os.close(child.ready)
                child.ready = -1
                if self._ready:
                    self._say(self._ready)
                    notify("READY=1", "STATUS=Serving.")
                    self._ready = ""
        newest = [child for child in self._children if child.generation == self._generation]
        if sum(child.ready < 0 and not child.leaving for child in newest) >= self._count:
            for child in self._children:
                if child.generation != self._generation:
                    self._retire(child)

    def _look(self) -> None:
        """Look for workers that hang and for a newer policy."""
        now = time.monotonic()
        for child in self._children:
            beat = max(child.begun, self._work.counts.of_row(child.row, "beat"))
            if (now - beat > _SILENT_SECONDS and not child.leaving) or (self._stopping and now >= self._killing):
                os.kill(child.pid, signal.SIGKILL)
        if self._reloading.seconds and now - self._looked > self._reloading.seconds:
            self._looked, seen = now, self._reloading.fingerprint()
            self._wants_reload, self._seen = self._wants_reload or seen != self._seen, seen
        if self._wants_reload and not self._stopping and len(self._children) <= self._count:
            self._wants_reload = False
            self._reload()

    def _reload(self) -> None:
        """Load the newest policy and the tokens; if that fails, the policy before goes on."""
        notify_reloading()
        try:
            self._seen = self._reloading.fingerprint()
            served, guard = self._reloading.load()
        except Exception as error:  # whatever a damaged file raises, the service goes on
            self._work.counts.add("reload_failures")
            self._say(f"Nothing was loaded, and the policy before goes on: {one_line(error)}.")
        else:
            self._work = replace(self._work, served=served, guard=guard)
            self._generation += 1
            self._work.counts.add("reloads")
            digest = served.about.get("policy_sha256", "")[:12]
            self._say(f"Loaded iteration {served.about['iteration']} (policy {digest}).")
        notify("READY=1")


def rows_of(workers: int) -> int:
    """Return the rows of counts that a service needs: its master, its workers, and those that take their place."""
    return 1 + 3 * workers


def _is_closed(descriptor: int) -> bool:
    """Return whether the worker has closed its end, or has ended."""
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, 1) == b""
    except BlockingIOError:
        return False
