"""One small event log in the forms in which people have theirs."""

import json
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta

START = datetime(2024, 3, 4, 8)
NAMES = ("case_id", "activity", "resource", "start_time", "end_time")
PEOPLE = ("Ann", "Jürgen", "Zoë")


def events(cases=12):
    """Return rows of (case, activity, resource, start, end); every case is checked, then signed."""
    rows = []
    for i in range(cases):
        begin = START + timedelta(days=2 * i, minutes=7 * i)
        rows.append((f"c{i}", "Check", PEOPLE[i % 3], begin, begin + timedelta(minutes=20 + i, seconds=i)))
        rows.append((f"c{i}", "Sign", PEOPLE[(i + 1) % 3], begin + timedelta(hours=1), begin + timedelta(hours=2)))
    return rows


def csv_text(rows, form="%Y-%m-%dT%H:%M:%S", names=NAMES, separator=","):
    """Return rows as CSV with times of some format, or what a function of a time returns."""
    written = form if callable(form) else lambda time: time.strftime(form)
    lines = [separator.join(names)]
    for *texts, start, end in rows:
        lines.append(separator.join([*texts, written(start), written(end)]))
    return "\n".join(lines) + "\n"


def lifecycle_csv(rows, names=("case:concept:name", "concept:name", "org:resource", "lifecycle:transition")):
    """Return rows as CSV in which starts and completions have rows of their own, in the order of time."""
    halves = [(start, 0, (*texts, "start")) for *texts, start, _ in rows]
    halves += [(end, 1, (*texts, "COMPLETE")) for *texts, _, end in rows]
    lines = [",".join([*names, "time:timestamp"])]
    lines += [",".join([*texts, time.isoformat()]) for time, _, texts in sorted(halves)]
    return "\n".join(lines) + "\n"


def completions_csv(rows):
    """Return rows as CSV without their starts."""
    return "\n".join(
        ["case_id,activity,resource,timestamp", *(f"{c},{a},{r},{end.isoformat()}" for c, a, r, _, end in rows)]
    )


def ocel(rows, more=()):
    """Return rows as the data of an OCEL 2.0 file: a case is an order, a person an employee; ``more`` are items."""
    cases, people = (dict.fromkeys(row[i] for row in rows) for i in (0, 2))
    objects = [(name, kind) for names, kind in ((cases, "orders"), (people, "employees")) for name in names]
    return {
        "eventTypes": [{"name": name, "attributes": []} for name in dict.fromkeys(row[1] for row in rows)],
        "objectTypes": [{"name": name, "attributes": []} for name in ("orders", "employees")],
        "objects": [{"id": name, "type": kind} for name, kind in [*objects, *((item, "items") for item in more)]],
        "events": [
            {
                "id": f"e{i}",
                "type": activity,
                "time": f"{end.isoformat()}Z",
                "attributes": [{"name": "start_timestamp", "value": f"{start.isoformat()}Z"}],
                "relationships": [{"objectId": o, "qualifier": "of"} for o in (case, person, *more)],
            }
            for i, (case, activity, person, start, end) in enumerate(rows)
        ],
    }


def ocel_json(rows, more=()):
    """Return rows as an OCEL 2.0 file in JSON."""
    return json.dumps(ocel(rows, more))


def write_ocel_sqlite(rows, path, more=()):
    """Write rows as an OCEL 2.0 file in SQLite."""
    data = ocel(rows, more)
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("CREATE TABLE object (ocel_id TEXT, ocel_type TEXT)")
        base.execute("CREATE TABLE event_object (ocel_event_id TEXT, ocel_object_id TEXT, ocel_qualifier TEXT)")
        base.execute("CREATE TABLE event_map_type (ocel_type TEXT, ocel_type_map TEXT)")
        base.executemany("INSERT INTO object VALUES (?, ?)", [(o["id"], o["type"]) for o in data["objects"]])
        for kind in data["eventTypes"]:
            base.execute("INSERT INTO event_map_type VALUES (?, ?)", (kind["name"], f"{kind['name']}Table"))
            base.execute(f"CREATE TABLE event_{kind['name']}Table (ocel_id TEXT, ocel_time TEXT, start_timestamp TEXT)")
        for event in data["events"]:
            values = (event["id"], event["time"], event["attributes"][0]["value"])
            base.execute(f"INSERT INTO event_{event['type']}Table VALUES (?, ?, ?)", values)
            related = [(event["id"], r["objectId"], r["qualifier"]) for r in event["relationships"]]
            base.executemany("INSERT INTO event_object VALUES (?, ?, ?)", related)
