"""Hands tasks to hosts and takes their answers as they come.

A host has a few tasks more than it plays at once, so that it never waits, and no more: answers that nobody has taken
yet are bounded. Tasks of a lost host go to others. A task that a host holds for too long is also given to another one
that is idle, and the first answer counts; both are the same.
"""

import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

from longstride.errors import UserError
from longstride.rollout.hosts.player import Answer, Fault, error_of
from longstride.rollout.hosts.pool import Host, LostError, Pool, Receipt
from longstride.rollout.hosts.wire import Played, Task, bytes_of, task_bytes

T = TypeVar("T")
Store = Callable[[Task, Sequence[Played]], T]

_POLL = 0.05
"""Seconds between two looks at tasks that may be late."""

_LOOK = 1.0
"""Seconds between two looks at which hosts there are."""

_LATE = 2.0
"""Times the longest task so far, after which a task is given to another host, too."""

_SOON = 0.2
"""Seconds before which no task is late: what a lost message takes."""

_PATIENCE = 60.0
"""Seconds to wait for a host when none is left."""


@dataclass
class Traffic:
    """What a rollout took."""

    hosts: int = 0  # hosts that answered
    lost: list[str] = field(default_factory=list)  # hosts that were lost
    played_again: int = 0  # tasks that were given to a second host, because the first was lost or late
    sent_bytes: int = 0  # episodes that were sent to hosts
    received_bytes: int = 0  # trajectories that came back
    host_seconds: float = 0.0  # processor time of the hosts' threads
    store_seconds: float = 0.0  # processor time of this machine's threads for storing
    most_waiting: int = 0  # most tasks that were with hosts at once


@dataclass
class _Running:
    """A task with a host."""

    number: int | None  # place of the task in the rollout; None of an earlier rollout, whose answer nobody needs
    host: Host
    begin: float  # seconds of the clock


class Dispatcher:
    """Plays rollouts on the hosts of a pool; so many threads of this machine store the answers."""

    def __init__(self, pool: Pool, threads: int, patience: float = _PATIENCE) -> None:
        self._pool, self._patience, self.threads = pool, patience, threads
        self._storing = ThreadPoolExecutor(threads, thread_name_prefix="store")
        self._most_storing = 2 * threads
        self._running: dict[Receipt, _Running] = {}
        self._homes: dict[int, Hashable] = {}  # first instance of a task -> who played it last
        self._stopped, self._longest = False, 0.0  # seconds of the longest task so far

    def play(self, tasks: Sequence[Task], parameters: Any, store: Store[T]) -> tuple[list[T], Traffic]:
        """Play some tasks; return what ``store`` returned for each, in their order.

        Raises:
            UserError: a simulator failed (of several tasks the first), or all hosts are lost.
        """
        rollout = _Rollout(tasks, parameters)
        for running in self._running.values():
            running.number = None
        hosts, looked = self._pool.hosts(), time.monotonic()
        while not rollout.is_over():
            if self._stopped:
                raise UserError("The collection was stopped.")
            if time.monotonic() - looked > _LOOK:
                hosts, looked = self._pool.hosts(), time.monotonic()
            hosts = hosts or self._wait_for_hosts(rollout)
            self._hand_out(hosts, rollout)
            if not self._running:  # all answers are there, and some are not stored yet
                rollout.wait_for_a_store(_POLL)
                continue
            for receipt in self._pool.wait(list(self._running), _POLL):
                if receipt not in self._running:  # its host was lost meanwhile
                    continue
                lost = self._take(receipt, rollout, store)
                hosts = [host for host in hosts if host is not lost]
        results = rollout.results()
        if rollout.fault is not None:
            raise error_of(rollout.fault)
        return results, rollout.traffic

    def stop(self) -> None:
        """Let a rollout that is played end with an error, and hand out nothing more."""
        self._stopped = True
        self._storing.shutdown(wait=False, cancel_futures=True)

    def _hand_out(self, hosts: Sequence[Host], rollout: "_Rollout") -> None:
        """Give waiting tasks to the hosts with the least to do; where none waits, those that are late."""
        loads = {host.key: 0 for host in hosts}
        for running in self._running.values():
            if running.host.key in loads:
                loads[running.host.key] += 1
        while rollout.storing() < self._most_storing:
            host = min(hosts, key=lambda each: loads[each.key] / each.threads)
            if rollout.waiting and loads[host.key] < most_tasks(host):
                number = self._next(host, rollout)
            elif not rollout.waiting and loads[host.key] < host.threads:
                late = self._late(host, rollout)
                if late is None:
                    break
                number = late
                rollout.traffic.played_again += 1
            else:
                break
            task = rollout.tasks[number]
            receipt = self._pool.submit(host, task, rollout.parameters)
            self._running[receipt] = _Running(number, host, time.monotonic())
            loads[host.key] += 1
            rollout.traffic.sent_bytes += task_bytes(task)
        rollout.traffic.most_waiting = max(rollout.traffic.most_waiting, len(self._running))

    def _next(self, host: Host, rollout: "_Rollout") -> int:
        """Take the task that a host gets next: one whose instances it has played before, or else the first."""
        of_host = (n for n in rollout.waiting if self._homes.get(rollout.tasks[n].first) == host.key)
        number = next(of_host, rollout.waiting[0])
        rollout.waiting.remove(number)
        return number

    def _late(self, idle: Host, rollout: "_Rollout") -> int | None:
        """Return a task without an answer that another host alone has held for too long."""
        limit = time.monotonic() - max(_LATE * self._longest, _SOON)
        held: dict[int, list[_Running]] = {}
        for running in self._running.values():
            if running.number is not None and rollout.needs(running.number):
                held.setdefault(running.number, []).append(running)
        late = [
            (copies[0].begin, number)
            for number, copies in held.items()
            if len(copies) == 1 and copies[0].host.key != idle.key and copies[0].begin < limit
        ]
        return min(late)[1] if late else None

    def _take(self, receipt: Receipt, rollout: "_Rollout", store: Store[Any]) -> Host | None:
        """Take an answer; return its host if that was lost."""
        running = self._running.pop(receipt)
        try:
            answer = self._pool.fetch(receipt)
        except LostError:
            self._give_up(running, rollout)
            return running.host
        if running.number is not None and rollout.needs(running.number):
            self._longest = max(self._longest, time.monotonic() - running.begin)
            self._homes[rollout.tasks[running.number].first] = running.host.key
            rollout.take(running.number, running.host, answer, store, self._storing)
        return None

    def _give_up(self, lost: _Running, rollout: "_Rollout") -> None:
        """Let the tasks of a lost host wait again."""
        gone = [lost, *(each for each in self._running.values() if each.host.key == lost.host.key)]
        self._running = {r: each for r, each in self._running.items() if each.host.key != lost.host.key}
        elsewhere = {each.number for each in self._running.values()}
        numbers = sorted({n for each in gone if (n := each.number) is not None and rollout.needs(n)} - elsewhere)
        rollout.waiting.extendleft(reversed(numbers))
        rollout.traffic.played_again += len(numbers)
        rollout.traffic.lost.append(lost.host.name)
        self._pool.give_up(lost.host)

    def _wait_for_hosts(self, rollout: "_Rollout") -> list[Host]:
        """Wait until there is a host again."""
        begin = time.monotonic()
        while time.monotonic() - begin < self._patience and not self._stopped:
            if hosts := self._pool.hosts():
                return hosts
            time.sleep(min(1.0, self._patience / 10))
        lost = ", ".join(rollout.traffic.lost) or "there were none"
        raise UserError(
            f"No host is left to play on ({lost}); finished iterations are saved: start the hosts again, then resume."
        )


def most_tasks(host: Host) -> int:
    """Return the most tasks that a host has at once: those that it plays, and some that wait there."""
    return host.threads + max(host.threads // 2, 1)


class _Rollout:
    """Tasks of a rollout, and what became of them."""

    def __init__(self, tasks: Sequence[Task], parameters: Any) -> None:
        self.tasks, self.parameters = tasks, parameters
        self.waiting = deque(range(len(tasks)))
        self.traffic = Traffic()
        self.fault: Fault | None = None  # of the first task that failed
        self._stored: dict[int, Future[Any]] = {}
        self._answered: set[Any] = set()

    def needs(self, number: int) -> bool:
        """Return whether an answer to a task is still of use: there is none, and no earlier task failed."""
        return number not in self._stored and (self.fault is None or self.tasks[number].first < self.fault.instance)

    def is_over(self) -> bool:
        """Return whether every task of use has its answer."""
        return not any(self.needs(number) for number in range(len(self.tasks)))

    def storing(self) -> int:
        """Return the number of answers that are not stored yet."""
        return sum(not future.done() for future in self._stored.values())

    def wait_for_a_store(self, seconds: float) -> None:
        """Wait until an answer is stored."""
        wait([future for future in self._stored.values() if not future.done()], seconds, FIRST_COMPLETED)

    def take(self, number: int, host: Host, answer: Answer, store: Store[Any], threads: ThreadPoolExecutor) -> None:
        """Take the answer to a task: let a thread store it, or note that it failed."""
        self.traffic.host_seconds += answer.seconds
        if answer.fault is not None:
            self.fault = answer.fault
            self.waiting = deque(each for each in self.waiting if self.needs(each))
            return
        self._answered.add(host.key)
        self.traffic.received_bytes += sum(map(bytes_of, answer.played))
        self._stored[number] = threads.submit(self._timed, store, self.tasks[number], answer.played)

    def _timed(self, store: Store[T], task: Task, played: Sequence[Played]) -> tuple[T, float]:
        begin = time.thread_time()
        return store(task, played), time.thread_time() - begin

    def results(self) -> list[Any]:
        """Wait for what is stored of each task; return it in their order."""
        stored = [future.result() for _, future in sorted(self._stored.items())]
        self.traffic.store_seconds = sum(seconds for _, seconds in stored)
        self.traffic.hosts = len(self._answered)
        return [result for result, _ in stored]
