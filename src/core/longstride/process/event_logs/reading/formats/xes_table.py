"""Event logs as XES (IEEE 1849): traces of events, one row each."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, NoReturn
from xml.parsers import expat

from longstride.errors import UserError, one_line
from longstride.process.event_logs.reading.limits import LONGEST_TEXT, Guard
from longstride.process.event_logs.reading.table import BLOCK_ROWS, BadRow, Block, Table

FIELDS = {
    "case": "case:concept:name",
    "activity": "concept:name",
    "resource": "org:resource",
    "start": "start_timestamp",
    "end": "time:timestamp",
    "transition": "lifecycle:transition",
    "instance": "concept:instance",
}
"""XES attribute of each field; the case is the name of the trace."""

_CHUNK = 1 << 16
_TRACE, _EVENT = 2, 3
"""Depths of the elements that are read; the log has depth 1."""
_IN_EVENT = ["trace", "event"]


_OF_TRACE = "case:"
"""Before the names of attributes of traces, as in the column of cases."""


def xes_table(file: IO[bytes], guard: Guard, more: Sequence[str] = ()) -> Table:
    """Return the table of an XES file, with a row for each event; memory holds one trace and one block at a time.

    Args:
        file: unpacked file.
        guard: limits, and the name of the file for messages.
        more: further columns, see :func:`xes_attributes`.

    Raises:
        UserError: the file is not XES, has a DOCTYPE (entities are refused) or an unsupported encoding, or exceeds a
            limit. A trace without a name is a bad row.
    """
    names = [*FIELDS.values(), *more]

    def blocks(wanted: list[int]) -> Iterator[Block]:
        reader = _Traces(guard, [names[i] for i in wanted])
        for _ in _parsed(file, reader, guard):
            if reader.count >= BLOCK_ROWS:
                yield reader.take()
        yield reader.take()

    return Table(names, "event", blocks)


def xes_attributes(file: IO[bytes], guard: Guard) -> list[str]:
    """Return the names of the attributes that hold no field of an event; those of traces begin with ``case:``.

    Arguments and errors are those of :func:`xes_table`.
    """
    names = dict[str, None]()
    reader = _Traces(guard, [], names)
    for _ in _parsed(file, reader, guard):
        reader.take()
        guard.require_columns(len(names))
    return [name for name in names if name not in FIELDS.values()]


def _parsed(file: IO[bytes], reader: "_Traces", guard: Guard) -> Iterator[None]:
    """Parse XML and return after each piece.

    Raises:
        UserError: the XML is not well-formed, has an unsupported encoding, or too much text without a tag.
    """
    since, events, chunk = 0, 0, b" "
    with xml_errors(guard.source):
        refuse_doctype(reader.parser, guard.source)
        while chunk:
            chunk = file.read(_CHUNK)
            if not chunk and not reader.root:
                raise UserError(f"{guard.source} is neither CSV nor XES: it holds no XML element.")
            reader.has_tags = False
            reader.parser.Parse(chunk, not chunk)
            since = 0 if reader.has_tags else since + len(chunk)
            require_tags(since, guard.source)
            if reader.events > events:
                events = reader.events
                guard.require_rows(events)
                guard.progress()
            yield


def refuse_doctype(parser: expat.XMLParserType, source: str) -> None:
    """Let a parser refuse a DOCTYPE, and so every entity, before one is expanded."""

    def refuse(*_: object) -> NoReturn:
        raise UserError(f"{source} declares a DOCTYPE, which no log needs and which is refused; remove it.")

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse


def require_tags(since: int, source: str) -> None:
    """Refuse XML with too many bytes since its last tag: blanks, a comment or a value without an end."""
    if since > LONGEST_TEXT:
        raise UserError(
            f"{source} has more than {LONGEST_TEXT:,} characters without a tag of XML; this is not an event log."
        )


@contextmanager
def xml_errors(source: str) -> Iterator[None]:
    """Turn the errors of a parser into sentences."""
    try:
        yield
    except expat.ExpatError as error:
        raise UserError(f"{source} is not well-formed XML: {one_line(error)}.") from None
    except (LookupError, ValueError) as error:
        raise UserError(
            f"{source} declares an encoding that is not read ({one_line(error)}); save it as UTF-8."
        ) from None


class _Traces:
    """Collects the events of finished traces while a parser reads them."""

    def __init__(self, guard: Guard, wanted: list[str], names: dict[str, None] | None = None) -> None:
        """Create a parser that collects the values of some attributes, or the names of all of them."""
        self._guard, self._wanted, self._kept, self._names = guard, wanted, frozenset(wanted), names
        self.root = ""  # name of the first element
        self.has_tags = False  # whether there was a tag since this was last set to False
        self.events = 0
        self._depth = self._traces = 0
        self._inside: list[str] = []  # names of the open elements, three at most
        self._case = ""
        self._trace: dict[str, str] = {}  # attributes of the open trace
        self._event: dict[str, str] = {}
        self._open: list[tuple[int, dict[str, str]]] = []  # events of the open trace
        self._numbers: list[int] = []
        self._rows: list[list[str]] = []
        self._bad: list[BadRow] = []
        self.parser = expat.ParserCreate(namespace_separator="}")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end

    @property
    def count(self) -> int:
        """Return the number of finished rows."""
        return len(self._rows) + len(self._bad)

    def take(self) -> Block:
        """Return the finished rows and forget them."""
        columns = list(zip(*self._rows, strict=True)) if self._rows else [()] * len(self._wanted)
        block = Block(self._numbers, columns, self._bad)
        self._numbers, self._rows, self._bad = [], [], []
        return block

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.has_tags = True
        depth, inside = self._depth, self._inside
        self._depth += 1
        if depth == _EVENT and inside[1:] == _IN_EVENT:
            _keep(self._event, attributes, self._kept)
            if self._names is not None:
                self._names[attributes.get("key", "")] = None
        elif depth < _EVENT:
            self._open_element(name.rpartition("}")[2], depth, attributes)
        elif depth >= self._guard.limits.max_nesting:
            self._guard.refuse_nesting()

    def _open_element(self, name: str, depth: int, attributes: dict[str, str]) -> None:
        """Handle the start of the document, of a trace, or of a direct child of a trace."""
        self._inside.append(name)
        if depth == 0:
            self._require_log(name)
        elif depth == _TRACE - 1 and name == "trace":
            self._traces += 1
            self._case, self._open, self._trace = "", [], {}
        elif depth == _EVENT - 1 and self._inside[1] == "trace":
            if name == "event":
                self.events += 1
                self._event = {}
            elif attributes.get("key") == "concept:name":
                self._case = attributes.get("value", "").strip()
            else:
                key = _OF_TRACE + attributes.get("key", "")
                _keep(self._trace, {**attributes, "key": key}, self._kept)
                if self._names is not None:
                    self._names[key] = None

    def _require_log(self, name: str) -> None:
        self.root = name
        if name != "log":
            if name == "ocel":
                raise UserError(f"{self._guard.source} is an OCEL log as XML, which is not read; save it as JSON.")
            raise UserError(f"{self._guard.source} is XML but not XES: its first element is {name[:100]!r}, not 'log'.")

    def _end(self, name: str) -> None:
        self.has_tags = True
        self._depth -= 1
        if self._depth >= _EVENT:
            return
        if self._depth == _EVENT - 1 and self._inside[1:] == _IN_EVENT:
            self._open.append((self.events, self._event))
        elif self._depth == _TRACE - 1 and self._inside[1] == "trace":
            self._close_trace()
        self._inside.pop()

    def _close_trace(self) -> None:
        if not self._case:
            self._bad.append(BadRow(self._traces, "has no concept:name, which is its case id", (), "trace"))
            return
        for number, values in self._open:
            values |= {**self._trace, FIELDS["case"]: self._case}
            self._numbers.append(number)
            self._rows.append([values.get(name, "") for name in self._wanted])


def _keep(values: dict[str, str], attributes: dict[str, str], kept: frozenset[str]) -> None:
    """Keep the value of a requested attribute."""
    if (key := attributes.get("key", "")) in kept:
        values[key] = attributes.get("value", "").strip()
