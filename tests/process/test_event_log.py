import gzip
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from longstride.errors import UserError
from longstride.process.event_logs.event_log import read_event_log
from longstride.process.event_logs.reading.options import parse_log_columns

PUBLIC_LOGS = Path(__file__).resolve().parents[3] / "shared" / "event_logs"

HEADER = "case_id,activity,resource,start_time,end_time\n"
ROWS = "a,Check,Ann,2024-03-05T09:00:00,2024-03-05T09:30:00.5\na,Sign,,2024-03-05T10:00:00,2024-03-05T10:15:00\n"


def public_log(name):
    path = PUBLIC_LOGS / f"{name}.csv.gz"
    if not path.exists():
        pytest.skip(f"the public log {name} is not here")
    return path


def written(tmp_path, text, name="log.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read(tmp_path, text, columns=None):
    return read_event_log(written(tmp_path, text), columns)


def refused(tmp_path, text, columns=None):
    with pytest.raises(UserError) as caught:
        read(tmp_path, text, columns)
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "log.csv")) or str(tmp_path / "log.csv") in message
    return message


def test_columns_hold_what_the_rows_say(tmp_path):
    log = read(tmp_path, HEADER + ROWS)
    assert (log.cases, log.activities, log.resources) == (("a",), ("Check", "Sign"), ("Ann",))
    assert log.monday == datetime(2024, 3, 4)
    day = 24 * 3600
    np.testing.assert_array_equal(log.start, [day + 9 * 3600, day + 10 * 3600])
    np.testing.assert_array_equal(log.end, [day + 9.5 * 3600 + 0.5, day + 10.25 * 3600])
    np.testing.assert_array_equal(log.resource, [0, -1])
    np.testing.assert_array_equal(log.clock_start, log.start)
    np.testing.assert_array_equal(log.case_times(), [[day + 9 * 3600], [day + 10.25 * 3600]])


def test_the_other_column_style_separators_mark_and_gzip(tmp_path):
    header = "case:concept:name,concept:name,org:resource,start_timestamp,time:timestamp\n"
    expected = read(tmp_path, HEADER + ROWS)
    for separator in ",;\t":
        for text in (header + ROWS, (HEADER + ROWS).replace("case_id", "Case ID").replace("end_time", "End Time")):
            plain = b"\xef\xbb\xbf" + text.replace(",", separator).encode()
            for content in (plain, gzip.compress(plain)):
                log = read(tmp_path, content)
                np.testing.assert_array_equal(log.end, expected.end)
                assert log.activities == expected.activities


def test_named_columns(tmp_path):
    text = (HEADER + ROWS).replace("case_id", "Claim").replace("start_time", "Began")
    assert read(tmp_path, text, {"case": "claim", "start": "Began"}).cases == ("a",)
    assert "no column 'Begun' for --log-columns start=...; did you mean Began?" in refused(
        tmp_path, text, {"case": "Claim", "start": "Begun"}
    )


def test_parse_log_columns():
    assert parse_log_columns("case=Claim no, activity=Step") == {"case": "Claim no", "activity": "Step"}
    for text, sentence in {
        "case": "expected parts like case=Claim with commas between them, not 'case'",
        "case=": "expected parts like",
        "activty=x": "unknown field 'activty'; did you mean activity\\?",
        "zzz=x": "unknown field 'zzz'; there are case, activity, resource, start, end",
        "case=a,case=b": "case is given twice",
    }.items():
        with pytest.raises(UserError, match=sentence):
            parse_log_columns(text)


def test_offsets_summer_time_keeps_durations_real_and_clock_local(tmp_path):
    # Berlin, night of 31 March 2024: 02:00 becomes 03:00.
    rows = "a,Check,Ann,2024-03-31 01:30:00+01:00,2024-03-31 03:30:00+02:00\na,Check,Ann,2024-04-01T09:00:00+02:00,"
    log = read(tmp_path, HEADER + rows + "2024-04-01T10:00:00+02:00\n")
    np.testing.assert_array_equal(log.end - log.start, [3600, 3600])
    assert log.monday == datetime(2024, 3, 25)
    np.testing.assert_array_equal(log.clock_start / 3600, [6 * 24 + 1.5, 7 * 24 + 9])
    np.testing.assert_array_equal(log.start / 3600, [6 * 24 + 1.5, 7 * 24 + 8])


def test_no_clock_is_before_the_first_monday(tmp_path):
    """The first event is on a Monday by its own clock; a later one, by another clock, is still on the Sunday."""
    file = tmp_path / "log.csv"
    file.write_text(
        "case,activity,resource,start,end\n"
        "a,check,ann,2024-03-04T00:30:00+02:00,2024-03-04T01:30:00+02:00\n"
        "b,check,ann,2024-03-03T23:30:00+00:00,2024-03-03T23:50:00+00:00\n"
    )
    log = read_event_log(file)
    assert log.monday == datetime(2024, 2, 26)
    assert (log.clock_start / 3600.0).tolist() == [168.5, 167.5]
    assert (log.start[1] - log.start[0]) / 3600.0 == 1.0


def test_z_and_fractions_of_any_length(tmp_path):
    row = "a,Check,Ann,2024-03-05T09:00:00.1Z,2024-03-05T09:00:00.123456789Z\n"
    rows = row + row.replace("Check", "Sign")
    log = read(tmp_path, HEADER + rows)
    np.testing.assert_allclose(log.end - log.start, 0.023456, atol=2e-6)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty; expected an event log"),
        ("PK\x03\x04rest", "is neither CSV nor XES"),
        (b"a\x00\x00b,\x00", "is neither CSV nor XES"),
        (gzip.compress((HEADER + ROWS).encode(), mtime=0)[:60], "is a damaged or incomplete gzip file"),
        ((HEADER + ROWS).encode("utf-16")[:-1], "is damaged UTF-16-LE text"),
        (
            "just some text\nand more\n",
            "no column is recognised for case, activity, resource, start, end (columns: just",
        ),
        (
            HEADER.replace("resource", "who") + ROWS,
            "for resource (columns: case_id, activity, who, start_time, end_time)",
        ),
        (HEADER.replace("resource", "who") + ROWS, "name them with --log-columns resource=..."),
        (
            HEADER.replace("resource", "activity") + ROWS,
            "two columns are called 'activity', and either could hold the activity; rename one of them.",
        ),
        (HEADER + ROWS + "b,Check\n", "line 4 has 2 fields, but the header has 5"),
        (HEADER + ROWS + 'b,"Check,Ann\n', "line 4 is not valid CSV"),
        (HEADER + ROWS + "b,Sign,Ann,2024-03-05,2024-03-04\n", "line 4 ends before it starts"),
        (
            HEADER + ROWS + "b,Sign,Ann,05/03/2024,2024-03-06\n",
            "line 4 has no readable start time: '05/03/2024' is not",
        ),
        (HEADER + ROWS + "b,Sign,Ann,2024-03-05,\n", "line 4 has no readable end time: it is empty"),
        (
            HEADER + '"a\nb",Check,Ann,2024-03-05,2024-03-05\n' + "b,,Ann,2024-03-05,2024-03-05\n",
            "line 4 has no activity",
        ),
        (HEADER + ROWS + ",Sign,Ann,2024-03-05,2024-03-05\n", "line 4 has no case id"),
        (
            HEADER + ROWS + "b,Sign,Ann,2024-03-05T09:00Z,2024-03-05T10:00Z\n",
            "with and without offset: line 4 has one, line 2 has none",
        ),
        (HEADER, "holds no event(s)"),
        (HEADER + ROWS.splitlines()[0], "holds 1 event(s); at least two"),
        (HEADER + ROWS.replace("Ann", "nan"), "names no resource in any event"),
        (HEADER + "x" * 1_100_000, "line 2 is longer than 1,000,000 characters"),
    ],
)
def test_faults_are_sentences(tmp_path, text, sentence):
    assert sentence in refused(tmp_path, text)


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(UserError, match="There is no event log"):
        read_event_log(tmp_path / "none.csv")
    with pytest.raises(UserError, match="Cannot read the event log"):
        read_event_log(tmp_path)


def xes(*traces, head=""):
    return f'<?xml version="1.0"?>{head}<log xmlns="http://www.xes-standard.org/">{"".join(traces)}</log>'


def trace(case, *events):
    return f'<trace><string key="concept:name" value="{case}"/>{"".join(events)}</trace>'


def event(activity, clock, transition=None, resource=None, instance=None, start=None):
    values = {
        "concept:name": activity,
        "lifecycle:transition": transition,
        "org:resource": resource,
        "concept:instance": instance,
    }
    text = "".join(f'<string key="{k}" value="{v}"/>' for k, v in values.items() if v)
    if start:
        text += f'<date key="start_timestamp" value="2024-03-05T{start}:00Z"/>'
    return f'<event>{text}<date key="time:timestamp" value="2024-03-05T{clock}:00Z"/></event>'


def hours_of(log):
    rows = zip(log.case, log.activity, log.resource, log.start / 3600 - 24, log.end / 3600 - 24, strict=True)
    return [(log.cases[c], log.activities[a], log.resources[r] if r >= 0 else "", s, e) for c, a, r, s, e in rows]


def test_xes_pairs_transitions_first_in_first_out(tmp_path):
    text = xes(
        trace(
            "a",
            event("Check", "08:00", "SCHEDULE"),
            event("Check", "09:00", "START", "Ann"),
            event("Check", "09:15", "start", "Bob"),
            event("Check", "10:00", "COMPLETE", "Bob"),
            event("Check", "11:00", "complete"),
            event("Sign", "12:00", "complete", "Ann"),
        ),
        trace("b", event("Check", "09:00", "start", "Ann", "i"), event("Check", "09:10", "start", "Ann", "j")),
        trace(
            "c",
            event("Check", "09:00", "start", "Ann", "i"),
            event("Check", "10:00", "start", "Ann", "j"),
            event("Check", "11:00", "complete", "Ann", "j"),
            event("Check", "12:00", "complete", "Ann", "i"),
            event("Sign", "14:00", None, "Bob", start="13:00"),
        ),
    )
    for content in (text, gzip.compress(text.encode())):
        log = read(tmp_path, content)
        assert hours_of(log) == [
            ("a", "Check", "Ann", 9.0, 11.0),
            ("c", "Check", "Ann", 9.0, 12.0),
            ("a", "Check", "Bob", 9.25, 10.0),
            ("c", "Check", "Ann", 10.0, 11.0),
            ("a", "Sign", "Ann", 11.0, 12.0),
            ("c", "Sign", "Bob", 13.0, 14.0),
        ]
        assert log.notes == (
            "1 completion without a start is kept with an estimated start (of Sign).",
            "2 starts without a completion are left out.",
        )


BILLION_LAUGHS = '<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (xes(trace("&b;", event("Check", "09:00")), head=BILLION_LAUGHS), "declares a DOCTYPE"),
        (xes(head='<!DOCTYPE log SYSTEM "file:///etc/passwd">'), "declares a DOCTYPE"),
        (xes("<trace>", event("Check", "09:00"), "</trace>"), "trace 1 has no concept:name"),
        (xes("<trace>"), "is not well-formed XML"),
        ("<", "is neither CSV nor XES: it holds no XML element"),
        ("<html></html>", "its first element is 'html', not 'log'"),
        (xes(trace("a", event("Check", "08:00", None, "Ann", start="09:00"))), "event 1 ends before it starts"),
    ],
)
def test_xes_faults_are_sentences(tmp_path, text, sentence):
    assert sentence in refused(tmp_path, text)


@pytest.mark.parametrize(
    ("name", "events", "cases", "activities", "resources"),
    [
        ("bpic2012_w", 59302, 8616, 6, 57),
        ("production", 4503 - 51, 225, 24, 46),  # 51 rows repeat another one
        ("loanapp_synthetic", 7492, 1000, 12, 19),
    ],
)
def test_public_logs(name, events, cases, activities, resources):
    path = public_log(name)
    log = read_event_log(path)
    assert (len(log), len(log.cases), len(log.activities), len(log.resources)) == (events, cases, activities, resources)
    assert (log.end >= log.start).all()


def test_a_byte_order_mark_that_was_cut_is_no_log(tmp_path):
    """It decodes to nothing at all."""
    assert "no column is recognised for" in refused(tmp_path, b"\xef")


def test_a_log_of_more_than_a_century_has_wrong_dates(tmp_path):
    rows = ["c1,A,r1,2024-01-01T08:00:00,2024-01-01T09:00:00", "c1,B,r1,0001-01-01T08:00:00,0001-01-01T08:30:00"]
    with pytest.raises(
        UserError, match=r"goes from 0001-01-01 to 2024-01-01 \(line 3 and line 2\), more than a hundred"
    ):
        read(tmp_path, "\n".join(["case,activity,resource,start,end", *rows]))
    assert len(
        read(tmp_path, "\n".join(["case,activity,resource,start,end", rows[0], rows[1].replace("0001", "1925")]))
    )
