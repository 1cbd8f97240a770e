"""Turns good rows into events: from whole rows, from pairs of starts and completions, or from completions alone."""

from typing import NamedTuple

import numpy as np

from longstride.process.event_logs.estimate_starts import LONGEST_IN_MEDIANS, estimate_starts
from longstride.process.event_logs.half_events import notes_on_half_events, sort_half_events, starts_of_halves
from longstride.process.event_logs.pauses import Pauses, no_pauses
from longstride.process.event_logs.reading.bad_rows import seconds
from longstride.process.event_logs.reading.choose_columns import listed
from longstride.process.event_logs.reading.collect import Coded, Rows
from longstride.process.event_logs.reading.options import COLUMNS_OPTION
from longstride.process.event_logs.reading.pair_lifecycles import Pairs, pair_lifecycles
from longstride.process.event_logs.reading.times.parse_times import Times
from longstride.process.event_logs.reading.words.nothing import nothing_in
from longstride.text import agreeing, counted, percent

_DAY = 86_400.0
"""Seconds."""


class Records(NamedTuple):
    """The n events of a log. Times are real where the log has UTC offsets."""

    case: Coded
    activity: Coded
    resource: Coded  # with index -1 for none
    start: np.ndarray  # float64[n], seconds since 1970
    end: np.ndarray  # float64[n], seconds since 1970
    start_offset: np.ndarray  # float64[n], seconds that the wall clock is ahead
    end_offset: np.ndarray  # float64[n], seconds that the wall clock is ahead
    number: np.ndarray  # int64[n], number of the row of the completion
    instance: np.ndarray  # int64[n], code of the instance; 0 if the log has none
    pauses: Pauses  # suspensions of the events

    def taken(self, events: np.ndarray) -> "Records":
        """Return some of the events, int64[m], in that order."""
        case, activity, resource = (
            Coded(column.values, column.code[events]) for column in (self.case, self.activity, self.resource)
        )
        return Records(
            case,
            activity,
            resource,
            start=self.start[events],
            end=self.end[events],
            start_offset=self.start_offset[events],
            end_offset=self.end_offset[events],
            number=self.number[events],
            instance=self.instance[events],
            pauses=self.pauses.taken(events, len(self.end)),
        )


class Made(NamedTuple):
    """Events, with notes about how they were made."""

    records: Records
    starts_estimated: bool
    notes: list[str]


def make_records(
    rows: Rows, times: dict[str, Times], good: np.ndarray, names: list[str], only_dates: bool = False
) -> Made:
    """Return the events of the good rows.

    Args:
        rows: the n rows of a log.
        times: times of these rows by field.
        good: bool[n], rows that are not bad.
        names: names of the log's columns, for the note about estimated starts.
        only_dates: whether hours are unknown, so that nothing is estimated: a completion is an event of its day.
    """
    whole = good & times["start"].known if "start" in times else np.zeros_like(good)
    if "transition" in rows.texts:
        return _from_transitions(rows, times, good, whole, names, only_dates)
    start_row = np.flatnonzero(whole if "start" in times else good)
    records = _records(rows, times, start_row, start_row, whole)
    return Made(records, False, []) if "start" in times else _with_starts(records, names, only_dates)


def _from_transitions(
    rows: Rows, times: dict[str, Times], good: np.ndarray, whole: np.ndarray, names: list[str], only_dates: bool
) -> Made:
    """Return the events of rows for starts and completions; ``whole``, bool[n], marks rows that hold both times."""
    kept = np.flatnonzero(good)
    texts = {field: Coded(column.values, column.code[kept]) for field, column in rows.texts.items()}
    pairs = pair_lifecycles(texts, seconds(times["end"])[kept], whole[kept])
    start_row, end_row, unstarted, unfinished = (kept[part] for part in pairs[:4])
    if not len(start_row) and not len(unfinished) and len(unstarted):
        unstarted = np.sort(unstarted)
        return _with_starts(_records(rows, times, unstarted, unstarted, whole), names, only_dates)
    activity = rows.texts["activity"]
    half = sort_half_events(rows.texts["case"].code, activity.code, end_row, unstarted, unfinished)
    records = _records(rows, times, np.append(start_row, half.kept), np.append(end_row, half.kept), whole)
    records = records._replace(pauses=_pauses(rows, times["end"], pairs.pauses[:, 0], kept[pairs.pauses[:, 1:]]))
    estimated = False
    if not only_dates:
        lone = np.zeros(len(records.end), np.bool_)
        lone[len(end_row) :][: len(half.instant) + len(half.estimated)] = True
        case, who, what = (column.code for column in (records.case, records.resource, records.activity))
        start, estimated = starts_of_halves(case, who, what, records.start, records.end, lone)
        records = records._replace(start=start)
    notes = notes_on_half_events(half, activity.values, activity.code, estimated)
    return Made(records, estimated, notes + _on_suspended(records, pairs))


def _with_starts(records: Records, names: list[str], only_dates: bool) -> Made:
    """Return events that are completions with estimated starts; ``names`` are the columns of the log."""
    if not only_dates:
        case, resource, activity = (column.code for column in (records.case, records.resource, records.activity))
        records = records._replace(start=estimate_starts(case, resource, activity, records.end))
    return Made(records, True, [] if only_dates else [_on_estimates(names)])


def with_estimates(records: Records, moment: float, note: str, notes: list[str]) -> tuple[Records, list[str]]:
    """Return records in which estimates on the same day replace starts at a time of day, if these are only dates.

    A date makes an event much longer than others. An event that was suspended keeps its start.

    Args:
        records: the events of a log.
        moment: time of day in seconds.
        note: sentence about the estimates.
        notes: other sentences about the records, to which it is added.
    """
    dated, duration = (records.start + records.start_offset) % _DAY == moment, records.end - records.start
    dated[records.pauses.event] = False
    exact = duration[~dated & (duration > 0)]
    if not dated.any() or (len(exact) and np.median(duration[dated]) <= LONGEST_IN_MEDIANS * np.median(exact)):
        return records, notes
    estimates = estimate_starts(records.case.code, records.resource.code, records.activity.code, records.end)
    latest = np.minimum(records.end, records.start - moment + _DAY)
    start = np.where(dated, np.clip(estimates, records.start - moment, latest), records.start)
    return records._replace(start=start), [*notes, note]


def _records(
    rows: Rows, times: dict[str, Times], start_row: np.ndarray, end_row: np.ndarray, whole: np.ndarray
) -> Records:
    """Return events from rows of starts and rows of ends; ``whole`` marks rows that hold both times."""
    end, time = times["end"], seconds(times["end"])
    start, start_offset = time[start_row], end.offset[start_row]
    if "start" in times:
        own = whole[start_row]
        start = np.where(own, seconds(times["start"])[start_row], start)
        start_offset = np.where(own, times["start"].offset[start_row], start_offset)
    who = people_of(rows.texts["resource"])
    instance = rows.texts["instance"].code[end_row] if "instance" in rows.texts else np.zeros(len(end_row), np.int64)
    return Records(
        case=Coded(rows.texts["case"].values, rows.texts["case"].code[end_row]),
        activity=Coded(rows.texts["activity"].values, rows.texts["activity"].code[end_row]),
        resource=Coded(rows.texts["resource"].values, np.where(who[end_row] >= 0, who[end_row], who[start_row])),
        start=start,
        end=time[end_row],
        start_offset=start_offset.astype(np.float64),
        end_offset=end.offset[end_row].astype(np.float64),
        number=rows.numbers[end_row],
        instance=instance,
        pauses=no_pauses(),
    )


def _pauses(rows: Rows, time: Times, event: np.ndarray, bounds: np.ndarray) -> Pauses:
    """Return suspensions of events, int64[k], from the rows with their begins and ends, int64[k, 2]."""
    begin, end = bounds.T
    return Pauses(
        event=event,
        start=seconds(time)[begin],
        end=seconds(time)[end],
        start_offset=time.offset[begin].astype(np.float64),
        end_offset=time.offset[end].astype(np.float64),
        resource=people_of(rows.texts["resource"])[begin],
    )


def people_of(column: Coded) -> np.ndarray:
    """Return int64[n], the index of each resource, -1 if the text is a word for none."""
    return np.where(nothing_in(column, "resource"), -1, column.code).astype(np.int64)


def _on_suspended(records: Records, pairs: Pairs) -> list[str]:
    """Return sentences about suspended and aborted events."""
    notes, pauses = [], records.pauses
    if len(pauses.event):
        share = percent(float((pauses.end - pauses.start).sum()), float((records.end - records.start).sum()))
        lasting = counted(pairs.never_resumed, "suspension lasts", "suspensions last")
        never = f"; {lasting} to the completion" if pairs.never_resumed else ""
        suspended = len(np.unique(pauses.event))
        notes.append(
            f"{agreeing(suspended, len(records.end), 'event', 'was', 'were')} suspended, for {share} of all time "
            f"between start and completion; that time is a delay, not work of their people{never}."
        )
    if pairs.stray:
        fit = counted(pairs.stray, "suspension or resumption fits", "suspensions or resumptions fit")
        notes.append(
            f"Warning: {fit} no earlier start or suspension. That is ignored, so service times may contain suspended "
            "time; add the missing rows if you can."
        )
    if pairs.aborted:
        of_all = percent(pairs.aborted, pairs.aborted + len(records.end))
        were = (
            f"event ({of_all}) was aborted or withdrawn and is",
            f"events ({of_all}) were aborted or withdrawn and are",
        )
        notes.append(f"{counted(pairs.aborted, *were)} left out.")
    return notes


def _on_estimates(names: list[str]) -> str:
    return (
        f"The log has no start times (columns: {listed(names)}), so they are estimated: an event starts when its case "
        "and its person have completed what came before, long waits are cut, and activities that never name a person "
        f"take no time; service times are rough, so log starts if you can, or name their column with {COLUMNS_OPTION} "
        "start=..., or a column of words such as started and finished with transition=..."
    )
