"""The collector whose instances play on several hosts, or ahead of the update; results are those of local play."""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from longstride.errors import PolicyNotFiniteError
from longstride.rollout.collector import Collector, CollectorState, InstanceTrajectory
from longstride.rollout.fault_locator import ReplayedInstance
from longstride.rollout.hosts.dispatch import Dispatcher, Traffic
from longstride.rollout.hosts.pool import Job, Pool
from longstride.rollout.hosts.task_runner import TaskRunner, learner_runner
from longstride.rollout.hosts.wire import largest_task
from longstride.rollout.trajectory import Allocate, allocate_plain

PLAYING = "rollout.actor_params"
"""Name in a checkpoint of the parameters with which the next rollout is played already."""

_TASKS_OF_A_THREAD = 8
"""Tasks of a rollout for each thread of the hosts, at most: more share the work no better."""


class Ahead(NamedTuple):
    """A rollout that is played already."""

    first_episode: int
    instances: int
    steps: int  # steps of each instance
    actor_params: np.ndarray  # float32[*]
    result: "Future[_Rollout]"


class _Rollout(NamedTuple):
    """A rollout that was played."""

    runner: TaskRunner  # whose memory holds it
    collected: list[InstanceTrajectory]
    traffic: Traffic
    seconds: float


class HostsCollector(Collector):
    """Collects on the players of a pool.

    The learner holds the memory of all trajectories and all unfinished episodes, as a local collector does. With
    ``lag`` 1 the next rollout is played while this one is learned from, with the parameters that this one found; its
    memory is a second one.
    """

    def __init__(self, job: Job, pool: Pool, lag: int = 0, new: Allocate = allocate_plain) -> None:
        self.simulator, self.spec, self.plan = job.simulator, job.spec, job.plan
        self._job, self._pool, self._lag, self.steps = job, pool, lag, job.plan.steps
        self._runners = [learner_runner(job.simulator, job.spec, job.plan, new) for _ in range(1 + lag)]
        self._dispatcher = Dispatcher(pool, max(job.plan.threads, 1))
        self._background = ThreadPoolExecutor(1, thread_name_prefix="rollout") if lag else None
        self._ahead: Ahead | None = None
        self._restored: np.ndarray | None = None
        self._diverged = False
        self.lines: list[str] = []  # sentences for the user that nobody has taken yet
        self._figures: dict[str, Any] = {}

    def collect(
        self, actor_params: np.ndarray, first_episode: int, count: int
    ) -> tuple[Sequence[InstanceTrajectory], float]:
        """Collect with some instances; with a lag, take the rollout that is played already and begin the next one."""
        begin, ahead = time.perf_counter(), self._taken(first_episode, count)
        restored, self._restored = self._restored, None
        try:
            if ahead is not None:
                rollout = ahead.result.result()
            else:
                rollout = self._play(actor_params if restored is None else restored, first_episode, count)
        except PolicyNotFiniteError:
            self._diverged = True
            raise
        self._note(rollout, time.perf_counter() - begin, staleness=int(ahead is not None or restored is not None))
        if self._lag:
            self._runners.sort(key=lambda runner: runner is not rollout.runner)
            if count == self.plan.instances:
                self._begin_ahead(actor_params.copy(), first_episode + count, count)
        return rollout.collected, rollout.seconds

    def _taken(self, first_episode: int, count: int) -> Ahead | None:
        """Return the rollout that is played already, if it is the one that is asked for."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and (ahead.first_episode, ahead.instances, ahead.steps) != (
            first_episode,
            count,
            self.steps,
        ):
            ahead.result.exception()  # its memory is used until then
            return None
        return ahead

    def _begin_ahead(self, actor_params: np.ndarray, first_episode: int, count: int) -> None:
        assert self._background is not None
        runner = self._runners[1]
        runner.copy_state_from(self._runners[0])
        result = self._background.submit(self._play, actor_params, first_episode, count, runner)
        self._ahead = Ahead(first_episode, count, self.steps, actor_params, result)

    def _play(
        self, actor_params: np.ndarray, first_episode: int, count: int, runner: TaskRunner | None = None
    ) -> _Rollout:
        """Play a rollout on the hosts."""
        begin, runner = time.perf_counter(), runner or self._runners[0]
        units = self._units(count)
        tasks = [runner.task(unit, first_episode, self.steps) for unit in units]
        stored, traffic = self._dispatcher.play(tasks, self._pool.put(actor_params), runner.store)
        runner.finish(count)
        collected, seconds = [each for task in stored for each in task], time.perf_counter() - begin
        return _Rollout(runner, collected, traffic, seconds)

    def _units(self, count: int) -> list[range]:
        """Return which instances are played by one task."""
        threads = max(self.playing_threads, 1)
        wanted = max(-(-count // (_TASKS_OF_A_THREAD * threads)), min(self.plan.side_by_side, -(-count // threads)))
        size = min(wanted, largest_task(self.plan))
        return [range(begin, min(begin + size, count)) for begin in range(0, count, size)]

    @property
    def playing_threads(self) -> int:
        """Threads of all hosts that are there."""
        return sum(host.threads for host in self._pool.hosts())

    def _note(self, rollout: _Rollout, waited: float, staleness: int) -> None:
        """Keep the figures of a rollout, and sentences about it."""
        traffic = rollout.traffic
        self._figures = {
            "count": traffic.hosts,
            "lost": len(traffic.lost),
            "tasks_played_again": traffic.played_again,
            "most_waiting": traffic.most_waiting,
            "received_bytes": traffic.received_bytes,
            "sent_bytes": traffic.sent_bytes,
            "host_seconds": traffic.host_seconds,
            "store_seconds": traffic.store_seconds,
            "waited_seconds": waited,
            "staleness": staleness,
        }
        self.lines += [
            f"Host {name} was lost; what it had to play was played elsewhere, with the same result."
            for name in traffic.lost
        ]
        self.lines += self._pool.take_lines()

    def figures(self) -> dict[str, Any]:
        """Return what a record says of the hosts in the last rollout."""
        return {"hosts": self._figures}

    def take_lines(self) -> list[str]:
        """Return sentences for the user since the last call."""
        lines, self.lines = self.lines, []
        return lines

    @property
    def terminated(self) -> bool:
        """Whether any episode so far was terminated, and not cut."""
        return self._runners[0].collector.terminated

    def restart_old_episodes(self, terminated: bool, parts: Sequence[Any] = ()) -> None:
        """Let instances give up old episodes."""
        self._runners[0].collector.restart_old_episodes(terminated)

    def resize(self, steps: int) -> None:
        """Collect so many steps from each instance from now on, at most those of the plan."""
        if self.plan.steps:
            self.steps = steps

    def compile(self, actor_params: np.ndarray) -> float:
        """Start the players, which compile the loop; return 0, as this process compiles nothing."""
        self.lines += self._pool.start(self._job, actor_params)
        return 0.0

    def state_dict(self) -> CollectorState:
        """Return the state before the rollout that is played already, and the parameters with which it is played."""
        records, metadata = self._runners[0].collector.state_dict()
        playing = self._ahead.actor_params if self._ahead is not None else self._restored
        return CollectorState(records if playing is None else {**records, PLAYING: playing}, metadata)

    def load_state_dict(self, state: CollectorState) -> None:
        """Continue episodes; a rollout that was played already is played again with the same parameters."""
        self._drop_ahead()
        records = {name: record for name, record in state.records.items() if name != PLAYING}
        self._runners[0].collector.load_state_dict(CollectorState(records, state.metadata))
        self._restored = None if self._diverged or not self._lag else state.records.get(PLAYING)
        self._diverged = False

    def _drop_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.result.exception()

    def replayed(self, before: CollectorState, first_episode: int, count: int) -> list[ReplayedInstance]:
        """Return the instances of a collection as they were before it."""
        return self._runners[0].collector.replayed(before, first_episode, count)

    def close(self) -> None:
        """End what is played, and let the players go."""
        self._dispatcher.stop()
        if self._background is not None:
            self._background.shutdown(wait=True, cancel_futures=True)
        self._pool.close()
