"""Weights of the cases of a log: cases that the log's end cuts off are weighted, not dropped."""

from typing import NamedTuple

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.grouping import rows_by
from longstride.process.mining.case_order import CaseOrder

_LEAST = 1e-6

_SHARE, _LONGER = 0.01, 0.02
"""Share of open cases from which they are named, and by how much they must lengthen the mean cycle time."""

_HOUR = 3600.0


class CaseWeights(NamedTuple):
    """Weights of the cases of a log with mean 1, and sentences about those that its end cuts off."""

    weight: np.ndarray  # float64[cases], almost 0 for an unfinished case
    notes: list[str]


def case_weights(log: EventLog, cases: CaseOrder) -> CaseWeights:
    """Return Kaplan-Meier weights of the cycle times.

    A case is finished with the probability of :func:`finished_probability`, and censored with the rest, whose weight
    goes to the cases with longer cycles.
    """
    order, first = cases.order, cases.first
    activity, start, end = log.activity[order], log.start[order], log.end[order]
    last = first[1:] - 1
    case_end = np.maximum.reduceat(end, first[:-1])
    silence = log.end.max() - case_end
    finished = finished_probability(activity, start, end, last, silence)
    times = case_end - start[first[:-1]]
    weight = kaplan_meier(times, finished)
    return CaseWeights(weight, _open_cases(times / _HOUR, weight, float((1.0 - finished).sum())))


def _open_cases(times: np.ndarray, weight: np.ndarray, unfinished: float) -> list[str]:
    """Return a warning if open cases shorten the mean of ``times``, float64[cases] hours, as far as they are logged."""
    logged, whole = float(times.mean()), float((weight * times).mean())
    if unfinished < _SHARE * len(times) or whole <= (1.0 + _LONGER) * logged:
        return []
    return [
        f"Warning: about {unfinished:,.0f} of {len(times):,} cases are open at the log's end, so its mean cycle time "
        f"of {logged:.3g} h is too short. Longer cases count for them, with which the mean is {whole:.3g} h. A "
        "simulation as long as the log has open cases at its end, too."
    ]


def finished_probability(
    activity: np.ndarray, start: np.ndarray, end: np.ndarray, last: np.ndarray, silence: np.ndarray
) -> np.ndarray:
    """Return float64[cases], the probability that a case is over after its last event, by Bayes' rule.

    P(over | silence s) = p / (p + (1 - p) P(gap > s)), with the probability p that an event of this activity is a
    case's last, and the gaps that follow its other events.

    Args:
        activity: int64[n] of the events by case, with ``start`` and ``end``.
        start: float64[n], seconds.
        end: float64[n], seconds.
        last: int64[cases], index of each case's last event.
        silence: float64[cases], seconds from its end to the end of the log.
    """
    is_last = np.zeros(len(activity), np.bool_)
    is_last[last] = True
    gap = np.full(len(activity), np.inf)
    gap[:-1] = start[1:] - end[:-1]
    probability = np.ones(len(last))
    count = int(activity.max()) + 1
    for mine, of_a in zip(rows_by(activity, count), rows_by(activity[last], count), strict=True):
        if len(of_a) == 0:
            continue
        inner = np.sort(np.maximum(gap[mine[~is_last[mine]]], 0.0))
        if len(inner) == 0:
            continue
        longer = 1.0 - np.searchsorted(inner, silence[of_a], side="right") / len(inner)
        # Cases that are silent for longer than every gap are surely over; their share estimates p.
        ended = float((silence[of_a] > inner[-1]).sum())
        p = ended / (ended + len(inner)) if ended else float(len(of_a)) / (len(of_a) + len(inner))
        probability[of_a] = p / (p + (1.0 - p) * longer)
    return probability


def kaplan_meier(times: np.ndarray, finished: np.ndarray) -> np.ndarray:
    """Return float64[cases], weights with mean 1 for times that are complete with a probability, else censored."""
    order = np.argsort(times, kind="stable")
    at_risk = np.arange(len(times), 0, -1, dtype=np.float64)
    # Kaplan-Meier: S(t_i) = S(t_(i-1)) (1 - h_i); a case's weight is the mass S(t_(i-1)) h_i at its time.
    hazard = finished[order] / at_risk
    survival = np.concatenate([[1.0], np.cumprod(1.0 - hazard)[:-1]])
    weights = np.empty(len(times))
    weights[order] = survival * hazard
    weights = np.maximum(weights, _LEAST / len(times))
    return np.asarray(weights / weights.mean())
