"""Order of service by age: of the tasks, the one that has waited longest comes first, or that of the oldest case.

Where a person begins a task while others wait that the same person does later, the person has chosen. Within one queue
and between queues, the choices tell which of the two rules people follow. A rule is taken in place of the usual one if
hardly any choice contradicts it and it predicts choices that were kept back better.
"""

from collections.abc import Sequence

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.mining.case_order import CaseOrder
from longstride.process.mining.delays.priorities import AT_ONCE, CLEAN, EVIDENCE, FEWEST, left_waiting
from longstride.text import percent


def find_queue_order(
    log: EventLog, cases: CaseOrder, priority: np.ndarray, without: Sequence[str]
) -> tuple[dict[str, str], list[str]]:
    """Return the keys of a scenario about the order of service that differ from the usual ones, and notes.

    Args:
        log: event log.
        cases: the order of its events.
        priority: that of each case, int64[cases]; only equal ones are compared.
        without: activities that have another order.
    """
    activity, case = log.activity[cases.order], log.case[cases.order]
    other = np.isin(activity, [a for a, name in enumerate(log.activities) if name in without])
    ages = cases.enabled, log.case_times()[0][case]
    chose, follows = np.zeros((2, len(case)), np.bool_), np.ones((2, 2, len(case)), np.bool_)
    for j, k in left_waiting(log, cases, np.zeros(len(case), np.int64)):
        counts = (priority[case[j]] == priority[case[k]]) & ~other[j] & ~other[k]
        for where, which in enumerate((activity[j] == activity[k], activity[j] != activity[k])):
            first, second = j[counts & which], k[counts & which]
            chose[where, first] = True
            for rule, since in enumerate(ages):  # ties contradict neither
                follows[where, rule, first] &= since[second] >= since[first] - AT_ONCE
    within, between = (follows[where][:, chose[where]] for where in (0, 1))
    keys, notes = dict[str, str](), list[str]()
    if _is_shown(within[1], within[0]):
        keys["queue_discipline_within_activity"] = "oldest case first"
        notes.append(
            _note("of the waiting tasks of an activity, that of the oldest case", "the longest wait", *within[::-1])
        )
    if _is_shown(between[0], between[1]):
        keys["queue_discipline_between_activities"] = "earliest enabled first"
        notes.append(_note("of different activities, the task that has waited longest", "the oldest case", *between))
    return keys, notes


def _is_shown(rule: np.ndarray, usual: np.ndarray) -> bool:
    """Return whether choices follow a rule rather than the usual one; bool[k] each."""
    if (rule & ~usual).sum() < FEWEST or (~rule).mean() > CLEAN:
        return False
    half, gain = np.random.default_rng(0).permutation(len(rule)) % 2 == 0, 0.0
    for known, kept in ((half, ~half), (~half, half)):
        first, second = (((~of[known]).sum() + 0.5) / (known.sum() + 1.0) for of in (rule, usual))
        gain += float(np.log(np.where(rule[kept], 1.0 - first, first)).sum())
        gain -= float(np.log(np.where(usual[kept], 1.0 - second, second)).sum())
    return gain > EVIDENCE


def _note(first: str, usual: str, rule: np.ndarray, other: np.ndarray) -> str:
    return (
        f"Order of service: {first} comes first. People chose so {percent(int(rule.sum()), len(rule))} of "
        f"{len(rule):,} times; {percent(int(other.sum()), len(rule))} of these choices follow {usual}."
    )
