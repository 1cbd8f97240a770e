"""Whether routing, service times or delays depend on the class of a case, by a held-out likelihood.

The first half of the cases, by their first start, fits two models: one for all classes, and one for each, shrunk
towards the first. The second half scores both. A gain of the mean log-likelihood of a case counts as evidence if it is
at least three standard errors and not negligible.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.grouping import rows_by
from longstride.process.mining.case_order import order_cases
from longstride.process.mining.classes.groups import Groups
from longstride.process.mining.delays.clock import delay_clock
from longstride.process.mining.delays.waits import find_waits
from longstride.process.mining.working_hours import WorkedTime, worked_time

ROUTING, SERVICE, DELAY = "routing", "service", "delay"

ERRORS = 3.0
"""Standard errors by which a gain must exceed 0."""

LEAST_GAIN = 0.01
"""Nats of a case below which a gain is negligible."""

FEWEST_CASES = 40
"""Cases of a log below which nothing is found."""

_TRUST = 10.0
"""Records that count as much as the model of all classes."""

_SHORTEST = 1.0 / 3600.0
"""Hours; shorter times are zero."""

_NARROWEST = 0.05
"""Least standard deviation of the logarithm of times."""


class Finding(NamedTuple):
    """Something that depends on the class."""

    aspect: str  # ROUTING, SERVICE or DELAY
    activity: int  # whose times; -1 for the routing
    gain: float  # of the log-likelihood of a held-out case
    error: float  # its standard error
    means: np.ndarray  # float64[C], mean time in each class in hours; NaN for none; empty for the routing


class Facts(NamedTuple):
    """What is compared between classes, computed once for all attributes of a log."""

    log: EventLog
    work: WorkedTime
    delays: np.ndarray  # float64[n], proven external delay before each event in hours
    learns: np.ndarray  # bool[cases], the cases that fit the models


def facts_of(log: EventLog) -> Facts:
    """Return the facts of a log."""
    work, cases = worked_time(log), order_cases(log)
    delays = np.zeros(len(log))
    delays[cases.order] = find_waits(log, cases, delay_clock(log), work.open_hours).external
    first = np.full(len(log.cases), np.inf)
    np.minimum.at(first, log.case, log.start)
    learns = np.zeros(len(log.cases), np.bool_)
    learns[np.argsort(first, kind="stable")[: len(first) // 2]] = True
    return Facts(log, work, delays, learns)


def find_evidence(facts: Facts, groups: Groups) -> list[Finding]:
    """Return what depends on the classes of some cases, the largest gain first."""
    if len(facts.log.cases) < FEWEST_CASES:
        return []
    found = [finding for finding in _findings(facts, groups) if finding.gain > max(ERRORS * finding.error, LEAST_GAIN)]
    return sorted(found, key=lambda finding: -finding.gain)


def _findings(facts: Facts, groups: Groups) -> Iterator[Finding]:
    log = facts.log
    yield Finding(ROUTING, -1, *_gain(facts, log.case, _routing(facts, groups)), np.zeros(0))
    for aspect, hours in ((SERVICE, facts.work.hours), (DELAY, facts.delays)):
        for a, rows in enumerate(rows_by(log.activity, len(log.activities))):
            of = groups.of_case[log.case[rows]]
            scores = _timing(hours[rows], of, len(groups.names), log.resource[rows], facts.learns[log.case[rows]])
            total, count = np.bincount(of, hours[rows], len(groups.names)), np.bincount(of, minlength=len(groups.names))
            means = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
            yield Finding(aspect, a, *_gain(facts, log.case[rows], scores), means)


def _gain(facts: Facts, case: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """Return mean and standard error over held-out cases of the sum of scores, float64[n], of the events of a case."""
    held = np.bincount(case, scores, len(facts.log.cases))[~facts.learns]
    return float(held.mean()), max(float(held.std(ddof=1)) / np.sqrt(len(held)), 1e-12)


def _routing(facts: Facts, groups: Groups) -> np.ndarray:
    """Return float64[n], by how much the class makes what follows each event likelier; 0 for cases that fit."""
    log, classes = facts.log, len(groups.names)
    order = np.lexsort((np.arange(len(log)), log.case))  # events are in the order of their starts
    case, activity, end = log.case[order], log.activity[order], len(log.activities)
    follows = np.append(activity[1:], end)
    is_last = np.append(case[1:] != case[:-1], True)
    follows[is_last] = end
    learns, of = facts.learns[case], groups.of_case[case]
    counts = np.zeros((classes, end, end + 1))
    np.add.at(counts, (of[learns], activity[learns], follows[learns]), 1.0)
    begins = np.append(True, case[1:] != case[:-1])
    start = np.zeros((classes, end))
    np.add.at(start, (of[learns & begins], activity[learns & begins]), 1.0)
    scores = np.log(_ratio(counts)[of, activity, follows])
    scores += np.where(begins, np.log(_ratio(start)[of, activity]), 0.0)
    result = np.zeros(len(log))
    result[order] = np.where(learns, 0.0, scores)
    return result


def _ratio(counts: np.ndarray) -> np.ndarray:
    """Return the probability of a choice in its class over that in all classes, of counts[C, ..., choices]."""
    every = counts.sum(0)
    prior = (every + 0.5) / (every + 0.5).sum(-1, keepdims=True)
    # Both are drawn towards the same prior, so that a class without a difference never gains.
    own, common = ((of + _TRUST * prior) / (of.sum(-1, keepdims=True) + _TRUST) for of in (counts, every))
    return np.asarray(own / common)


def _timing(hours: np.ndarray, of: np.ndarray, classes: int, resource: np.ndarray, learns: np.ndarray) -> np.ndarray:
    """Return float64[n], by how much the class makes each time likelier; 0 for those that fit.

    Times are zero with a probability, else lognormal. People have means of their own, so that a class whose cases go to
    slower people does not look slow itself.
    """
    scores = np.zeros(len(hours))
    some = hours > _SHORTEST
    if learns.sum() < 2 * classes or (~learns).sum() == 0:
        return scores
    zero = np.zeros((classes, 2))
    np.add.at(zero, (of[learns], some[learns].astype(np.int64)), 1.0)
    scores += np.log(_ratio(zero)[of, some.astype(np.int64)])
    fit = learns & some
    if fit.sum() >= 2 * classes:
        logs = np.log(np.maximum(hours, _SHORTEST))
        rest = logs - _of_people(logs, resource, fit)
        count = np.bincount(of[fit], minlength=classes)
        means = np.bincount(of[fit], rest[fit], classes) / (count + _TRUST)
        common = max(float(rest[fit].std()), _NARROWEST)
        own = max(float((rest - means[of])[fit].std()), _NARROWEST)
        gain = 0.5 * (rest / common) ** 2 - 0.5 * ((rest - means[of]) / own) ** 2 + np.log(common / own)
        scores += np.where(some, np.clip(gain, -_TRUST, _TRUST), 0.0)
    return np.where(learns, 0.0, scores)


def _of_people(logs: np.ndarray, resource: np.ndarray, fit: np.ndarray) -> np.ndarray:
    """Return float64[n], the mean logarithm of each record's person, shrunk towards that of all people."""
    mean = float(logs[fit].mean())
    people = int(resource.max(initial=-1)) + 2
    count = np.bincount(resource[fit] + 1, minlength=people)
    total = np.bincount(resource[fit] + 1, logs[fit] - mean, people)
    return np.asarray(mean + (total / (count + 1.0))[resource + 1])
