"""Object-centric event logs (OCEL 2.0), flattened by the type of the objects that become cases.

An event that belongs to several such objects becomes a row in each of their cases, as in
W. van der Aalst, A. Berti: Discovering Object-Centric Petri Nets, Fundamenta Informaticae 175 (2020).
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from longstride.errors import UserError, suggestion
from longstride.process.event_logs.reading.limits import Guard
from longstride.process.event_logs.reading.table import Block, Table, blocks_of
from longstride.text import agreeing, counted

_OPTION = "--object-type"
_CASE, _ACTIVITY, _TIME = "case:concept:name", "concept:name", "time:timestamp"
_PEOPLE = re.compile(r"(?i)(employees?|resources?|users?|workers?|persons?|people|staff|agents?)")
"""Names of object types that hold people; their objects are resources, never cases."""


class Event(NamedTuple):
    """An event with its attributes and the ids of its objects."""

    activity: str
    time: Any
    attributes: dict[str, Any]
    objects: list[str]


class Objects(NamedTuple):
    """An object-centric log."""

    events: list[Event]
    types: dict[str, str]  # type of each object by its id


def flattened(log: Objects, guard: Guard, object_type: str) -> Table:
    """Return a table with a row for each event and object of a type, in order of time.

    Its columns are case, activity and time in pm4py's names, the attributes of events, and for each other object type
    the first related object. So a column of people (``employees``) becomes the resource.

    Raises:
        UserError: it is not clear which objects are cases, or a limit is exceeded.
    """
    # An event has a row in each of its cases, so a small file can have very many rows.
    guard.require_rows(sum(len(event.objects) for event in log.events))
    chosen = _choose_type(log, guard.source, object_type)
    types = dict.fromkeys(kind for kind in log.types.values() if kind != chosen)
    attributes = dict.fromkeys(name for event in log.events for name in event.attributes)
    more = [name for name in [*attributes, *types] if name not in (_CASE, _ACTIVITY, _TIME)]
    names = [_CASE, _ACTIVITY, _TIME, *dict.fromkeys(more)]
    guard.require_columns(len(names))
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


def _choose_type(log: Objects, source: str, object_type: str) -> str:
    """Return the type of the objects that become cases.

    Raises:
        UserError: the named type does not exist, or no type is named and several are possible.
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
            f"{source} has objects of several types, {shown}: choose with {_OPTION} which of them are the cases."
            if counts
            else f"{source} holds no objects, so its events belong to no case."
        )
    return possible[0]


def _notes(log: Objects, chosen: str) -> list[str]:
    cases = [sum(log.types.get(o) == chosen for o in dict.fromkeys(event.objects)) for event in log.events]
    notes = [f"Each object of type {chosen!r} is a case."]
    if several := sum(count > 1 for count in cases):
        notes.append(
            f"{agreeing(several, len(cases), 'event', 'belongs', 'belong')} to several of these objects. Such an event "
            "counts once for each, so its work is counted several times."
        )
    if none := cases.count(0):
        belong = counted(
            none, "event belongs to none of these objects and is", "events belong to none of these objects and are"
        )
        notes.append(f"{belong} left out.")
    return notes
