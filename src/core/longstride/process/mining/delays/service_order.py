"""Order of service by a column of the log, such as an amount: the largest or the smallest value comes first.

The choices of people between waiting tasks show it, as in ``priorities.py``. A column counts if few choices of an
activity contradict its order, and if it predicts choices that were kept back better than the order of waiting and than
two classes of cases. A column that grows with time, such as a due date, cannot be drawn with a case, so it is
only named.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from longstride.errors import UserError
from longstride.process.event_logs.case_classes import CaseColumn
from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.reading.attributes import Attribute
from longstride.process.mining.case_order import CaseOrder, order_cases
from longstride.process.mining.delays.priorities import (
    CLEAN,
    EVIDENCE,
    FEWEST,
    choices_of,
    clean_choices,
    gain_of_classes,
)
from longstride.process.mining.mine_services import some
from longstride.process.scenario.case_values import places_of, work_factor
from longstride.text import percent

_KNOWN = 0.95
"""Share of the cases that must have a value."""

_GROWS, _FOLLOWS = 0.8, 0.95
"""Rank correlations with arrivals from which a column is a date, and with cycle times from which it is a result."""

_FACTORS, _SURE = 11, 5.0
"""Factors of an activity's work, and standard errors from which its work depends on the value."""

_SHORTEST, _LEAST = 1.0 / 3600.0, 0.02


class ServiceOrder(NamedTuple):
    """An order of service by a column."""

    largest: bool  # whether the largest value comes first
    activities: list[int]
    gain: float  # of the log-likelihood of choices that were kept back, over the order of waiting
    right: int  # choices of these activities that follow the order
    in_turn: int  # choices that follow the order of waiting
    choices: int  # all of them


def with_column(log: EventLog, read: Callable[[], Sequence[Attribute]]) -> EventLog:
    """Return a log with the column by which its tasks are served, if there is one; a date is named in a note instead.

    ``read`` returns the log's attributes; it is called if enough choices are against the order of waiting. A log whose
    attributes are beyond the limits of reading has no such column.
    """
    cases = order_cases(log)
    if choices_of(log, cases).overtook.sum() < FEWEST:
        return log
    try:
        attributes = read()
    except UserError:
        return log
    first, last = log.case_times()
    best: tuple[float, bool, CaseColumn, ServiceOrder] | None = None
    for attribute in attributes:
        values = _numbers([attribute.values.get(name, "") for name in log.cases]) if attribute.is_constant else None
        if values is None or abs(_correlation(values, last - first)) > _FOLLOWS:
            continue
        column = CaseColumn(attribute.name, values)
        found = find_order(replace(log, column=column), cases)
        if found and (best is None or found.gain > best[0]):
            best = found.gain, abs(_correlation(values, first)) > _GROWS, column, found
    if best is None:
        return log
    _, grows, column, found = best
    if grows:
        return replace(log, notes=(*log.notes, _note_on_date(log, column, found)))
    return replace(log, column=column)


def find_order(log: EventLog, cases: CaseOrder) -> ServiceOrder | None:
    """Return the order of service by the log's column, None if there is none.

    An activity with too few choices to tell has the order if no other activity contradicts it.
    """
    choices, case, activity = choices_of(log, cases), log.case[cases.order], log.activity[cases.order]
    of, count = activity[choices.chosen], len(log.activities)
    if log.column is None or choices.overtook.sum() < FEWEST:
        return None
    half = np.random.default_rng(0).permutation(len(of)) % 2 == 0
    best, in_turn, place = None, choices.overtook == 0, places_of(log.column.of_case)[case]
    by_people = np.bincount(log.activity, log.resource >= 0, count) > 0
    for largest in (True, False):
        key = np.nan_to_num(place if largest else 1.0 - place, nan=-1.0)
        first, second = key[choices.chosen], key[choices.left]
        right, gains = np.where(first == second, in_turn, first > second), np.zeros(count)
        for known, kept in ((half, ~half), (~half, half)):
            wrong, late = (_share(~follows[known], of[known], count)[of] for follows in (right, in_turn))
            score = np.log(np.where(right, 1.0 - wrong, wrong)) - np.log(np.where(in_turn, 1.0 - late, late))
            gains += np.bincount(of[kept], np.where(wrong <= CLEAN, score, 0.0)[kept], count)
        shown = (gains > 0.0) & (_share(~right, of, count) <= CLEAN)
        seen = np.bincount(of, minlength=count)
        agrees = np.bincount(of, ~right, count) <= CLEAN * seen
        if (gain := float(gains[shown].sum())) > (best.gain if best else EVIDENCE):
            have_it = np.flatnonzero((shown | (agrees & agrees[seen >= FEWEST].all())) & by_people).tolist()
            mine = shown[of]
            best = ServiceOrder(
                largest, have_it, gain, int(right[mine].sum()), int(in_turn[mine].sum()), int(mine.sum())
            )
    if best is None:
        return None
    # Classes are judged by half of the choices: those between cases of one half.
    classes = 2.0 * gain_of_classes(clean_choices(log, cases), case, activity, len(log.cases))
    return best if best.gain > classes else None


def keys_of_order(
    log: EventLog, order: ServiceOrder, hours: np.ndarray
) -> tuple[dict[str, Any], np.ndarray, list[str]]:
    """Return ``case_values`` of a scenario, the hours of each event without the factor of its case, and notes.

    ``hours``, float64[n], is the work on each event.
    """
    assert log.column is not None
    places, plain, work = places_of(log.column.of_case)[log.case], hours.copy(), {}
    for a, name in enumerate(log.activities):
        rows = np.flatnonzero((log.activity == a) & (log.resource >= 0) & (hours > _SHORTEST) & ~np.isnan(places))
        if len(rows) > _FACTORS and (factors := _factors(hours[rows], places[rows], log.resource[rows])) is not None:
            plain[rows] = hours[rows] / work_factor(factors, places[rows])
            work[name] = [float(f"{factor:.4g}") for factor in factors]
    which = "largest" if order.largest else "smallest"
    names = [log.activities[a] for a in order.activities]
    notes = [
        f"Order of service: of the waiting tasks of {some(names)}, the one with the {which} {log.column.name!r} comes "
        f"first. People chose so {percent(order.right, order.choices)} of {order.choices:,} times; "
        f"{percent(order.in_turn, order.choices)} of these choices follow the order of waiting. A simulated case "
        "has the value of its case in the log."
    ]
    if work:
        spans = [f"{name} ({factors[0]:.2g} to {factors[-1]:.2g} of the mean)" for name, factors in work.items()]
        notes.append(f"The time of work depends on {log.column.name!r}, from smallest to largest: {some(spans)}.")
    keys = {"column": log.column.name, "first": which, "activities": names, "work": work}
    return {"case_values": keys}, plain, notes


def _factors(hours: np.ndarray, places: np.ndarray, resource: np.ndarray) -> list[float] | None:
    """Return the factors of the work of one activity by place, with a mean of 1; None if it does not depend on it."""
    people = np.unique(resource, return_inverse=True)[1]
    count, logs = np.bincount(people), np.log(hours)
    rest = logs - (np.bincount(people, logs) / count)[people]
    if places.std() == 0.0 or rest.std() == 0.0:
        return None
    if abs(float(np.corrcoef(places, rest)[0, 1])) * np.sqrt(len(rest)) < _SURE:
        return None
    relative = hours / (np.bincount(people, hours) / count)[people]
    knots = min(_FACTORS, len(np.unique(places)))
    at = places * (knots - 1)
    hats = np.maximum(1.0 - np.abs(at[:, None] - np.arange(knots)), 0.0)
    expected = np.ones(len(hours))
    for _ in range(4):  # the spread of times grows with their mean
        factors = np.linalg.lstsq(hats / expected[:, None], relative / expected, rcond=None)[0]
        expected = np.maximum(hats @ factors, _LEAST)
    return list(np.maximum(factors, _LEAST) / float(expected.mean()))


def _share(which: np.ndarray, of: np.ndarray, count: int) -> np.ndarray:
    """Return float64[A], the share of the choices of each activity, one half for one without any."""
    return np.asarray((np.bincount(of, which, count) + 0.5) / (np.bincount(of, minlength=count) + 1.0))


def _numbers(texts: list[str]) -> np.ndarray | None:
    """Return numbers or dates as float64[cases], NaN for none; None if some are neither, or too few are known."""
    known = np.array([text != "" for text in texts])
    if known.mean() < _KNOWN:
        return None
    given, values = [text for text in texts if text], np.full(len(texts), np.nan)
    try:
        values[known] = [float(text) for text in given]
    except ValueError:
        try:
            values[known] = np.array([text[:19] for text in given], "datetime64[s]").astype(np.float64)
        except ValueError:
            return None
    return values if np.isfinite(values[known]).all() and len(np.unique(values[known])) > 1 else None


def _correlation(values: np.ndarray, others: np.ndarray) -> float:
    """Return the rank correlation over the cases with a value."""
    known = ~np.isnan(values)
    a, b = (np.unique(of[known], return_inverse=True)[1].astype(np.float64) for of in (values, others))
    return float(np.corrcoef(a, b)[0, 1]) if min(a.std(), b.std()) > 0.0 else 0.0


def _note_on_date(log: EventLog, column: CaseColumn, order: ServiceOrder) -> str:
    names = some([log.activities[a] for a in order.activities])
    return (
        f"Order of service: tasks of {names} follow {column.name!r}, the {'largest' if order.largest else 'smallest'} "
        f"first, in {percent(order.right, order.choices)} of {order.choices:,} choices. It grows with time, like a due "
        "date or the end of a case, so the scenario does not use it."
    )
