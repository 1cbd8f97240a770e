"""Event logs as XES (IEEE 1849): traces of events, life-cycle transitions paired into start and end."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, NoReturn
from xml.etree import ElementTree
from xml.parsers import expat

from core.errors import UserError
from core.simulators.process.event_logs.read_csv import RawEvent

_CHUNK = 1 << 16


@dataclass
class _Counts:
    """Counts of the pairing of starts and completions."""

    events: int = 0
    starts: int = 0
    unstarted: int = 0
    unfinished: int = 0
    unstarted_activities: set[str] = field(default_factory=set)


class _RootFoundError(Exception):
    """The document's first element is reached, after which there can be no DOCTYPE."""


def read_xes(file: IO[bytes], source: str, notes: list[str]) -> Iterator[RawEvent]:
    """Yield the events of an XES file, one trace at a time, in memory for one trace.

    An event with a ``start_timestamp`` is complete. Otherwise a completion is paired with the earliest open start of
    its case, activity and ``concept:instance``, one by the same resource first. Other transitions (schedule, suspend,
    ...) are ignored; an event without a partner is left out and counted in a sentence that is added to ``notes``.
    ``file`` is unpacked and seekable; ``source`` is its name for messages.

    Raises:
        UserError: not XES, a DOCTYPE (entities are refused), a trace without a name, or no start times at all.
    """
    refuse_doctype(file, source)
    file.seek(0)
    counts = _Counts()
    traces = 0
    try:
        for trace in _traces(file, source):
            traces += 1
            yield from _whole_events(trace, traces, counts, source)
    except ElementTree.ParseError as error:
        raise UserError(f"{source} is not well-formed XML: {error}.") from None
    if counts.events and not counts.starts:
        raise UserError(
            f"{source} has no start times (no lifecycle:transition start, no start_timestamp): without start and end "
            "of each event its service times cannot be known. Export the log with start events."
        )
    notes += _notes(counts)


def refuse_doctype(file: IO[bytes], source: str) -> None:
    """Read up to the first element and refuse a DOCTYPE, and with it every entity, before one is expanded.

    Raises:
        UserError: the file has a DOCTYPE or is not XML.
    """

    def refuse(*_: object) -> NoReturn:
        raise UserError(f"{source} declares a DOCTYPE, which XES does not need and which is refused; remove it.")

    def stop(*_: object) -> NoReturn:
        raise _RootFoundError

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = stop
    try:
        while chunk := file.read(_CHUNK):
            parser.Parse(chunk, False)
    except _RootFoundError:
        return
    except expat.ExpatError as error:
        raise UserError(f"{source} is not well-formed XML: {error}.") from None
    raise UserError(f"{source} is neither CSV nor XES: it holds no XML element.")


def _traces(file: IO[bytes], source: str) -> Iterator[ElementTree.Element]:
    """Yield each finished trace element and free it afterwards."""
    root: ElementTree.Element | None = None
    for event, element in ElementTree.iterparse(file, ("start", "end")):
        if root is None:
            root = element
            if _tag(element) != "log":
                raise UserError(f"{source} is XML but not XES: its first element is {_tag(element)!r}, not 'log'.")
        elif event == "end" and _tag(element) == "trace":
            yield element
            root.clear()


def _whole_events(trace: ElementTree.Element, number: int, counts: _Counts, source: str) -> Iterator[RawEvent]:
    """Yield the events of a trace that have both start and end."""
    case = _attributes(trace).get("concept:name", "")
    if not case:
        raise UserError(f"{source}: trace {number} has no concept:name, which is its case id.")
    started: dict[tuple[str, str], list[tuple[str, str]]] = {}  # resource and time of starts without completion
    for element in trace:
        if _tag(element) != "event":
            continue
        counts.events += 1
        values = _attributes(element)
        activity, resource = values.get("concept:name", ""), values.get("org:resource", "")
        time, start = values.get("time:timestamp", ""), values.get("start_timestamp", "")
        transition = values.get("lifecycle:transition", "complete").lower()
        starts = started.setdefault((activity, values.get("concept:instance", "")), [])
        if start:
            counts.starts += 1
            yield counts.events, case, activity, resource, start, time
        elif transition == "start":
            counts.starts += 1
            starts.append((resource, time))
        elif transition == "complete" and starts:
            own = next((i for i, (name, _) in enumerate(starts) if name == resource), 0)
            name, start = starts.pop(own)
            yield counts.events, case, activity, resource or name, start, time
        elif transition == "complete":
            counts.unstarted += 1
            counts.unstarted_activities.add(activity)
    counts.unfinished += sum(map(len, started.values()))


def _attributes(element: ElementTree.Element) -> dict[str, str]:
    """Return the values of an element's own XES attributes by key."""
    return {child.get("key", ""): child.get("value", "").strip() for child in element if child.get("key")}


def _tag(element: ElementTree.Element) -> str:
    """Return an element's name without its namespace."""
    return element.tag.rpartition("}")[2]


def _notes(counts: _Counts) -> list[str]:
    notes = []
    if counts.unstarted:
        names = sorted(counts.unstarted_activities)
        shown = ", ".join(names[:3]) + (" and more" if len(names) > 3 else "")
        notes.append(f"{counts.unstarted:,} completions without a start are left out (of {shown}).")
    if counts.unfinished:
        notes.append(f"{counts.unfinished:,} starts without a completion are left out.")
    return notes
