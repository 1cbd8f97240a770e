"""Priorities of cases from the order of service: some cases come before others that wait for longer.

A log does not say which cases are urgent. But where a person begins a task while another task of the same activity
waits that the same person does later, the person has chosen. Choices against the order of waiting tell two classes of
cases. A choice contradicts the classes with a probability that its activity has. Classes follow from the choices by
expectation maximisation with a mean field: each case's probability comes from those of the cases that it met.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.mining.case_order import CaseOrder
from longstride.process.mining.mine_services import some

_AHEAD = 16
"""Most later tasks of a person that are compared with one that begins."""

AT_ONCE = 1.0
"""Seconds by which one task must have waited longer than another."""

FEWEST, EVIDENCE = 20, 10.0
"""Fewest choices against the order of waiting that were kept back, and the difference of log-likelihoods of all that
were kept back from which there are classes."""

CLEAN = 0.1
"""Share of an activity's choices that may contradict the classes. Where tasks rest, many do."""

_ROUNDS, _LEAST = 30, 1e-3


class Choices(NamedTuple):
    """Choices of people between two waiting tasks of one activity, int64[k] each, by index in the order of events."""

    chosen: np.ndarray  # event that began
    left: np.ndarray  # event that waited on
    overtook: np.ndarray  # 1 if the other one had waited for longer, else 0


def find_priorities(log: EventLog, cases: CaseOrder) -> tuple[np.ndarray, list[str]]:
    """Return int64[cases], 1 for a case that comes before the others and else 0, and a note if there are such cases.

    Activities count in which few choices contradict two classes. Classes are assumed if those that follow from one half
    of the events predict the choices between the events of the other one.
    """
    case, count, activity = log.case[cases.order], len(log.cases), log.activity[cases.order]
    choices, none = clean_choices(log, cases), (np.zeros(count, np.int64), list[str]())
    if gain_of_classes(choices, case, activity, count) <= EVIDENCE:
        return none
    rng = np.random.default_rng(0)
    rng.permutation(len(case))  # draws as many numbers as the halves
    urgent, _ = _fit(choices, case, activity, count)
    first = (rng.random(count) < urgent).astype(np.int64)  # a case that met no other one is drawn
    if not first.any() or first.all():
        return none
    shown = np.unique(activity[choices.chosen[choices.overtook == 1]])
    return first, [
        f"Order of service: {first.mean():.0%} of the cases come before others that wait for longer, as the choices of "
        f"people in {some([log.activities[a] for a in shown])} show. They have a priority in the scenario."
    ]


def gain_of_classes(choices: Choices, case: np.ndarray, activity: np.ndarray, count: int) -> float:
    """Return by how much two classes of ``count`` cases make choices likelier that were kept back; 0 if too few are.

    ``case`` and ``activity``, int64[n], are those of the events.
    """
    half, gain = np.random.default_rng(0).permutation(len(case)) % 2, 0.0
    halves = [_taken(choices, (half[choices.chosen] == k) & (half[choices.left] == k)) for k in (0, 1)]
    if min(part.overtook.sum() for part in halves) < FEWEST:
        return 0.0
    for known, kept in (halves, halves[::-1]):
        urgent, wrong = _fit(known, case, activity, count)
        gain += _likelihood(kept, urgent, wrong, case, activity) - _without_classes(known, kept, activity)
    return gain


def clean_choices(log: EventLog, cases: CaseOrder) -> Choices:
    """Return the choices of people in activities in which few contradict two classes."""
    case, activity, choices = log.case[cases.order], log.activity[cases.order], choices_of(log, cases)
    count = len(log.cases)
    of = activity[choices.chosen]
    clean = [a for a in np.unique(of) if _fit(_taken(choices, of == a), case, activity, count)[1][a] <= CLEAN]
    return _taken(choices, np.isin(of, clean))


def choices_of(log: EventLog, cases: CaseOrder) -> Choices:
    """Return the choices of people between tasks of one activity that they do themselves."""
    enabled, none, parts = cases.enabled, np.zeros(0, np.int64), []
    for j, k in left_waiting(log, cases, log.activity[cases.order]):
        both = np.abs(enabled[j] - enabled[k]) > AT_ONCE
        parts.append((j[both], k[both], (enabled[k] < enabled[j])[both].astype(np.int64)))
    return Choices(*(np.concatenate([none, *column]) for column in zip(*parts, strict=True)) if parts else [none] * 3)


def left_waiting(log: EventLog, cases: CaseOrder, group: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield distinct events and later ones of the same person that waited when the first began, int64[k] each.

    Both have the same ``group``, int64[n], which is in the order of ``cases``.
    """
    start, enabled, resource = log.start[cases.order], cases.enabled, log.resource[cases.order]
    mine = np.flatnonzero(resource >= 0)
    mine = mine[np.lexsort((start[mine], group[mine], resource[mine]))]
    for ahead in range(1, min(_AHEAD, len(mine) - 1) + 1):
        j, k = mine[:-ahead], mine[ahead:]
        both = (group[j] == group[k]) & (resource[j] == resource[k]) & (start[k] > start[j] + AT_ONCE)
        both &= enabled[k] < start[j]
        yield j[both], k[both]


def _taken(choices: Choices, which: np.ndarray) -> Choices:
    return Choices(*(column[which] for column in choices))


def _fit(choices: Choices, case: np.ndarray, activity: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return float64[cases], the probability that a case comes first, and float64[A], that a choice is a contradiction.

    ``case`` and ``activity``, int64[n], are those of the events.
    """
    j, k, overtook = case[choices.chosen], case[choices.left], choices.overtook == 1
    of = activity[choices.chosen]
    seen, share = np.bincount(of, minlength=int(activity.max()) + 1), 0.2
    more = np.bincount(j[overtook], minlength=count) - np.bincount(k[overtook], minlength=count)
    urgent, wrong = np.where(more > 0, 0.8, np.where(more < 0, 0.05, share)), np.full(len(seen), 0.1)
    for _ in range(_ROUNDS):
        trust = np.log((1.0 - wrong[of]) / wrong[of])
        # Overtaking fits a chosen case of the first class and one left of the second; order contradicts the reverse.
        odds = np.bincount(j, trust * np.where(overtook, 1.0 - urgent[k], urgent[k]), count)
        odds -= np.bincount(k, trust * np.where(overtook, urgent[j], 1.0 - urgent[j]), count)
        new = 1.0 / (1.0 + np.exp(-np.clip(odds + np.log(share / (1.0 - share)), -30.0, 30.0)))
        urgent = 0.5 * (urgent + new)
        against = np.where(overtook, 1.0 - urgent[j] * (1.0 - urgent[k]), (1.0 - urgent[j]) * urgent[k])
        wrong = np.bincount(of, against, len(seen)) / np.maximum(seen, 1)
        wrong, share = np.clip(wrong, _LEAST, 0.5), float(np.clip(urgent.mean(), _LEAST, 1.0 - _LEAST))
    return urgent, wrong


def _likelihood(
    choices: Choices, urgent: np.ndarray, wrong: np.ndarray, case: np.ndarray, activity: np.ndarray
) -> float:
    """Return the log-likelihood of choices under the classes."""
    j, k, of = urgent[case[choices.chosen]], urgent[case[choices.left]], wrong[activity[choices.chosen]]
    first = j * (1.0 - k)
    overtaking = first * (1.0 - of) + (1.0 - first) * of
    second = (1.0 - j) * k
    in_order = second * of + (1.0 - second) * (1.0 - of)
    # Of one pair of tasks either one is chosen: the two outcomes share the probability.
    overtaking, in_order = overtaking / (overtaking + in_order), in_order / (overtaking + in_order)
    return float(np.log(np.maximum(np.where(choices.overtook == 1, overtaking, in_order), 1e-12)).sum())


def _without_classes(known: Choices, choices: Choices, activity: np.ndarray) -> float:
    """Return the log-likelihood of choices if the share of each activity that overtake, from known ones, is all."""
    count = int(activity.max()) + 1
    seen = np.bincount(activity[known.chosen], minlength=count)
    share = (np.bincount(activity[known.chosen], known.overtook, count) + 0.5) / (seen + 1.0)
    of = share[activity[choices.chosen]]
    return float(np.log(np.where(choices.overtook == 1, of, 1.0 - of)).sum())
