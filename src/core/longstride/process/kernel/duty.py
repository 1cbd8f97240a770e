"""Duty by rosters: a plan is drawn for each resource and day, by the episode's seed and not by its course.

Absences and holidays are removed from the plans.

A plan is a mask with a bit for each hour of the day, the lowest for 00:00-01:00. Functions work on ``state``, the
record of ``state.py``, and ``p``, the record of ``parameters.py``. Hours and days are counted from time 0.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numba import njit

from longstride.process.kernel.counter_rng import child, uniform
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario.schema import Day, DutyPlan, weeks_of

ROSTER_STREAM = 2**33
ALWAYS = (1 << 24) - 1
_LOOKAHEAD = 28
"""Days ahead in which the next change of a resource is searched."""


def roster_arrays(
    rosters: Mapping[str, Sequence[DutyPlan]], fixed: Mapping[str, Sequence[int]], resources: Sequence[str]
) -> dict[str, Any]:
    """Return the parameters' fields ``roster...``.

    Args:
        rosters: plans of the resources that have them.
        fixed: masks of the seven weekdays of resources with working hours; other resources are always on duty.
        resources: names of all resources.
    """
    first, cumulative, masks, names = [0], [], [], list(Day.__args__)  # type: ignore[attr-defined]
    weeks = weeks_of([plan for plans in rosters.values() for plan in plans])
    for name in resources:
        for week, (weekday, day) in product(range(weeks), enumerate(names)):
            own = (plan for plan in rosters.get(name, ()) if day in plan.days and week % plan.of == plan.week)
            rows = [(plan.p, plan.mask()) for plan in own]
            if name not in rosters:
                rows = [(1.0, fixed[name][weekday] if name in fixed else ALWAYS)]
            cumulative += list(np.cumsum([p for p, _ in rows]))
            masks += [mask for _, mask in rows]
            first.append(len(masks))
    return {
        "roster_days": 7 * weeks,
        "roster_first": np.array(first, np.int64),
        "roster_cumulative": np.array(cumulative, np.float64),
        "roster_mask": np.array(masks, np.int64),
    }


def duty_intervals(scenario: Scenario) -> dict[str, Any]:
    """Return the parameters' fields ``duty...``."""
    hour = scenario.hour if scenario.working_hours or scenario.rosters else math.nan
    rows: list[tuple[float, float]] = []
    first = [0]
    people: dict[str, set[str]] = {}
    for entry in scenario.service:
        people.setdefault(entry.activity, set()).add(entry.resource)
    for activity in scenario.activities:
        able = people.get(activity, set())
        always = any(name not in scenario.working_hours for name in able)
        rows += [(0.0, math.inf)] if always else [(a * hour, b * hour) for a, b in scenario.weekly_hours(able)]
        first.append(len(rows))
    return {"duty_intervals": np.array(rows, np.float64), "duty_first": np.array(first, np.int64)}


@njit(nogil=True)
def mask_of(state, p, r, day):  # type: ignore[no-untyped-def]
    """Return the hours of a day, counted from 0, in which a resource is on duty."""
    row = p.roster_days * r + day % p.roster_days
    first, last = p.roster_first[row], p.roster_first[row + 1]
    if first == last:
        return 0
    u = uniform(child(child(state.seed, ROSTER_STREAM + p.roster_stream[r]), day))
    for k in range(first, last):
        if u < p.roster_cumulative[k] or p.roster_cumulative[k] > 1.0 - 1e-9:
            return without_leave(p, r, day, p.roster_mask[k])
    return 0


@njit(nogil=True)
def drawn_mask(state, p, r, day):  # type: ignore[no-untyped-def]
    """Return :func:`mask_of`, read from the state for the current day."""
    return state.duty_mask[r] if day == state.day else mask_of(state, p, r, day)


@njit(nogil=True)
def without_leave(p, r, day, mask):  # type: ignore[no-untyped-def]
    """Return a resource's hours of a day without those in which it is absent."""
    midnight = 24 * day
    for k in range(p.leave_first[r], p.leave_first[r + 1]):
        begin, end = max(p.leave_begin[k] - midnight, 0), min(p.leave_end[k] - midnight, 24)
        if begin < end:
            mask &= ~((1 << end) - (1 << begin))
    return mask


@njit(nogil=True)
def begin_day(state, p, day):  # type: ignore[no-untyped-def]
    """Draw the plans of a day for all resources and note the hours at which one comes or goes."""
    state.day = day
    state.change_hours = 1 << 24  # the next day begins with a draw
    for r in range(len(state.finish)):
        mask = mask_of(state, p, r, day)
        state.duty_mask[r] = mask
        state.change_hours |= mask ^ ((mask << 1) | state.on_duty[r])
        if state.change_at[r] <= state.time and (mask & 1) == state.on_duty[r]:
            note_changes(state, p, r, 24 * day)  # the absence is longer than the days searched ahead
    next_change_hour(state, p, 0)


@njit(nogil=True)
def next_change_hour(state, p, hour):  # type: ignore[no-untyped-def]
    """Set the next shift change to the day's first hour, not before ``hour``, at which a resource comes or goes."""
    while (state.change_hours >> hour) & 1 == 0:
        hour += 1
    state.next_shift = (24.0 * state.day + hour) * p.hour


@njit(nogil=True)
def find_change(state, p, r, hour, on):  # type: ignore[no-untyped-def]
    """Return the first hour, from time 0 and not before ``hour``, at which a resource's duty differs from ``on``."""
    day, of_day = hour // 24, hour % 24
    for _ in range(_LOOKAHEAD):
        mask = drawn_mask(state, p, r, day)
        differs = (mask ^ ALWAYS if on else mask) >> of_day
        if differs:
            while differs & 1 == 0:
                differs >>= 1
                of_day += 1
            return 24 * day + of_day
        day, of_day = day + 1, 0
    return 24 * day


@njit(nogil=True)
def note_changes(state, p, r, hour):  # type: ignore[no-untyped-def]
    """Set a resource's next two changes, seen from an hour at which ``on_duty`` holds."""
    on = state.on_duty[r] != 0
    first = find_change(state, p, r, hour, on)
    state.change_at[r] = first * p.hour
    state.change_after[r] = find_change(state, p, r, first, not on) * p.hour


@njit(nogil=True)
def pause_until_done(state, p, r, start, work):  # type: ignore[no-untyped-def]
    """Return the end of work that a resource begins at a time, if the work rests while the resource is off duty.

    Work that begins at the very end of a duty is done when the resource is back. Infinity if not done by the horizon.
    """
    hour = np.int64(math.floor(start / p.hour))
    time = start
    while time < p.horizon:
        mask = drawn_mask(state, p, r, hour // 24)
        if mask == 0:
            hour = (hour // 24 + 1) * 24
            time = hour * p.hour
            continue
        end = (hour + 1) * p.hour
        if (mask >> (hour % 24)) & 1:
            if work <= end - time:
                return time + work
            work -= end - time
        time, hour = end, hour + 1
    return math.inf


def duty_stretches(state: Any, p: Any, r: int, days: int) -> list[tuple[int, int]]:
    """Return the stretches of a resource's duty in the first days: first hour, and hour after the last, from time 0."""
    hours = np.array([(int(mask_of(state, p, r, day)) >> hour) & 1 for day in range(days) for hour in range(24)])
    edges = np.flatnonzero(np.diff(np.concatenate([[0], hours, [0]])))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
