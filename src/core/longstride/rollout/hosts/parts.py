"""Parts of a rollout: what is sent of some instances, how a host plays them, and how the result is stored.

The same class is used on both sides, around a collector of the learner's or of the host's. The learner keeps all
unfinished episodes: a task carries those of its instances, so any host can play it, and play it again.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from longstride.errors import UserError
from longstride.policies.spec import PolicySpec
from longstride.rollout.collect_steps import build_collect_steps
from longstride.rollout.collector import Collector, InstanceTrajectory, RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.rollout.fixed_length_collector import FixedLengthCollector, Instance
from longstride.rollout.gymnasium_collector import GymnasiumCollector
from longstride.rollout.hosts.replay_steps import build_replay_steps
from longstride.rollout.hosts.wire import Form, Played, Saved, Task, largest_task, pack, steps_of, unpack, write
from longstride.rollout.trajectory import Allocate, Trajectory, allocate_plain
from longstride.simulators.simulator import Simulator

_NO_PARAMETERS, _NO_RECORD = np.zeros(0, np.float32), np.zeros(0, np.uint8)


class Parts(Protocol):
    """Parts of rollouts of one kind."""

    @property
    def collector(self) -> Collector:
        """The collector that holds the memory of the trajectories, and unfinished episodes."""

    def task(self, unit: range, first_episode: int, steps: int, form: Form) -> Task:
        """Return the task of playing some instances."""

    def play(self, place: int, task: Task, actor_params: np.ndarray) -> list[Played]:
        """Play a task in one of the places of the collector's memory; places may be used at the same time."""

    def store(self, task: Task, played: Sequence[Played]) -> list[InstanceTrajectory]:
        """Store what a host played, and rebuild what it did not send.

        Raises:
            UserError: what was rebuilt is not what the host played.
        """

    def finish(self, count: int) -> None:
        """Take some instances, all of which are stored, to where they begin the next rollout."""

    def follow(self, others: Any) -> None:
        """Continue the unfinished episodes of other parts of the same kind."""


def parts_of_learner(simulator: Simulator, spec: PolicySpec, plan: RolloutPlan, new: Allocate, loop: Any) -> Parts:
    """Return the parts with memory for all instances; the loop is that of :func:`rebuilding_loop`."""
    if not simulator.compiled:
        return EnvironmentParts(GymnasiumCollector(simulator, spec, plan, new))
    if plan.steps:
        return FixedLengthParts(FixedLengthCollector(simulator, spec, plan, new, lambda *_: loop))
    plan = plan._replace(side_by_side=1)
    return EpisodeParts([EpisodeCollector(simulator, spec, plan, new, lambda *_: loop)])


def parts_of_host(simulator: Simulator, spec: PolicySpec, plan: RolloutPlan, places: int) -> Parts:
    """Return the parts with memory for as many tasks at once as there are places."""
    if not simulator.compiled:
        return EnvironmentParts(GymnasiumCollector(simulator, spec, plan))
    if plan.steps:
        return FixedLengthParts(FixedLengthCollector(simulator, spec, plan._replace(instances=places)))
    loop = build_collect_steps(simulator, spec)
    plan = plan._replace(instances=largest_task(plan), threads=1)
    return EpisodeParts(
        [EpisodeCollector(simulator, spec, plan, allocate_plain, lambda *_: loop) for _ in range(places)]
    )


def rebuilding_loop(simulator: Simulator, spec: PolicySpec) -> Any:
    """Return the learner's loop; lists of actions are never rebuilt, so it is never called, or compiled, for them.

    It is None for environments of Gymnasium.
    """
    if not simulator.compiled:
        return None
    return (build_collect_steps if spec.scores_actions else build_replay_steps)(simulator, spec)


class FixedLengthParts:
    """Parts of rollouts in which each instance plays a number of steps."""

    def __init__(self, collector: FixedLengthCollector) -> None:
        self._collector = collector

    @property
    def collector(self) -> FixedLengthCollector:
        """The collector."""
        return self._collector

    def task(self, unit: range, first_episode: int, steps: int, form: Form) -> Task:
        """Return the task of continuing the episodes of some instances."""
        instances = [self.collector.instance(index, index) for index in unit]
        saved = tuple(Saved(instance.record(), instance.metadata()) for instance in instances)
        return Task(unit.start, len(unit), first_episode, steps, form, saved)

    def play(self, place: int, task: Task, actor_params: np.ndarray) -> list[Played]:
        """Continue the episodes of a task's instances, one instance after another."""
        played = []
        for k, saved in enumerate(task.saved):
            instance = self.collector.instance(place, task.first + k)
            instance.load(saved.record, saved.metadata)
            collected = self.collector.play(actor_params, task.steps, instance)
            played.append(self._played(instance, collected, task.form))
        return played

    def _played(self, instance: Instance, collected: InstanceTrajectory, form: Form) -> Played:
        record, all_rows = instance.record(), form == "rows"
        return Played(
            columns=pack(collected.trajectory, form, self.collector.spec),
            finished=tuple(collected.finished) if all_rows else (),
            record=record if all_rows else record[instance.states.nbytes :],
            digest=_digest(instance.states),
            metadata=instance.metadata(),
        )

    def store(self, task: Task, played: Sequence[Played]) -> list[InstanceTrajectory]:
        """Store what a host played of some instances."""
        return [self._store(task, task.first + k, each) for k, each in enumerate(played)]

    def _store(self, task: Task, index: int, played: Played) -> InstanceTrajectory:
        collector, instance = self.collector, self.collector.instance(index, index)
        instance.resize(task.steps)
        _make_room(instance.trajectory, played, instance.give_room)
        write(played.columns, instance.trajectory)
        if task.form == "rows":
            instance.load(played.record, played.metadata)
            return InstanceTrajectory(instance.trajectory.first(task.steps), list(played.finished))
        collected = collector.play(_NO_PARAMETERS, task.steps, instance)
        rebuilt = instance.metadata() | {"policy_rng": played.metadata["policy_rng"]}
        _require_same(played.digest == _digest(instance.states) and rebuilt == played.metadata, index)
        record = np.concatenate([instance.record()[: instance.states.nbytes], played.record])
        instance.load(record, played.metadata)
        return collected

    def finish(self, count: int) -> None:
        """Let instances give up old episodes, and groups gather."""
        self.collector.end_rollout(count)

    def follow(self, others: "FixedLengthParts") -> None:
        """Continue the unfinished episodes of other parts."""
        self.collector.load_state_dict(others.collector.state_dict())


class EnvironmentParts:
    """Parts of rollouts in which environments of Gymnasium play a number of steps.

    A host keeps the environments that it has stepped. One that lies elsewhere is brought to its place by the draws of
    the episode so far, which takes their steps again.
    """

    def __init__(self, collector: GymnasiumCollector) -> None:
        self._collector = collector

    @property
    def collector(self) -> GymnasiumCollector:
        """The collector."""
        return self._collector

    def task(self, unit: range, first_episode: int, steps: int, form: Form) -> Task:
        """Return the task of continuing the episodes of some environments."""
        saved = tuple(Saved(_NO_RECORD, self._collector.instance(index).state_dict()) for index in unit)
        return Task(unit.start, len(unit), first_episode, steps, "rows", saved)

    def play(self, place: int, task: Task, actor_params: np.ndarray) -> list[Played]:
        """Continue the episodes of a task's environments; there is one place."""
        played = []
        for k, saved in enumerate(task.saved):
            instance = self._collector.instance(task.first + k)
            instance.load_state_dict(saved.metadata, replay=True)
            collected = self._collector.play(actor_params, task.steps, instance)
            columns = pack(collected.trajectory, "rows", self._collector.spec)
            played.append(Played(columns, tuple(collected.finished), _NO_RECORD, b"", instance.state_dict()))
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

    def follow(self, others: "EnvironmentParts") -> None:
        """Continue the unfinished episodes of other parts, which a checkpoint does not have."""
        for index in range(self.collector.plan.instances):
            self.collector.instance(index).load_state_dict(others.collector.instance(index).state_dict(), replay=False)


class EpisodeParts:
    """Parts of rollouts in which each instance plays a whole episode, with a collector for each place."""

    def __init__(self, collectors: Sequence[EpisodeCollector]) -> None:
        self._collectors = collectors

    @property
    def collector(self) -> EpisodeCollector:
        """The first collector."""
        return self._collectors[0]

    def task(self, unit: range, first_episode: int, steps: int, form: Form) -> Task:
        """Return the task of playing the episodes of some instances."""
        return Task(unit.start, len(unit), first_episode, 0, form)

    def play(self, place: int, task: Task, actor_params: np.ndarray) -> list[Played]:
        """Play the episodes of a task."""
        collected, _ = self._collectors[place].collect(actor_params, task.first_episode + task.first, task.instances)
        nothing, all_rows = np.zeros(0, np.uint8), task.form == "rows"
        return [
            Played(
                columns=pack(each.trajectory, task.form, self.collector.spec),
                finished=tuple(each.finished) if all_rows else (),
                record=nothing,
                digest=_digest(each.trajectory.rewards),
                metadata={},
            )
            for each in collected
        ]

    def store(self, task: Task, played: Sequence[Played]) -> list[InstanceTrajectory]:
        """Store the episodes that a host played."""
        return [self._store(task, task.first + k, each) for k, each in enumerate(played)]

    def _store(self, task: Task, index: int, played: Played) -> InstanceTrajectory:
        collector, steps = self.collector, steps_of(played.columns)
        _make_room(collector.rows_of(index), played, lambda features: collector.give_room(index, features))
        rows = collector.rows_of(index)
        write(played.columns, rows)
        if task.form == "rows":
            return InstanceTrajectory(rows.first(steps), list(played.finished))
        [rebuilt] = collector.play(_NO_PARAMETERS, task.first_episode, range(index, index + 1))
        same = rebuilt.trajectory.steps == steps and _digest(rebuilt.trajectory.rewards) == played.digest
        _require_same(same, index)
        return rebuilt

    def finish(self, count: int) -> None:
        """Do nothing: no episode continues."""

    def follow(self, others: "EpisodeParts") -> None:
        """Do nothing: no episode continues."""


def _make_room(rows: Trajectory, played: Played, give: Any) -> None:
    """Give an instance memory for as many feasible actions as came, where they were more than expected."""
    if rows.has_lists and "features" in played.columns:
        came = unpack(played.columns, "features")
        if len(came) > len(rows.features):
            give(np.empty_like(came))


def _digest(array: np.ndarray) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(array).view(np.uint8).data, digest_size=16).digest()


def _require_same(same: bool, index: int) -> None:
    if not same:
        raise UserError(
            f"What a host played of instance {index} is not what its actions give on this machine: their processors or "
            "libraries compute differently; set ROLLOUT_WIRE to 'rows', or use hosts of one kind."
        )
