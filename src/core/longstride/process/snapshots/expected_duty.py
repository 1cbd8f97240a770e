"""The people on shift, and their next changes, by working hours and rosters, for states that do not give them."""

import math
from bisect import bisect_left, bisect_right

import numpy as np

from longstride.process.scenario.scenario import HOURS_PER_WEEK, Scenario
from longstride.process.scenario.schema import Day

_DAYS: tuple[str, ...] = Day.__args__  # type: ignore[attr-defined]


class ExpectedDuty:
    """The expected working week of R people.

    Working hours are known. Of a roster, the likeliest plan of each weekday counts, without days of absence. A person
    is expected to be present now if the probability is at least one half.

    Args:
        scenario: scenario with working hours and rosters.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._has_week = bool(scenario.working_hours or scenario.rosters)
        self._hour, self._week = scenario.hour, HOURS_PER_WEEK * scenario.hour
        people = [_comes_and_goes(scenario, name) for name in scenario.resources]
        own = [np.concatenate(both) for both in people]
        self._moments = np.unique(np.concatenate(own)).tolist()
        at = np.array([*self._moments, float(HOURS_PER_WEEK)])  # a row for each stretch of the week, by its end
        rows = [_next_changes(at, comes, goes) for comes, goes in people]
        # float64[2, stretches, R], for people off and on duty: hours of the next change, and of the one after.
        self._first, self._then = (
            np.array([[row[on][i] for row in rows] for on in (0, 1)]).transpose(0, 2, 1) for i in (0, 1)
        )
        always = [
            not len(both) and name not in scenario.rosters and scenario.working_hours.get(name) != []
            for both, name in zip(own, scenario.resources, strict=True)
        ]
        self._on = (self._first[1] < self._first[0]) | np.array(always)
        self._rosters = {
            r: _likely_hours(scenario, n) for r, n in enumerate(scenario.resources) if n in scenario.rosters
        }

    def on_duty(self, time: float) -> np.ndarray:
        """Return uint8[R], whether people are expected to be on duty at a time of the simulator."""
        if not self._has_week:
            return np.ones(len(self._on[0]), np.uint8)
        hours = (time % self._week) / self._hour
        on: np.ndarray = self._on[bisect_right(self._moments, hours)].astype(np.uint8)
        for r, likely in self._rosters.items():
            on[r] = likely[int(hours)]
        return on

    def next_changes(self, time: float, on_duty: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each person's next change of duty and the one after, float64[R] each, times of the simulator.

        A person who is absent comes at the next usual beginning, and a person who is present leaves at the next usual
        end. Infinity means never.
        """
        if not self._has_week:
            never = np.full(len(on_duty), math.inf)
            return never, never.copy()
        week = math.floor(time / self._week) * self._week
        row, on = bisect_left(self._moments, (time - week) / self._hour), on_duty != 0
        first, then = (np.where(on, table[1, row], table[0, row]) for table in (self._first, self._then))
        return week + first * self._hour, week + then * self._hour


def _comes_and_goes(scenario: Scenario, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the hours of the week, in order, at which a person comes and goes; float64[n] each."""
    if name in scenario.rosters:
        hours = _usual_hours(scenario, name)
        before = np.roll(hours, 1)
        return np.flatnonzero(hours & ~before) * 1.0, np.flatnonzero(~hours & before) * 1.0
    if name not in scenario.working_hours:
        return np.zeros(0), np.zeros(0)
    comes, goes = np.array(scenario.weekly_hours({name})).reshape(-1, 2).T
    if len(comes) and comes[0] == 0.0 and goes[-1] == HOURS_PER_WEEK:
        comes, goes = comes[1:], goes[:-1]  # on duty across the end of the week
    return comes, np.sort(goes % HOURS_PER_WEEK)


def _next_changes(at: np.ndarray, comes: np.ndarray, goes: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the next change not before some hours and the one after, for a person off duty and for one on duty."""

    def upcoming(moments: np.ndarray, hours: np.ndarray) -> np.ndarray:
        later = np.concatenate([moments, moments + HOURS_PER_WEEK, moments + 2 * HOURS_PER_WEEK, [math.inf]])
        return np.asarray(later[np.searchsorted(later, hours)])

    come, go = upcoming(comes, at), upcoming(goes, at)
    return [(come, upcoming(goes, come)), (go, upcoming(comes, go))]


def _usual_hours(scenario: Scenario, name: str) -> np.ndarray:
    """Return bool[168], the hours of the week in the likeliest plan of each weekday."""
    hours = np.zeros((7, 24), np.bool_)
    for weekday, day in enumerate(_DAYS):
        plans = [plan for plan in scenario.rosters[name] if day in plan.days]
        if plans:
            hours[weekday] = _bits(max(plans, key=lambda plan: plan.p).mask())
    return hours.ravel()


def _likely_hours(scenario: Scenario, name: str) -> np.ndarray:
    """Return bool[168], the hours of the week in which a person with a roster is present at least half of the time."""
    chance = np.zeros((7, 24))
    for weekday, day in enumerate(_DAYS):
        for plan in scenario.rosters[name]:
            if day in plan.days:
                chance[weekday] += plan.p / plan.of * _bits(plan.mask())
    return np.asarray(chance.ravel() >= 0.5)


def _bits(mask: int) -> np.ndarray:
    return np.array([(mask >> hour) & 1 for hour in range(24)], np.bool_)
