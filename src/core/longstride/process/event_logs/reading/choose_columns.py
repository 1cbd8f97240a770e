"""Finds the column of each field of an event, by common names or by the user's choice."""

import re
from collections.abc import Mapping, Sequence

from longstride.errors import UserError, suggestion
from longstride.process.event_logs.reading.options import COLUMNS_OPTION, FIELDS
from longstride.process.event_logs.reading.words.transitions import are_transitions

REQUIRED = ("case", "activity", "resource", "end")

_NAMES = {
    "case": (
        *("case_id", "case_concept_name", "case", "caseid", "case_number", "trace_id", "trace"),
        *("case_key", "case_name"),
    ),
    "activity": (
        *("activity", "concept_name", "activity_name", "activity_id", "task"),
        *("activity_en", "event_name", "status", "state"),
    ),
    "resource": (
        *("resource", "org_resource", "resource_id", "resource_name", "user", "employee", "worker"),
        *("user_name", "username", "user_id", "employees", "resources", "users", "workers"),
    ),
    "start": (
        *("start_time", "start_timestamp", "time_start_timestamp", "start", "starttime", "start_date"),
        *("event_start", "starttimestamp", "start_datetime", "started_at", "begin_time", "started", "begin"),
    ),
    "end": (
        *("end_time", "time_timestamp", "end_timestamp", "end", "endtime", "end_date"),
        *("complete_time", "complete_timestamp", "completion_time"),
        *("event_end", "endtimestamp", "end_datetime", "completetimestamp", "timestamp"),
        *("eventtime", "event_time", "datetime", "time"),
        *("completed_at", "finished_at", "ended_at", "finish_time", "completion_date", "completed", "finished"),
    ),
    "transition": (
        *("lifecycle_transition", "lifecycle", "transition", "lifecycle_id", "event_lifecycle"),
        *("lifecycle_state", "lifecycle_status", "life_cycle", "transition_type"),
    ),
    "instance": ("concept_instance", "activity_instance_id", "activity_instance", "instance_id"),
}
"""Recognised column names in the form of :func:`_plain`; the first one that is present counts."""

_TIME_OF_AN_EVENT = ("eventtime", "event_time", "timestamp")
"""Columns that hold the start if another column holds the end, and otherwise the end."""

_STATUS = ("status", "state")
"""Columns that hold the activity if no other one does, unless words such as start and complete fill them."""


def count_recognised(names: list[str], columns: Mapping[str, str]) -> int:
    """Return the number of column names that are recognised or named by the user."""
    known = {name for names in _NAMES.values() for name in names}
    return sum(name in columns.values() or _plain(name) in known for name in names)


def choose_columns(names: list[str], columns: Mapping[str, str], source: str) -> dict[str, str]:
    """Return the column of each field; start, transition and instance may be missing.

    Args:
        names: column names of the log.
        columns: column names that the user gave, by field.
        source: name of the file, for messages.

    Raises:
        UserError: a needed column is missing, a named one does not exist, or two columns have the name of a needed one.
    """
    chosen: dict[str, str] = {}
    for name in FIELDS:
        taken = {*columns.values(), *chosen.values()}
        plain = {_plain(n): n for n in reversed(names) if n not in taken}
        if name in columns:
            chosen[name] = _given_column(name, columns[name], names, source)
        elif column := next((plain[n] for n in _NAMES[name] if n in plain), None):
            chosen[name] = column
    if "start" not in chosen:
        free = {_plain(n): n for n in names if n not in {*columns.values(), *chosen.values()}}
        column = next((free[n] for n in _TIME_OF_AN_EVENT if n in free), None)
        chosen |= {"start": column} if column else {}
    _require_clear_names(chosen, names, columns, source)
    missing = [name for name in ("case", "activity", "resource", "start", "end") if name not in chosen]
    if any(name in REQUIRED for name in missing):
        example = ",".join(f"{name}=..." for name in missing)
        raise UserError(
            f"{source}: no column is recognised for {', '.join(missing)} (columns: {listed(names)}); "
            f"name them with {COLUMNS_OPTION} {example}"
        )
    return chosen


def notes_on_status(column: str, words: Sequence[str], columns: Mapping[str, str], source: str) -> list[str]:
    """Return a sentence if a column called status holds the activity, and the user has not said so.

    Args:
        column: name of the column that is taken for the activity.
        words: its different texts.
        columns: column names that the user gave, by field.
        source: name of the file, for messages.

    Raises:
        UserError: the words are those of transitions.
    """
    if "activity" in columns or _plain(column) not in _STATUS:
        return []
    if are_transitions(words):
        word = next(word for word in words if word.strip())
        raise UserError(
            f"{source}: no column is recognised for activity; {column!r} holds only transitions, such as {word!r}. "
            f"Name the column with {COLUMNS_OPTION} activity=..."
        )
    return [f"Column {column!r} is taken for the activity; {COLUMNS_OPTION} activity=... names another one."]


def _require_clear_names(chosen: dict[str, str], names: list[str], columns: Mapping[str, str], source: str) -> None:
    """Refuse a needed column whose name another one has, too, apart from case, blanks and punctuation.

    A column that the user names exactly is clear, unless another one has the very same name.
    """
    for field, column in chosen.items():
        given = columns.get(field) == column
        others = [n for n in names if (n == column if given else _plain(n) == _plain(column))]
        others = [n for n in others if n == column or n not in columns.values()]
        if len(others) > 1:
            different = next((n for n in others if n != column), None)
            called = f"called {column!r}" if different is None else f"called {column!r} and {different!r}"
            remedy = "" if different is None else f", or choose one with {COLUMNS_OPTION} '{field}={column}'"
            raise UserError(
                f"{source}: two columns are {called}, and either could hold the {field}; rename one of them{remedy}."
            )


def _given_column(name: str, column: str, names: list[str], source: str) -> str:
    """Return the column that the user named, regardless of case."""
    folded = {n.lower(): n for n in reversed(names)}
    if column in names or column.lower() in folded:
        return column if column in names else folded[column.lower()]
    ending = suggestion(column, names, f"it has {listed(names)}")
    raise UserError(f"{source} has no column {column!r} for {COLUMNS_OPTION} {name}=...{ending}")


def listed(names: list[str]) -> str:
    """Return column names for a message, at most 20 of them."""
    shown = ", ".join(names[:20])
    return shown[:300] + (" and more" if len(names) > 20 or len(shown) > 300 else "")


def _plain(name: str) -> str:
    """Return a column name without case, spaces and punctuation."""
    return re.sub(r"[\W_]+", "_", name.lower()).strip("_")
