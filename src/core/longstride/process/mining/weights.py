"""Weights of the cases of a log: cases that the log's end cuts off are weighted, not dropped."""

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.grouping import rows_by
from longstride.process.mining.case_order import CaseOrder

_LEAST = 1e-6


def case_weights(log: EventLog, cases: CaseOrder) -> np.ndarray:
    """Return float64[cases], Kaplan-Meier weights of the cycle times with mean 1; almost 0 for an unfinished case.

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
    return kaplan_meier(times, finished)


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
