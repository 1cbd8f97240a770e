"""Converts a process state from names and dates to arrays, which compiled code writes into the state record."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from longstride.errors import UserError
from longstride.process.snapshots.names import Names, unknown
from longstride.process.snapshots.schema import ProcessState, RestingTask, TaskInWork, WaitingTask
from longstride.process.snapshots.slots import in_slots
from longstride.process.snapshots.times import reader_of


class Described(NamedTuple):
    """A state in numbers: C open cases by age, W waiting tasks by waiting time, B tasks in work, R people.

    Times are those of the simulator, in the scenario's unit.
    """

    time: float
    case_opened: np.ndarray  # float64[C]
    case_class: np.ndarray  # int64[C]
    joined: np.ndarray  # int64[K, 3], case, join and branches that have reached it
    waiting_case: np.ndarray  # int64[W]
    waiting_node: np.ndarray  # int64[W]
    waiting_since: np.ndarray  # float64[W]
    work_case: np.ndarray  # int64[B]
    work_node: np.ndarray  # int64[B]
    work_pair: np.ndarray  # int64[B]
    work_since: np.ndarray  # float64[B]
    on_duty: np.ndarray  # uint8[R]
    change_at: np.ndarray  # float64[R]
    change_after: np.ndarray  # float64[R]


def describe(state: ProcessState, names: Names) -> tuple[Described, list[str]]:
    """Return a state in numbers, and the names of its cases in the order of their numbers.

    Raises:
        UnknownNameError: the scenario does not have a person or an activity.
        UserError: a time is in the future, or the tasks contradict each other or the scenario; the message names the
            place.
    """
    reader = _Reader(in_slots(state, names.slots), names)
    waiting, work, resting = reader.waiting(), reader.in_work(), reader.resting()
    opened = reader.opened()
    order = sorted(opened, key=opened.__getitem__)
    number = {name: i for i, name in enumerate(order)}
    _require_room(names, len(order), len(waiting))
    waiting.sort(key=lambda row: row[2])
    tokens = []
    if names.places.has_branches:
        rows = (*((row[0], row[1]) for row in waiting), *((row[0], row[1]) for row in work), *resting)
        tokens = [(number[case], node) for case, node in rows]
    on_duty, change_at, change_after = reader.duty()
    described = Described(
        time=reader.now,
        case_opened=np.array([opened[name] for name in order], np.float64),
        case_class=_classes(names, number, (*waiting, *work, *resting)),
        joined=names.places.joined(tokens),
        waiting_case=np.array([number[row[0]] for row in waiting], np.int64),
        waiting_node=np.array([row[1] for row in waiting], np.int64),
        waiting_since=np.array([row[2] for row in waiting], np.float64),
        work_case=np.array([number[row[0]] for row in work], np.int64),
        work_node=np.array([row[1] for row in work], np.int64),
        work_pair=np.array([row[3] for row in work], np.int64),
        work_since=np.array([row[2] for row in work], np.float64),
        on_duty=on_duty,
        change_at=change_at,
        change_after=change_after,
    )
    return described, order


class _Reader:
    """Reads the parts of one state. Services call it a thousand times a second, so its loops are short."""

    def __init__(self, state: ProcessState, names: Names) -> None:
        self._state, self._names = state, names
        self.now, self._to_time = reader_of(state.time, names.scenario)
        self._first: dict[str, float] = {}  # case -> earliest time of its tasks

    def waiting(self) -> list[tuple[str, int, float]]:
        """Return case, node and time of the waiting tasks."""
        rows, automatic = [], self._names.automatic
        for i, task in enumerate(self._state.waiting):
            activity = self._activity(task, "waiting", i)
            if automatic[activity]:
                raise UserError(f"waiting[{i}]: {task.activity!r} needs no person; list it in resting.")
            rows.append((task.case, self._node(activity, task, "waiting", i), self._since(task, "waiting", i)))
        return rows

    def in_work(self) -> list[tuple[str, int, float, int]]:
        """Return case, node, time and pair of the tasks in work."""
        rows, people, busy = [], self._names.people, set[str]()
        for i, task in enumerate(self._state.in_work):
            activity, person = self._activity(task, "in_work", i), people.get(task.person)
            if person is None:
                unknown(task.person, people, ("in_work", i, "person"), "person")
            pair = self._names.pairs.get((activity, person))
            if pair is None:
                raise UserError(
                    f"in_work[{i}]: {task.person} never does {task.activity!r} in the scenario; leave out the task, "
                    "and take the person out of on_shift."
                )
            if task.person in busy:
                raise UserError(f"in_work[{i}]: {task.person} has two tasks in work; a person of the scenario has one.")
            busy.add(task.person)
            rows.append((task.case, self._node(activity, task, "in_work", i), self._since(task, "in_work", i), pair))
        return rows

    def resting(self) -> list[tuple[str, int]]:
        """Return case and node of the tasks that rest: in an external delay, or automatic."""
        rows = []
        for i, task in enumerate(self._state.resting):
            activity = self._activity(task, "resting", i)
            rows.append((task.case, self._node(activity, task, "resting", i)))
            self._first.setdefault(task.case, self.now)
        return rows

    def opened(self) -> dict[str, float]:
        """Return the time at which each case was opened: the listed one, else the first time of its tasks."""
        opened: dict[str, float] = {}
        for i, case in enumerate(self._state.cases):
            if case.case in opened:
                raise UserError(f"cases[{i}].case: {case.case!r} is listed twice.")
            opened[case.case] = time = self._to_time(case.since, ("cases", i, "since"))
            if time > self.now:
                raise UserError(f"cases[{i}].since: {case.since} is after the state's time.")
        for name, time in self._first.items():
            opened.setdefault(name, time)
        return opened

    def duty(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return uint8[R], whether people are on duty, and the next two changes of each person, float64[R] each."""
        state, people, duty = self._state, self._names.people, self._names.duty
        if state.on_shift is None:
            on = duty.on_duty(self.now)
        else:
            on = np.zeros(len(people), np.uint8)
            for i, name in enumerate(state.on_shift):
                if name not in people:
                    unknown(name, people, ("on_shift", i, ""), "person")
                on[people[name]] = 1
        change_at, change_after = duty.next_changes(self.now, on)
        for name, pair in state.next_changes.items():
            if name not in people:
                unknown(name, people, ("next_changes", -1, ""), "person")
            first, then = (self._to_time(time, ("next_changes", -1, name)) for time in pair)
            if not self.now <= first <= then:
                raise UserError(
                    f"next_changes.{name}: expected the next change and the one after it, not {pair[0]} and {pair[1]}."
                )
            change_at[people[name]], change_after[people[name]] = first, then
        return on, change_at, change_after

    def _activity(self, task: WaitingTask | RestingTask, part: str, i: int) -> int:
        """Return the number of a task's activity."""
        activity = self._names.activities.get(task.activity)
        if activity is None:
            unknown(task.activity, self._names.activities, (part, i, "activity"), "activity")
        return activity

    def _node(self, activity: int, task: WaitingTask | RestingTask, part: str, i: int) -> int:
        """Return the node of a task of an activity."""
        nodes = self._names.places.nodes[activity]
        if task.place < len(nodes):
            return nodes[task.place]
        raise UserError(
            f"{part}[{i}].place: the flow has {len(nodes)} place(s) of {task.activity!r}, counted from 0, not "
            f"{task.place}."
        )

    def _since(self, task: WaitingTask | TaskInWork, part: str, i: int) -> float:
        """Return the time at which a task began to wait or to be in work, and note it for its case."""
        since, case = self._to_time(task.since, (part, i, "since")), task.case
        if since > self.now:
            raise UserError(f"{part}[{i}].since: {task.since} is after the state's time.")
        if since < self._first.get(case, math.inf):
            self._first[case] = since
        return since


def _classes(names: Names, number: dict[str, int], tasks: Iterable[tuple[Any, ...]]) -> np.ndarray:
    """Return int64[C], the class of each case: that of an activity of it; 0 without classes.

    ``tasks`` begin with case and node.
    """
    classes = np.zeros(len(number), np.int64)
    if names.classes:
        for case, node, *_ in tasks:
            classes[number[case]] = max(names.class_of_node[node], 0)
    return classes


def _require_room(names: Names, cases: int, waiting: int) -> None:
    for count, most, what in (
        (cases, names.sizes.cases, "open cases"),
        (waiting, names.sizes.waiting, "waiting tasks"),
    ):
        if count > most:
            raise UserError(f"The state has {count:,} {what}; an episode of the scenario has room for {most:,}.")
