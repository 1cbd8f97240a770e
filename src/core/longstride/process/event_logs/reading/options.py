"""Options of reading a log: columns, time format, time zone, object type, bad rows, duplicates, limits."""

from dataclasses import dataclass, field

from longstride.errors import UserError, suggestion
from longstride.process.event_logs.reading.limits import LogLimits

FIELDS = ("case", "activity", "resource", "start", "end", "transition", "instance")
"""Fields of an event; the last two are needed only if starts and completions have separate rows."""

TRANSITION_WORDS = {"started": "start", "completed": "complete", "suspended": "suspend", "resumed": "resume"}
"""Meaning of the words of transitions that ``--log-columns`` can name, besides columns."""

COLUMNS_OPTION = "--log-columns"


@dataclass(frozen=True)
class LogReading:
    """Options of reading a log, apart from its columns.

    Attributes:
        time_format: format of ``datetime.strptime``, ``day-first``, ``month-first``, or "" to recognise it.
        time_zone: IANA name of the zone in whose hours people work, or "" for the offsets of the file.
        object_type: type of the objects of an object-centric log that become cases, or "".
        skip_bad_rows: whether bad rows are left out; otherwise the first bad row is an error.
        keep_duplicates: whether events that equal another one in all fields are kept.
        limits: limits of reading the log.
    """

    time_format: str = ""
    time_zone: str = ""
    object_type: str = ""
    skip_bad_rows: bool = False
    keep_duplicates: bool = False
    limits: LogLimits = field(default_factory=LogLimits)


def parse_log_columns(text: str) -> dict[str, str]:
    """Return the column of each field in the value of ``--log-columns``, like ``case=Claim,activity=Step,start=Begin``.

    Words of transitions are among them: ``started=S|Begin,completed=C``.

    Raises:
        UserError: a part is not ``field=column``, or names an unknown field or a field for the second time.
    """
    columns: dict[str, str] = {}
    for part in text.split(","):
        name, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not column:
            raise UserError(
                f"{COLUMNS_OPTION}: expected parts like case=Claim with commas between them, not {part.strip()!r}."
            )
        if name not in (known := (*FIELDS, *TRANSITION_WORDS)):
            ending = suggestion(name.lower(), known, f"there are {', '.join(known)}")
            raise UserError(f"{COLUMNS_OPTION}: unknown field {name!r}{ending}")
        if name in columns:
            raise UserError(f"{COLUMNS_OPTION}: {name} is given twice.")
        columns[name] = column
    return columns
