"""Runs the parts of a rollout: what is sent of some instances, how a host plays them, and how the result is stored.

The same class is used on both sides, around a collector of the learner's or of the host's. The learner keeps all
unfinished episodes: a task carries those of its instances, so any host can play it, and play it again.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from longstride.policies.spec import PolicySpec
from longstride.rollout.collect_steps import build_collect_steps
from longstride.rollout.collector import Collector, InstanceTrajectory, RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.rollout.fixed_length_collector import FixedLengthCollector
from longstride.rollout.gymnasium_collector import GymnasiumCollector
from longstride.rollout.hosts.wire import Played, Saved, Task, largest_task, pack, steps_of, unpack, write
from longstride.rollout.trajectory import Allocate, Trajectory, allocate_plain
from longstride.simulators.simulator import Simulator

_NO_RECORD = np.zeros(0, np.uint8)


class TaskRunner(Protocol):
    """Runs the parts of rollouts of one kind."""

    @property
    def collector(self) -> Collector:
        """The collector that holds the memory of the trajectories, and unfinished episodes."""

    def task(self, unit: range, first_episode: int, steps: int) -> Task:
        """Return the task of playing some instances."""

    def play(self, index: int, task: Task, actor_params: np.ndarray) -> list[Played]:
        """Play a task in one of the places of the collector's memory; places may be used at the same time."""

    def store(self, task: Task, played: Sequence[Played]) -> list[InstanceTrajectory]:
        """Store what a host played of a task's instances."""

    def finish(self, count: int) -> None:
        """Take some instances, all of which are stored, to where they begin the next rollout."""

    def copy_state_from(self, other: Any) -> None:
        """Continue the unfinished episodes of another runner of the same kind."""


def learner_runner(simulator: Simulator, spec: PolicySpec, plan: RolloutPlan, new: Allocate) -> TaskRunner:
    """Return the runner with memory for all instances; their loops are never called, so they are never compiled."""
    if not simulator.compiled:
        return EnvironmentRunner(GymnasiumCollector(simulator, spec, plan, new))
    if plan.steps:
        return FixedLengthRunner(FixedLengthCollector(simulator, spec, plan, new))
    return EpisodeRunner([EpisodeCollector(simulator, spec, plan._replace(side_by_side=1), new)])


def host_runner(simulator: Simulator, spec: PolicySpec, plan: RolloutPlan, places: int) -> TaskRunner:
    """Return the runner with memory for as many tasks at once as there are places."""
    if not simulator.compiled:
        return EnvironmentRunner(GymnasiumCollector(simulator, spec, plan))
    if plan.steps:
        return FixedLengthRunner(FixedLengthCollector(simulator, spec, plan._replace(instances=places)))
    loop = build_collect_steps(simulator, spec)
    plan = plan._replace(instances=largest_task(plan), threads=1)
    return EpisodeRunner(
        [EpisodeCollector(simulator, spec, plan, allocate_plain, lambda *_: loop) for _ in range(places)]
    )


class FixedLengthRunner:
    """Runs the parts of rollouts in which each instance plays a number of steps."""

    def __init__(self, collector: FixedLengthCollector) -> None:
        self._collector = collector

    @property
    def collector(self) -> FixedLengthCollector:
        """The collector."""
        return self._collector

    def task(self, unit: range, first_episode: int, steps: int) -> Task:
        """Return the task of continuing the episodes of some instances."""
        instances = [self.collector.instance(index, index) for index in unit]
        saved = tuple(Saved(instance.record(), instance.metadata()) for instance in instances)
        return Task(unit.start, len(unit), first_episode, steps, saved)

    def play(self, index: int, task: Task, actor_params: np.ndarray) -> list[Played]:
        """Continue the episodes of a task's instances, one instance after another."""
        played = []
        for k, saved in enumerate(task.saved):
            instance = self.collector.instance(index, task.first + k)
            instance.load(saved.record, saved.metadata)
            collected = self.collector.play(actor_params, task.steps, instance)
            columns = pack(collected.trajectory, self.collector.spec)
            played.append(Played(columns, tuple(collected.finished), instance.record(), instance.metadata()))
        return played

    def store(self, task: Task, played: Sequence[Played]) -> list[InstanceTrajectory]:
        """Store what a host played of some instances."""
        return [self._store(task, task.first + k, each) for k, each in enumerate(played)]

    def _store(self, task: Task, index: int, played: Played) -> InstanceTrajectory:
        instance = self.collector.instance(index, index)
        instance.resize(task.steps)
        _extend_capacity(instance.trajectory, played, instance.set_capacity)
        write(played.columns, instance.trajectory)
        instance.load(played.record, played.metadata)
        return InstanceTrajectory(instance.trajectory.first(task.steps), list(played.finished))

    def finish(self, count: int) -> None:
        """Let instances give up old episodes, and groups gather."""
        self.collector.end_rollout(count)

    def copy_state_from(self, other: "FixedLengthRunner") -> None:
        """Continue the unfinished episodes of another runner."""
        self.collector.load_state_dict(other.collector.state_dict())


class EnvironmentRunner:
    """Runs the parts of rollouts in which environments of Gymnasium play a number of steps.

    A host keeps the environments that it has stepped. One that lies elsewhere is brought to its place by the draws of
    the episode so far, which takes their steps again.
    """

    def __init__(self, collector: GymnasiumCollector) -> None:
        self._collector = collector

    @property
    def collector(self) -> GymnasiumCollector:
        """The collector."""
        return self._collector

    def task(self, unit: range, first_episode: int, steps: int) -> Task:
        """Return the task of continuing the episodes of some environments."""
        saved = tuple(Saved(_NO_RECORD, self._collector.instance(index).state_dict()) for index in unit)
        return Task(unit.start, len(unit), first_episode, steps, saved)

    def play(self, index: int, task: Task, actor_params: np.ndarray) -> list[Played]:
        """Continue the episodes of a task's environments; there is one place."""
        played = []
        for k, saved in enumerate(task.saved):
            instance = self._collector.instance(task.first + k)
            instance.load_state_dict(saved.metadata, replay=True)
            collected = self._collector.play(actor_params, task.steps, instance)
            columns = pack(collected.trajectory, self._collector.spec)
            played.append(Played(columns, tuple(collected.finished), _NO_RECORD, instance.state_dict()))
        return played

    def store(self, task: Task, played: Sequence[Played]) -> list[InstanceTrajectory]:
        """Store what a host played of some environments."""
        collected = []
        for k, each in enumerate(played):
            instance = self._collector.instance(task.first + k)
            instance.resize(task.steps)
            write(each.columns, instance.trajectory)
            instance.load_state_dict(each.metadata, replay=False)
            collected.append(InstanceTrajectory(instance.trajectory.first(task.steps), list(each.finished)))
        return collected

    def finish(self, count: int) -> None:
        """Do nothing: environments are never restarted in the middle of an episode."""

    def copy_state_from(self, other: "EnvironmentRunner") -> None:
        """Continue the unfinished episodes of another runner, which a checkpoint does not have."""
        for index in range(self.collector.plan.instances):
            self.collector.instance(index).load_state_dict(other.collector.instance(index).state_dict(), replay=False)


class EpisodeRunner:
    """Runs the parts of rollouts in which each instance plays a whole episode, with a collector for each place."""

    def __init__(self, collectors: Sequence[EpisodeCollector]) -> None:
        self._collectors = collectors

    @property
    def collector(self) -> EpisodeCollector:
        """The first collector."""
        return self._collectors[0]

    def task(self, unit: range, first_episode: int, steps: int) -> Task:
        """Return the task of playing the episodes of some instances."""
        return Task(unit.start, len(unit), first_episode, 0)

    def play(self, index: int, task: Task, actor_params: np.ndarray) -> list[Played]:
        """Play the episodes of a task."""
        collected, _ = self._collectors[index].collect(actor_params, task.first_episode + task.first, task.instances)
        spec = self.collector.spec
        return [Played(pack(each.trajectory, spec), tuple(each.finished), _NO_RECORD, {}) for each in collected]

    def store(self, task: Task, played: Sequence[Played]) -> list[InstanceTrajectory]:
        """Store the episodes that a host played."""
        return [self._store(task.first + k, each) for k, each in enumerate(played)]

    def _store(self, index: int, played: Played) -> InstanceTrajectory:
        collector, steps = self.collector, steps_of(played.columns)
        _extend_capacity(collector.rows_of(index), played, lambda features: collector.set_capacity(index, features))
        rows = collector.rows_of(index)
        write(played.columns, rows)
        return InstanceTrajectory(rows.first(steps), list(played.finished))

    def finish(self, count: int) -> None:
        """Do nothing: no episode continues."""

    def copy_state_from(self, other: "EpisodeRunner") -> None:
        """Do nothing: no episode continues."""


def _extend_capacity(rows: Trajectory, played: Played, give: Any) -> None:
    """Give an instance memory for as many feasible actions as came, where they were more than expected."""
    if rows.has_lists and "features" in played.columns:
        came = unpack(played.columns, "features")
        if len(came) > len(rows.features):
            give(np.empty_like(came))
