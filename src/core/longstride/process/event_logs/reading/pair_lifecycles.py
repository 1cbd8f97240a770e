"""Pairs rows of starts with rows of completions into events."""

from typing import NamedTuple

import numpy as np

from longstride.process.event_logs.reading.collect import Coded

_STARTS = frozenset({"start", "started", "begin", "begun"})
_COMPLETIONS = frozenset({"", "complete", "completed", "end", "ended", "finish", "finished"})


class Pairs(NamedTuple):
    """The m events made from rows, in the order of their completions' rows."""

    start_row: np.ndarray  # int64[m], row with the start; the completion's own row if it has both times
    end_row: np.ndarray  # int64[m], row with the completion
    unstarted: np.ndarray  # int64, rows of completions without a start
    unfinished: np.ndarray  # int64, rows of starts without a completion


def pair_lifecycles(texts: dict[str, Coded], time: np.ndarray, whole: np.ndarray) -> Pairs:
    """Pair each completion with the earliest open start of its case, activity and instance, preferably by its person.

    Other transitions (schedule, suspend, ...) are ignored.

    Args:
        texts: case, activity, resource and transition of n rows, and the instance if the log has one.
        time: float64[n], time of each row in seconds; rows are taken in this order.
        whole: bool[n], rows that have both start and completion.
    """
    is_start = _is_one_of(texts["transition"], _STARTS) & ~whole
    is_completion = _is_one_of(texts["transition"], _COMPLETIONS) & ~whole
    case, activity = texts["case"].code.astype(np.int64), texts["activity"]
    key = case * len(activity.values) + activity.code
    if "instance" in texts:
        key = key * len(texts["instance"].values) + texts["instance"].code
    order = np.argsort(time, kind="stable")
    order = order[(is_start | is_completion)[order]]
    return _paired(order, key, texts["resource"].code, is_start, np.flatnonzero(whole))


def makes_events(transition: Coded) -> np.ndarray:
    """Return bool[n], whether each row is a start or a completion."""
    return _is_one_of(transition, _STARTS | _COMPLETIONS)


def _paired(order: np.ndarray, key: np.ndarray, resource: np.ndarray, is_start: np.ndarray, whole: np.ndarray) -> Pairs:
    """Return the pairs of rows in an order, and the whole rows."""
    open_starts: dict[int, list[tuple[int, int]]] = {}  # row and resource of open starts
    begun, ended, unstarted = [], [], []
    columns = (order, key[order], resource[order], is_start[order])
    for row, what, who, start in zip(*(column.tolist() for column in columns), strict=True):
        if start:
            open_starts.setdefault(what, []).append((row, who))
        elif starts := open_starts.get(what):
            own = next((i for i, (_, other) in enumerate(starts) if other == who), 0)
            begun.append(starts.pop(own)[0])
            ended.append(row)
        else:
            unstarted.append(row)
    unfinished = [row for starts in open_starts.values() for row, _ in starts]
    start_row, end_row = (np.concatenate([np.array(rows, np.int64), whole]) for rows in (begun, ended))
    place = np.argsort(end_row, kind="stable")
    return Pairs(start_row[place], end_row[place], np.array(unstarted, np.int64), np.array(unfinished, np.int64))


def _is_one_of(column: Coded, words: frozenset[str]) -> np.ndarray:
    """Return bool[n], whether the text of each row is one of some words."""
    return np.asarray(np.array([text.lower() in words for text in column.values], np.bool_)[column.code])
