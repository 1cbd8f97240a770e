"""The classes of the open cases of a log, for a scenario whose activities are split by class."""

from collections.abc import Mapping
from pathlib import Path

from longstride.errors import UserError
from longstride.process.event_logs.open_events import OpenEvents
from longstride.process.event_logs.reading.attributes import read_attributes
from longstride.process.event_logs.reading.options import LogReading
from longstride.process.mining.classes.groups import class_of
from longstride.process.scenario.classes import SEPARATOR
from longstride.process.snapshots.names import Names
from longstride.text import counted


def in_classes(
    events: OpenEvents, path: Path, columns: Mapping[str, str], reading: LogReading, column: str, names: Names
) -> OpenEvents:
    """Return events whose activities are the parts of the classes of their cases; the same if none is split.

    Args:
        events: content of the log.
        path: file of the log.
        columns: column names that the user gave, by field.
        reading: options of reading it.
        column: column of the classes, the setting CLASSES.
        names: names of the scenario.

    Raises:
        UserError: activities are split, but no column is named, or the log does not have it.
    """
    if not any(name.endswith(f"{SEPARATOR}{of}") for name in names.activities for of in names.classes):
        return events
    if column in ("", "auto"):
        raise UserError(
            f"The scenario's activities are split by class ({', '.join(names.classes)}), so a log needs the column of "
            "the classes: --classes COLUMN."
        )
    attribute = read_attributes(path, columns, reading, column)[0]
    cases = {*events.done, *events.opened, *(task.case for task in (*events.in_work, *events.waiting))}
    of = {case: class_of(attribute.values.get(case, ""), attribute.name, names.classes) for case in cases}

    def part(case: str, activity: str) -> str:
        name = f"{activity}{SEPARATOR}{of[case]}"
        return name if name in names.activities else activity

    lost = sum(not name for name in of.values())
    note = f"{counted(lost, 'case')}: of no class of the scenario by {attribute.name!r}."
    return events._replace(
        done={case: [(part(case, name), age) for name, age in done] for case, done in events.done.items()},
        in_work=[task._replace(activity=part(task.case, task.activity)) for task in events.in_work],
        waiting=[task._replace(activity=part(task.case, task.activity)) for task in events.waiting],
        notes=[*events.notes, *[note] * bool(lost)],
    )
