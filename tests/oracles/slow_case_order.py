"""The order of the events of a case, slowly: every pair of events, and every path between two of them."""

import numpy as np

MIN_OVERLAPS, TOLERANCE = 0.25, 0.05


def overlaps(start, end, next_start):
    """Return whether events overlap those that begin after them by more than a twentieth of their length."""
    return end - next_start > TOLERANCE * (end - start)


def concurrent_activities(log, order):
    """Return bool[A, A], pairs of different activities that overlap at a good part of their meetings."""
    case, activity = log.case[order], log.activity[order]
    start, end = log.start[order], log.end[order]
    same = case[1:] == case[:-1]
    overlap = overlaps(start[:-1], end[:-1], start[1:]) & same
    met, overlapped = (np.zeros((len(log.activities),) * 2) for _ in range(2))
    np.add.at(met, (activity[:-1][same], activity[1:][same]), 1)
    np.add.at(overlapped, (activity[:-1][overlap], activity[1:][overlap]), 1)
    met, overlapped = met + met.T, overlapped + overlapped.T
    np.fill_diagonal(overlapped, 0)
    return (overlapped > 0) & (overlapped >= MIN_OVERLAPS * met)


def before(start, end, activity, concurrent):
    """Return the events before each event of a case, without those that lie before another of them."""
    k = len(start)
    precedes = ~overlaps(start[:, None], end[:, None], start[None])
    precedes &= np.tri(k, k, -1, dtype=bool).T & ~concurrent[np.ix_(activity, activity)]
    result = []
    ancestors = np.zeros((k, k), np.bool_)
    for j in range(k):
        earlier = np.flatnonzero(precedes[:, j])
        direct = [int(i) for i in earlier if not ancestors[i, earlier].any()]
        result.append(direct)
        if direct:
            ancestors[:, j] = ancestors[:, direct].any(1)
            ancestors[direct, j] = True
    return result


def after(log, order, first):
    """Return of each place the places of the events that it waits for, as :class:`CaseOrder` has them."""
    start, end, activity = log.start[order], log.end[order], log.activity[order]
    concurrent, result = concurrent_activities(log, order), []
    for a, b in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        result += [[a + i for i in them] for them in before(start[a:b], end[a:b], activity[a:b], concurrent)]
    return result
