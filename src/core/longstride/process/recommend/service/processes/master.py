"""The master process: starts workers, replaces those that end or have an old policy, and ends them."""

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
from longstride.training.run_directory.checkpoint import MEAN_OF_LATE

_LOOK_SECONDS = 0.2
_SILENT_SECONDS = 30.0
"""Seconds without a sign of life after which a worker is killed."""

_MORE_SECONDS = 5.0
"""Seconds after the time for requests in progress at which workers are killed when the service stops."""


@dataclass
class _Child:
    """A worker process."""

    pid: int
    row: int  # row of the counts
    generation: int  # number of its policy
    ready: int  # descriptor that becomes readable when it is ready; -1 afterwards
    begun: float = field(default_factory=time.monotonic)
    leaving: bool = False  # whether it was told to end


@dataclass(frozen=True)
class Reloading:
    """Functions that find and load a newer policy."""

    load: Callable[[], tuple[Served, Guard]]
    fingerprint: Callable[[], object]  # changes with the checkpoint
    seconds: float = 0.0  # seconds between checks; 0 for none


class Master:
    """Keeps a number of workers running that answer with the newest policy.

    Args:
        work: work of each worker.
        workers: number of workers.
        reloading: functions that find a newer policy.
        say: prints a line.
        ready: line to print when the first worker is ready.
    """

    def __init__(self, work: Work, workers: int, reloading: Reloading, say: Say, ready: str) -> None:
        self._work, self._count, self._reloading = work, workers, reloading
        self._say, self._ready = say, ready
        self._children: list[_Child] = []
        self._free_rows = list(range(1, rows_of(workers)))
        self._generation, self._wants_reload, self._stopping = 0, False, False
        self._not_before = self._killing = 0.0
        self._seen, self._looked = reloading.fingerprint(), time.monotonic()
        self._life = os.pipe()  # workers read from it to notice the end of the master

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
        """Start missing workers."""
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
        """Run as a worker in the new process."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            # The terminal sends signals to all of its processes; only the master handles them.
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
        """Handle a signal."""
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
        """Remove workers that have ended, and report unexpected ends."""
        for child in list(self._children):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if not pid:
                continue
            self._children.remove(child)
            self._free_rows.append(child.row)
            self._work.counts.clear(child.row)
            if child.ready >= 0:
                os.close(child.ready)
                self._not_before = time.monotonic() + 1.0  # a worker that was never ready is not replaced at once
            if not child.leaving:
                code = os.waitstatus_to_exitcode(status)
                how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
                self._say(f"Worker {pid} ended {how}; another one takes its place.")
                self._work.counts.add("worker_restarts")

    def _welcome(self) -> None:
        """Note ready workers; when all with the newest policy are ready, the others may end."""
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
        """Check for hanging workers and for a newer policy."""
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
        """Load the newest policy and the tokens; if that fails, keep the previous ones."""
        notify_reloading()
        try:
            self._seen = self._reloading.fingerprint()
            served, guard = self._reloading.load()
        except Exception as error:  # a damaged file may raise anything, and the service must continue
            self._work.counts.add("reload_failures")
            self._say(f"Nothing was loaded, and the previous policy stays: {one_line(error)}.")
        else:
            self._work = replace(self._work, served=served, guard=guard)
            self._generation += 1
            self._work.counts.add("reloads")
            digest = served.about.get("policy_sha256", "")[:12]
            mean = "the mean of the late policies up to " if served.about.get(MEAN_OF_LATE) else ""
            self._say(f"Loaded {mean}iteration {served.about['iteration']} (policy {digest}).")
        notify("READY=1")


def rows_of(workers: int) -> int:
    """Return the number of rows of counts of a service: its master, its workers, and their replacements."""
    return 1 + 3 * workers


def _is_closed(descriptor: int) -> bool:
    """Return whether the worker has closed its end of a pipe, or has ended."""
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, 1) == b""
    except BlockingIOError:
        return False
