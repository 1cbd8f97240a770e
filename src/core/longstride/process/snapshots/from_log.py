"""Reads the state of a process from a log of its open cases.

A log contains completed tasks and tasks in work, but seldom waiting ones. So each case is followed through the
scenario's flow to the task for which it most likely waits.
"""

import math
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from longstride.process.event_logs.open_events import OpenEvents, OpenTask
from longstride.process.kernel.service_times import service_time
from longstride.process.kernel.timers import after_open_time
from longstride.process.scenario.at_once import slots_of
from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.likely_tasks import LikelyTasks, Marking, Markings
from longstride.process.snapshots.names import Names, unknown
from longstride.process.snapshots.schema import OpenCase, ProcessState, RestingTask, TaskInWork, WaitingTask
from longstride.text import counted

_CERTAIN = 0.999
"""Probability from which an inferred task counts as certain."""


class LoggedState(NamedTuple):
    """A state, and sentences about the assumptions made."""

    state: ProcessState
    notes: list[str]


def state_of_log(
    events: OpenEvents, simulator: ProcessSimulator, names: Names, on_shift: list[str] | None = None
) -> LoggedState:
    """Return the state of a log at its present.

    Args:
        events: log at one time.
        simulator: simulator of the process.
        names: names of its scenario.
        on_shift: people on shift; None for the people expected by the scenario and those at work.

    Raises:
        UserError: the scenario has no unit of time, or lacks a person in ``on_shift``.
    """
    builder = _Builder(events, simulator, names)
    builder.take_in_work(events.in_work)
    for task in events.waiting:
        builder.take_waiting(task)
    waiting = {task.case for task in events.waiting}
    for case in dict.fromkeys([*events.done, *(task.case for task in events.in_work)]):
        builder.infer_next(case, waiting)
    return builder.finished(on_shift)


class _Builder:
    """Collects the parts of a state."""

    def __init__(self, events: OpenEvents, simulator: ProcessSimulator, names: Names) -> None:
        self._events, self._names, self._p = events, names, simulator.parameters
        self._hour = simulator.scenario.hour
        self._routing = simulator.routing
        self._likely = LikelyTasks(self._routing)
        self._now = _time_of_week(events.now) * self._hour
        self._waiting: list[WaitingTask] = []
        self._in_work: list[TaskInWork] = []
        self._resting: list[RestingTask] = []
        self._absent: set[str] = set()  # people with tasks that the scenario does not have
        self._busy: dict[str, list[int]] = {}  # case -> activities in work
        self._sure: list[float] = []  # probability of each inferred next task
        self._counts = Counter[str]()
        self._strangers: set[str] = set()
        self._elsewhere: set[str] = set()  # cases in an activity that the scenario does not have

    def take_in_work(self, tasks: list[OpenTask]) -> None:
        """Add tasks in work, the newest ones of each person, as many as one does at once; an automatic task rests."""
        rest = [task for task in tasks if self._is_automatic(task.activity)]
        work = [task for task in tasks if not self._is_automatic(task.activity)]
        for task in rest:
            self._busy.setdefault(task.case, []).append(self._names.activities[task.activity])
            self._resting.append(RestingTask(case=task.case, activity=task.activity))
        newest = _newest_of_each_person(work, self._names.scenario.at_once)
        self._counts["unbegun"] = len(work) - len(newest)
        for task in newest:
            self._take_work(task)

    def _is_automatic(self, name: str) -> bool:
        activity = self._names.activities.get(name)
        return activity is not None and self._names.automatic[activity]

    def _take_work(self, task: OpenTask) -> None:
        """Add a task in work if the scenario has its activity, person and pair."""
        activity, person = self._names.activities.get(task.activity), self._names.people.get(task.person)
        if activity is not None:
            self._busy.setdefault(task.case, []).append(activity)
        else:
            self._elsewhere.add(task.case)
        if activity is None or person is None or (activity, person) not in self._names.pairs:
            self._absent.add(task.person)
            self._strangers.add(f"{task.activity} by {task.person or 'no person'}")
            return
        since = self._now - task.age * self._hour
        self._in_work.append(TaskInWork(case=task.case, activity=task.activity, person=task.person, since=since))

    def take_waiting(self, task: OpenTask) -> None:
        """Add a task marked as waiting; without a time of its own it waits since the case's last event."""
        activity = self._names.activities.get(task.activity)
        if activity is None or self._names.automatic[activity]:
            self._strangers.add(task.activity)
            return
        if math.isnan(task.age) and not self._is_known(task.case):
            self._counts["unknown"] += 1
        age = task.age if not math.isnan(task.age) else self._last_age(task.case)
        since = self._now - age * self._hour
        self._waiting.append(WaitingTask(case=task.case, activity=task.activity, since=since))

    def _is_known(self, case: str) -> bool:
        """Return whether the log has any time of a case."""
        return case in self._events.done or case in self._events.opened

    def infer_next(self, case: str, waiting: set[str]) -> None:
        """Add the likely next tasks of a case, unless the log marks a task of it as waiting."""
        if case in waiting or case in self._elsewhere:
            return
        markings = self._markings(case)
        tasks = _activities_of(markings, self._routing.target)
        if not tasks:
            self._counts["lost"] += 1
            return
        likely = max(tasks, key=lambda activities: tasks[activities])
        alike = {m: p for m, p in markings.items() if _key(m, self._routing.target) == likely}
        marking = max(alike, key=lambda m: alike[m])
        for node in marking.busy:
            self._place_in_work(case, node)
        if not likely:
            self._counts["over"] += case not in self._busy
            return
        self._sure.append(tasks[likely])
        for node in marking.tasks:
            self._rest_or_wait(case, node, alike)

    def finished(self, on_shift: list[str] | None) -> LoggedState:
        """Return the state of all added tasks."""
        names, in_work = self._names, {task.person for task in self._in_work}
        for i, name in enumerate(on_shift or []):
            if name not in names.people:
                unknown(name, names.people, ("--on-shift", i, ""), "person")
        expected = names.duty.on_duty(self._now)
        there = (
            {name for name, r in names.people.items() if expected[r]} | in_work if on_shift is None else set(on_shift)
        ) - slots_of(names.scenario).keys()
        tasks: list[WaitingTask | RestingTask] = [*self._waiting, *self._in_work, *self._resting]
        open_ = {task.case for task in tasks}
        opened = {case: self._now - self._events.opened.get(case, 0.0) * self._hour for case in open_}
        state = ProcessState(
            time=self._now,
            waiting=self._waiting,
            in_work=self._in_work,
            on_shift=sorted(there - (self._absent - in_work)),
            cases=[OpenCase(case=case, since=opened[case]) for case in sorted(open_, key=lambda c: (opened[c], c))],
            resting=self._resting,
        )
        return LoggedState(state, self._notes(on_shift is None))

    def _markings(self, case: str) -> Markings:
        """Return the likely markings of a case, apart from its tasks in work."""
        known = [self._names.activities.get(name) for name, _ in self._events.done.get(case, [])]
        done = tuple(activity for activity in known if activity is not None)
        self._counts["skipped"] += len(done) < len(known)
        busy = self._busy.get(case, [])
        markings = self._likely.in_work(self._likely.after(done), busy)
        if markings or not done:
            return markings
        self._counts["off"] += 1  # the flow lacks this path: use the usual tasks after the last one
        return {Marking((), ()): 1.0} if busy else self._likely.after_one(done[-1])

    def _place_in_work(self, case: str, node: int) -> None:
        """Set the place in the flow of a case's task in work."""
        name = self._names.scenario.activities[self._routing.target[node]]
        tasks: list[TaskInWork | RestingTask] = [*self._in_work, *self._resting]
        for task in tasks:
            if (task.case, task.activity) == (case, name):
                task.place = self._names.places.place_of.get(node, 0)

    def _rest_or_wait(self, case: str, node: int, alike: Markings) -> None:
        """Add a task as resting or waiting: it waits if the median of its likely delays is over."""
        activity = self._routing.target[node]
        name, place = self._names.scenario.activities[activity], self._names.places.place_of.get(node, 0)
        begin = self._now - self._last_age(case) * self._hour
        delays = sorted(
            (self._routing.delay[other], p)
            for marking, p in alike.items()
            for other in marking.tasks
            if self._routing.target[other] == activity
        )
        since = self._after(begin, _median(delays) + self._usual_delay(activity))
        if self._names.automatic[activity] or since > self._now:
            self._resting.append(RestingTask(case=case, activity=name, place=place))
        else:
            self._waiting.append(WaitingTask(case=case, activity=name, place=place, since=since))

    def _after(self, begin: float, delay: float) -> float:
        if delay <= 0.0:
            return begin
        # Open time is known from time 0 on; the week of the present begins there.
        weeks = math.ceil(max(0.0, -begin) / (168.0 * self._hour)) * 168.0 * self._hour
        return float(after_open_time(self._p, begin + weeks, delay)) - weeks

    def _usual_delay(self, activity: int) -> float:
        """Return the median of the delay before an activity, in open time."""
        p = self._p
        if not p.has_delays or p.delay_kind[activity] < 0:
            return 0.0
        shape = p.delay_scale[activity], p.delay_low[activity], p.delay_high[activity], p.delay_table
        return float(service_time(p.delay_kind[activity], *shape, 0.5))

    def _last_age(self, case: str) -> float:
        """Return the age of a case's last completed event, else of its opening; 0 if the log has no time."""
        done = self._events.done.get(case)
        return done[-1][1] if done else self._events.opened.get(case, 0.0)

    def _notes(self, expected: bool) -> list[str]:
        """Return sentences about the assumptions made."""
        notes = []
        if self._sure:
            unsure = [p for p in self._sure if p < _CERTAIN]
            how = f"; for {len(unsure):,} the most likely is used ({min(unsure):.0%} sure or more)" if unsure else ""
            notes.append(
                f"{counted(len(self._sure), 'case')}: the next task is inferred from the scenario's flow{how}."
            )
        sentences = {
            "over": "{}: assumed to be over, because the last event was probably the end.",
            "off": "{}: on a path that the scenario's flow does not have; the usual next task is used.",
            "skipped": "{}: completed activities that the scenario does not have are ignored.",
            "lost": "{}: left out, because nothing follows the last event in the scenario's flow.",
        }
        notes += [text.format(counted(self._counts[k], "case")) for k, text in sentences.items() if self._counts[k]]
        if self._counts["unbegun"]:
            what = counted(self._counts["unbegun"], "task")
            notes.append(f"{what} in work: treated as not begun, because the person has begun another one since.")
        if self._counts["unknown"]:
            what = counted(self._counts["unknown"], "waiting task")
            notes.append(f"{what}: the log has no time of the case, so the wait begins now.")
        if self._strangers:
            some = ", ".join(sorted(self._strangers)[:3])
            more = f" and {len(self._strangers) - 3} more" if len(self._strangers) > 3 else ""
            notes.append(
                f"Tasks that the scenario does not have are left out ({some}{more}); the people on them are not free."
            )
        if values := self._names.scenario.case_values:
            notes.append(f"A state has no {values.column!r}, so the oldest task is the first of each queue.")
        if expected:
            notes.append(
                "On shift: people whom the scenario expects at this hour, and those at work; --on-shift names others."
            )
        return notes


def _newest_of_each_person(tasks: list[OpenTask], at_once: Mapping[str, int]) -> list[OpenTask]:
    """Return tasks in work, the newest of each person: one, or as many as the person does ``at_once``."""
    counts, newest = Counter[str](), set[int]()
    for k in sorted(range(len(tasks)), key=lambda k: tasks[k].age):
        name = tasks[k].person
        counts[name] += 1
        if not name or counts[name] <= at_once.get(name, 1):
            newest.add(k)
    return [task for k, task in enumerate(tasks) if k in newest]


def _activities_of(markings: Markings, target: list[int]) -> dict[tuple[int, ...], float]:
    """Return the probability of each set of next activities of a case."""
    sums: dict[tuple[int, ...], float] = {}
    for marking, p in markings.items():
        sums[_key(marking, target)] = sums.get(_key(marking, target), 0.0) + p
    return sums


def _key(marking: Marking, target: list[int]) -> tuple[int, ...]:
    return tuple(sorted(target[node] for node in marking.tasks))


def _median(weighted: list[tuple[float, float]]) -> float:
    """Return the median of sorted values with weights."""
    values, weights = np.array(weighted).T
    return float(values[np.searchsorted(np.cumsum(weights), weights.sum() / 2)])


def _time_of_week(moment: datetime) -> float:
    """Return the hours since Monday 00:00."""
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return (timedelta(days=moment.weekday()) + (moment - midnight)) / timedelta(hours=1)
