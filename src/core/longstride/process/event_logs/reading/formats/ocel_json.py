"""Object-centric event logs (OCEL 2.0) as JSON."""

from pathlib import Path
from typing import Any

from longstride.errors import UserError, one_line
from longstride.process.event_logs.reading.decode import encoding_of, read_log
from longstride.process.event_logs.reading.formats.ocel import Event, Objects, flattened
from longstride.process.event_logs.reading.json_content import parse_json
from longstride.process.event_logs.reading.limits import Guard
from longstride.process.event_logs.reading.table import Table


def ocel_json_table(path: Path, guard: Guard, object_type: str) -> Table:
    """Return the flattened table of an OCEL 2.0 file as JSON; see :func:`..ocel.flattened`.

    Raises:
        UserError: the file is not OCEL 2.0, it is not clear which objects are cases, or a limit is exceeded.
    """
    source, content = guard.source, read_log(path, guard)
    try:
        data = parse_json(content.decode(encoding_of(content[:1024])), guard)
    except ValueError as error:
        raise UserError(f"{source} starts like JSON and is not valid: {one_line(error)}.") from None
    guard.check()
    if isinstance(data, dict) and "ocel:events" in data:
        raise UserError(f"{source} is an OCEL 1.0 log; convert it to OCEL 2.0, or flatten it to a CSV.")
    try:
        log = Objects(
            [_event(event) for event in data["events"]],
            {str(thing["id"]): str(thing["type"]) for thing in data["objects"]},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{source} is JSON, but no OCEL 2.0 log, the only kind of JSON that is read ({one_line(error)})."
        ) from None
    return flattened(log, guard, object_type)


def _event(event: dict[str, Any]) -> Event:
    attributes = {str(a["name"]): a["value"] for a in event.get("attributes") or ()}
    related = [str(r["objectId"]) for r in event.get("relationships") or ()]
    return Event(str(event["type"]), event["time"], attributes, related)
