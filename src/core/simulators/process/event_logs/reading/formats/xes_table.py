"""Event logs as XES (IEEE 1849): traces of events, one row each."""

from collections.abc import Iterator
from typing import IO, NoReturn
from xml.etree import ElementTree
from xml.parsers import expat

from core.errors import UserError
from core.simulators.process.event_logs.reading.table import BLOCK_ROWS, BadRow, Block, Table

FIELDS = {
    "case": "case:concept:name",
    "activity": "concept:name",
    "resource": "org:resource",
    "start": "start_timestamp",
    "end": "time:timestamp",
    "transition": "lifecycle:transition",
    "instance": "concept:instance",
}
"""Attribute of each field; the case is the name of the trace."""

_CHUNK = 1 << 16


class _RootFoundError(Exception):
    """The document's first element is reached, after which there can be no DOCTYPE."""


def xes_table(file: IO[bytes], source: str) -> Table:
    """Return the table of an XES file: a row for each event, in memory for one trace and one block.

    ``file`` is unpacked and seekable; ``source`` is its name for messages.

    Raises:
        UserError: not XES, or a DOCTYPE (entities are refused). A trace without a name is a bad row.
    """
    refuse_doctype(file, source)
    file.seek(0)
    names = list(FIELDS.values())

    def blocks(wanted: list[int]) -> Iterator[Block]:
        try:
            yield from _blocks(file, source, [names[i] for i in wanted])
        except ElementTree.ParseError as error:
            raise UserError(f"{source} is not well-formed XML: {error}.") from None

    return Table(names, "event", blocks)


def _blocks(file: IO[bytes], source: str, wanted: list[str]) -> Iterator[Block]:
    """Yield the events of whole traces."""
    numbers: list[int] = []
    rows: list[list[str]] = []
    bad: list[BadRow] = []
    events = 0
    for trace_number, trace in enumerate(_traces(file, source), 1):
        case = _attributes(trace).get("concept:name", "")
        if not case:
            bad.append(BadRow(trace_number, "has no concept:name, which is its case id", (), "trace"))
        for element in trace:
            if _tag(element) != "event":
                continue
            events += 1
            if case:
                values = _attributes(element) | {FIELDS["case"]: case}
                numbers.append(events)
                rows.append([values.get(name, "") for name in wanted])
        if len(rows) >= BLOCK_ROWS:
            yield Block(numbers, list(zip(*rows, strict=True)), bad)
            numbers, rows, bad = [], [], []
    yield Block(numbers, list(zip(*rows, strict=True)) if rows else [()] * len(wanted), bad)


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


def _attributes(element: ElementTree.Element) -> dict[str, str]:
    """Return the values of an element's own XES attributes by key."""
    return {child.get("key", ""): child.get("value", "").strip() for child in element if child.get("key")}


def _tag(element: ElementTree.Element) -> str:
    """Return an element's name without its namespace."""
    return element.tag.rpartition("}")[2]
