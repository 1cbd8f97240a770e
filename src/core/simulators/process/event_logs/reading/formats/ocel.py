"""Object-centric event logs (OCEL 2.0) as JSON and SQLite, flattened by the type of the objects that become cases.

An event that belongs to several such objects becomes a row in each of their cases, as in
W. van der Aalst, A. Berti: Discovering Object-Centric Petri Nets, Fundamenta Informaticae 175 (2020).
"""

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any, NamedTuple

from core.errors import UserError, one_line, suggestion
from core.simulators.process.event_logs.reading.decode import encoding_of
from core.simulators.process.event_logs.reading.table import Block, Table, blocks_of

_OPTION = "--object-type"
_CASE, _ACTIVITY, _TIME = "case:concept:name", "concept:name", "time:timestamp"
_PEOPLE = re.compile(r"(?i)(employees?|resources?|users?|workers?|persons?|people|staff|agents?)")
"""Names of object types that hold people; their objects are resources, never cases."""


class _Event(NamedTuple):
    """An event with its attributes and the ids of its objects."""

    activity: str
    time: Any
    attributes: dict[str, Any]
    objects: list[str]


class _Objects(NamedTuple):
    """An object-centric log."""

    events: list[_Event]
    types: dict[str, str]  # type of each object by its id


def ocel_json_table(file: IO[bytes], source: str, object_type: str) -> Table:
    """Return the flattened table of an OCEL 2.0 file as JSON; see :func:`_flattened`.

    Raises:
        UserError: the file is no OCEL 2.0, or it does not say which objects are cases.
    """
    content = file.read()
    try:
        data = json.loads(content.decode(encoding_of(content[:1024])))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{source} starts like JSON and is not valid: {one_line(error)}.") from None
    if isinstance(data, dict) and "ocel:events" in data:
        raise UserError(f"{source} is an OCEL 1.0 log; convert it to OCEL 2.0, or flatten it to a CSV.")
    try:
        log = _Objects(
            [_json_event(event) for event in data["events"]],
            {str(thing["id"]): str(thing["type"]) for thing in data["objects"]},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{source} is JSON, but no OCEL 2.0 log, the only kind of JSON that is read ({one_line(error)})."
        ) from None
    return _flattened(log, source, object_type)


def _json_event(event: dict[str, Any]) -> _Event:
    attributes = {str(a["name"]): a["value"] for a in event.get("attributes") or ()}
    related = [str(r["objectId"]) for r in event.get("relationships") or ()]
    return _Event(str(event["type"]), event["time"], attributes, related)


def ocel_sqlite_table(path: Path, source: str, object_type: str) -> Table:
    """Return the flattened table of an OCEL 2.0 file as SQLite database; see :func:`_flattened`.

    Raises:
        UserError: the file is no OCEL 2.0, or it does not say which objects are cases.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as base:
            base.execute("PRAGMA trusted_schema = OFF")
            types = {str(i): str(kind) for i, kind in base.execute("SELECT ocel_id, ocel_type FROM object")}
            related: dict[Any, list[str]] = {}
            for event, thing in base.execute("SELECT ocel_event_id, ocel_object_id FROM event_object"):
                related.setdefault(event, []).append(str(thing))
            events = list(_sqlite_events(base, related))
    except sqlite3.Error as error:
        raise UserError(f"{source} is an SQLite database, but no readable OCEL 2.0 log: {one_line(error)}.") from None
    return _flattened(_Objects(events, types), source, object_type)


def _sqlite_events(base: sqlite3.Connection, related: dict[Any, list[str]]) -> Iterator[_Event]:
    """Yield the events of all types; each type has a table of its own."""
    for activity, table in list(base.execute("SELECT ocel_type, ocel_type_map FROM event_map_type")):
        quoted = f"event_{table}".replace('"', '""')
        rows = base.execute(f'SELECT * FROM "{quoted}"')
        names = [str(column[0]) for column in rows.description]
        for row in rows:
            values = dict(zip(names, row, strict=True))
            event, time = values.pop("ocel_id", None), values.pop("ocel_time", None)
            yield _Event(str(activity), time, values, related.get(event, []))


def _flattened(log: _Objects, source: str, object_type: str) -> Table:
    """Return a table of rows, one for each event and object of a type, in the order of time.

    Its columns are case, activity and time in pm4py's names, the attributes of events, and for each other type of
    objects the first related object. A column of people (``employees``) so becomes the resource.
    """
    chosen = _choose_type(log, source, object_type)
    types = dict.fromkeys(kind for kind in log.types.values() if kind != chosen)
    attributes = dict.fromkeys(name for event in log.events for name in event.attributes)
    more = [name for name in [*attributes, *types] if name not in (_CASE, _ACTIVITY, _TIME)]
    names = [_CASE, _ACTIVITY, _TIME, *dict.fromkeys(more)]
    events = sorted(enumerate(log.events, 1), key=lambda pair: (str(pair[1].time), pair[0]))

    def rows() -> Iterator[tuple[int, list[Any]]]:
        for number, event in events:
            first: dict[str, str] = {}
            for thing in event.objects:
                first.setdefault(log.types.get(thing, ""), thing)
            values = {**first, **event.attributes, _ACTIVITY: event.activity, _TIME: event.time}
            for case in dict.fromkeys(o for o in event.objects if log.types.get(o) == chosen):
                yield number, [case if name == _CASE else values.get(name) for name in names]

    def blocks(wanted: list[int]) -> Iterator[Block]:
        return blocks_of((number, [row[i] for i in wanted]) for number, row in rows())

    return Table(names, "event", blocks, _notes(log, chosen))


def _choose_type(log: _Objects, source: str, object_type: str) -> str:
    """Return the type of the objects that become cases.

    Raises:
        UserError: the named type does not exist, or none is named and several are possible.
    """
    counts = Counter(log.types.values())
    shown = ", ".join(f"{kind} ({count:,})" for kind, count in counts.items())
    if object_type in counts:
        return object_type
    if object_type:
        raise UserError(
            f"{source} has no objects of type {object_type!r}{suggestion(object_type, counts, f'it has {shown}')}"
        )
    possible = [kind for kind in counts if not _PEOPLE.fullmatch(kind)]
    if len(possible) != 1:
        raise UserError(
            f"{source} has objects of several types, {shown}: say with {_OPTION} which of them are the cases."
            if counts
            else f"{source} holds no objects, so its events belong to no case."
        )
    return possible[0]


def _notes(log: _Objects, chosen: str) -> list[str]:
    cases = [sum(log.types.get(o) == chosen for o in dict.fromkeys(event.objects)) for event in log.events]
    notes = [f"Each object of type {chosen!r} is a case."]
    if several := sum(count > 1 for count in cases):
        notes.append(
            f"{several:,} of {len(cases):,} events belong to several of these objects and count once for each, so "
            "their work is counted several times."
        )
    if none := cases.count(0):
        notes.append(f"{none:,} events belong to none of these objects and are left out.")
    return notes
