"""Times without any event that are longer than the rest of a log: a wrong year, a test case, a placeholder."""

import math

import numpy as np

from longstride.process.event_logs.reading.bad_rows import moment_of
from longstride.process.event_logs.reading.records import Records
from longstride.text import agreeing

_WEEK = 7 * 86_400.0
"""Seconds."""

_SHORTEST = 4 * _WEEK
"""A pause up to this long is normal, also in a log of a few days."""

_FEW = 0.05
"""Share of the events that may lie within the other part once the gap is closed."""


def close_gaps(records: Records) -> tuple[Records, list[str]]:
    """Return events without the weeks of such gaps, and warnings.

    The smaller part of the events moves towards the larger one by whole weeks, which keeps weekdays and hours. So rates
    count only the time that has events.
    """
    notes = list[str]()
    while gap := _gap(records):
        last, first = gap
        across, before = (records.start <= last) & (records.end >= first), records.end <= last
        goes_back = int(before.sum()) > len(before) // 2
        far = across if across.any() else ~before if goes_back else before
        dates = " to ".join(str(moment_of(t).date()) for t in gap)
        if across.any():
            notes.append(
                f"Warning: nothing starts or ends from {dates}, which is longer than the rest of the log, but an event "
                f"of {_cases(records, far)} lasts for all that time; correct its dates, or leave its row out."
            )
            break
        some = agreeing(int(far.sum()), len(far), "event", "lies", "lie")
        notes.append(
            f"Warning: the log has no event from {dates}, which is longer than its other time; {some} "
            f"{'after' if goes_back else 'before'} it, of {_cases(records, far)}. That time does not count; "
            "if the dates are wrong, correct them or leave these rows out."
        )
        records = _closed(records, far, (first - last) / _WEEK, -_WEEK if goes_back else _WEEK)
    return records, notes


def _cases(records: Records, which: np.ndarray) -> str:
    names = list(dict.fromkeys(records.case.values[c] for c in records.case.code[which]))
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
    return f"case{'s' * (len(names) > 1)} {shown}"


def _gap(records: Records) -> tuple[float, float] | None:
    """Return the longest time without a start or an end, if it is longer than the rest of the log."""
    times = np.unique(np.concatenate([records.start, records.end]))
    steps = np.diff(times)
    longest = int(steps.argmax()) if len(steps) else 0
    if not len(steps) or steps[longest] <= max(_SHORTEST, steps.sum() - steps[longest]):
        return None
    return float(times[longest]), float(times[longest + 1])


def _closed(records: Records, far: np.ndarray, weeks: float, step: float) -> Records:
    """Return records in which the events of one side, bool[n], are nearer by about ``weeks`` steps of seconds.

    Few events may then lie within the other part, because a week without others would count, too. Many events stay
    outside of it, and so do those whose case would change its order.
    """
    nearest = _moved(records, far, math.ceil(weeks) * step)
    inside = far.mean() <= _FEW and _in_turn(nearest, far if step > 0 else ~far)
    return nearest if inside else _moved(records, far, math.floor(weeks) * step)


def _in_turn(records: Records, early: np.ndarray) -> bool:
    """Return whether the ``early`` events of each case, bool[n], end before its others begin."""
    case = records.case.code
    end, begin = np.full(len(records.case.values), -np.inf), np.full(len(records.case.values), np.inf)
    np.maximum.at(end, case[early], records.end[early])
    np.minimum.at(begin, case[~early], records.start[~early])
    return bool((end <= begin).all())


def _moved(records: Records, which: np.ndarray, seconds: float) -> Records:
    """Return records in which some events, bool[n], and their suspensions are later by ``seconds``."""
    moves, pauses = np.where(which, seconds, 0.0), records.pauses
    paused = moves[pauses.event]
    return records._replace(
        start=records.start + moves,
        end=records.end + moves,
        pauses=pauses._replace(start=pauses.start + paused, end=pauses.end + paused),
    )
