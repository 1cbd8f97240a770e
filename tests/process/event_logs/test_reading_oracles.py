"""The fast steps of the reader against slow and obvious ones: Python's datetime and zoneinfo, loops over events."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import count
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longstride.process.event_logs.estimate_starts import LONGEST_IN_MEDIANS, estimate_starts
from longstride.process.event_logs.reading.collect import Coded, Rows
from longstride.process.event_logs.reading.duplicates import first_of_equals
from longstride.process.event_logs.reading.pair_lifecycles import pair_lifecycles
from longstride.process.event_logs.reading.times.parse_times import TimeReader
from longstride.process.event_logs.reading.times.time_layouts import pattern_of
from longstride.process.event_logs.reading.times.time_zones import in_zone

EPOCH = datetime(1970, 1, 1)
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
FEW = settings(max_examples=60, deadline=None)


def parsed(texts, time_format=""):
    """Return what the reader makes of a column: (wall clock, offset in seconds or None), or None for no time."""
    block = np.array([text.encode() for text in texts], "S96")
    rows = Rows(np.arange(len(texts)), {}, {"end": [block]}, [])
    times = TimeReader(time_format).read(rows, "log", "row")[0]["end"]
    found = []
    for clock, offset, has, known in zip(*times[:4], strict=True):
        wall = EPOCH + timedelta(microseconds=int(clock)) if known else None
        found.append((wall, int(offset) if has else None) if known else None)
    return found


def by_datetime(time):
    ahead = time.utcoffset()
    return time.replace(tzinfo=None), int(ahead.total_seconds()) if ahead is not None else None


@FEW
@given(st.lists(st.tuples(TIMES, st.none() | st.integers(-1439, 1439), st.sampled_from("T ")), min_size=1, max_size=8))
def test_iso_times_are_those_of_datetime(drawn):
    times = [t if m is None else t.replace(tzinfo=timezone(timedelta(minutes=m))) for t, m, _ in drawn]
    texts = [t.isoformat(sep) for t, (_, _, sep) in zip(times, drawn, strict=True)]
    texts += [text.replace("+00:00", "Z") for text in texts] + [text[:-1] for text in texts if "." in text]

    def expected(text):
        try:
            return by_datetime(datetime.fromisoformat(text))
        except ValueError:
            return None

    assert parsed(texts) == [expected(text) for text in texts]


DAMAGE = st.tuples(st.integers(0, 30), st.sampled_from("0123456789:-T +Z.x"))


@FEW
@given(st.lists(st.tuples(TIMES, st.lists(DAMAGE, max_size=3)), min_size=1, max_size=8))
def test_damaged_iso_times_are_accepted_only_if_datetime_accepts_them_alike(drawn):
    texts = []
    for time, damage in drawn:
        text = time.isoformat()
        for at, letter in damage:
            text = text[:at] + letter + text[at + 1 :]
        texts.append(text)
    for text, found in zip(texts, parsed(texts), strict=True):
        try:
            expected = by_datetime(datetime.fromisoformat(text))
        except ValueError:
            # The reader allows a single digit for the hour, a blank before the offset, and 24:00, and nothing else.
            if found is not None:
                usual = repaired(text)
                midnight = usual[11:16] == "24:00"
                wall, offset = by_datetime(
                    datetime.fromisoformat(usual[:11] + "00:00" * midnight + usual[11 + 5 * midnight :])
                )
                assert (wall + timedelta(days=midnight), offset) == found
        else:
            assert found == expected


def repaired(text):
    date, clock = text[:10], text[11:].lstrip(" ")
    clock = clock.replace(" ", "")
    return f"{date}T{clock if clock[2:3] in (':', '') else '0' + clock}"


FORMATS = [
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %I:%M %p",
    "%d.%m.%y %H.%M",
    "%Y%m%d%H%M%S%f",
    "%b %d, %Y at %H:%M",
    "%A, %d %B %Y %H:%M:%S %z",
    "%y-%m-%d",
]


@FEW
@given(st.sampled_from(FORMATS), st.lists(st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31)), min_size=1))
def test_formats_are_those_of_strptime(form, times):
    assert pattern_of(form) is not None, "the fast way"
    texts = [time.replace(tzinfo=timezone(timedelta(hours=5, minutes=30))).strftime(form) for time in times]
    assert parsed(texts, form) == [by_datetime(datetime.strptime(text, form)) for text in texts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1709629200", datetime(2024, 3, 5, 9)),
        ("1709629200.25", datetime(2024, 3, 5, 9, 0, 0, 250_000)),
        ("1709629200123", datetime(2024, 3, 5, 9, 0, 0, 123_000)),
        ("1709629200123456", datetime(2024, 3, 5, 9, 0, 0, 123_456)),
        ("1709629200123456789", datetime(2024, 3, 5, 9, 0, 0, 123_456)),
        ("20240305090000", datetime(2024, 3, 5, 9)),
        ("2024/3/5 9:00", datetime(2024, 3, 5, 9)),
        ("25.3.2024", datetime(2024, 3, 25)),
        ("03/25/2024, 9:00 AM", datetime(2024, 3, 25, 9)),
        ("12/31/2024 12:00:01 am", datetime(2024, 12, 31, 0, 0, 1)),
        ("Tue, 5 Mar 2024 09:00:00 GMT", datetime(2024, 3, 5, 9)),
        ("5-September-2024", datetime(2024, 9, 5)),
        ("12/31/2024 13:00 PM", None),
        ("29/02/2023", None),
        ("17096292001", None),
        ("5/3/24", None),
        ("45356.375", datetime(2024, 3, 5, 9)),
        ("45356,3750001157", datetime(2024, 3, 5, 9, 0, 0, 10_000)),
        ("45356", datetime(2024, 3, 5)),
        ("12345.5", None),
        ("2024-02-29 24:00", datetime(2024, 3, 1)),
        ("31/12/2024 24:00:00.000", datetime(2025, 1, 1)),
        ("2024-03-05T24:00:01", None),
        ("20240305T090000z", datetime(2024, 3, 5, 9)),
        ("2024-03-05T09:00:00,250z", datetime(2024, 3, 5, 9, 0, 0, 250_000)),
        (
            "2024-03-05T09:00:00.123456789-05:00[America/Argentina/ComodRivadavia]",
            datetime(2024, 3, 5, 9, 0, 0, 123_456),
        ),
        ("soon", None),
    ],
)
def test_other_forms(text, expected):
    (found,) = parsed([text])
    assert (found and found[0]) == expected


@FEW
@given(st.lists(st.tuples(TIMES, st.none() | st.integers(-720, 720)), min_size=1, max_size=5))
@pytest.mark.parametrize("name", ["Europe/Berlin", "America/New_York", "Asia/Kolkata"])
def test_zones_are_those_of_zoneinfo(name, drawn):
    zone = ZoneInfo(name)
    # Around the changes of 2024 as well.
    drawn = [
        *drawn,
        *((datetime(2024, month, 31 if month == 3 else 27, hour, 30), None) for month in (3, 10) for hour in range(5)),
    ]
    drawn += [(datetime(2024, 3, 31, 1, 59), 60), (datetime(2024, 10, 27, 1, 0), 0)]
    texts, expected = [], []
    for time, minutes in drawn:
        given_time = (
            time.replace(tzinfo=zone) if minutes is None else time.replace(tzinfo=timezone(timedelta(minutes=minutes)))
        )
        texts.append(time.isoformat() if minutes is None else given_time.isoformat())
        wall = given_time if minutes is None else given_time.astimezone(UTC).astimezone(zone)
        expected.append((wall.replace(tzinfo=None, fold=0), int(wall.utcoffset().total_seconds())))
    rows = Rows(np.arange(len(texts)), {}, {"end": [np.array(texts, "S96")]}, [])
    times = in_zone(TimeReader("").read(rows, "log", "row")[0]["end"], zone)
    found = [(EPOCH + timedelta(microseconds=int(c)), int(o)) for c, o in zip(times.clock, times.offset, strict=True)]
    assert found == expected and times.has_offset.all()


def slow_pairs(rows):
    """Return pairs (row of the start, row of the completion) with their suspensions, by a walk in the order of time."""
    still_open, pairs = [], []  # open ones: row of the start, suspensions as [row, row of the resumption or None]
    for i in sorted(range(len(rows)), key=lambda i: rows[i][4]):
        case, activity, person, transition, _ = rows[i]
        if transition == "start":
            still_open.append((i, []))
        if transition in ("start", "schedule"):
            continue
        same = [entry for entry in still_open if rows[entry[0]][:2] == (case, activity)]
        if transition in ("suspend", "resume"):
            rests = [bool(pauses) and pauses[-1][1] is None for _, pauses in same]
            same = [entry for entry, rest in zip(same, rests, strict=True) if rest == (transition == "resume")]
        own = [entry for entry in same if rows[entry[0]][2] == person]
        for first, pauses in (own or same)[:1]:
            if transition == "suspend":
                pauses.append([i, None])
            elif transition == "resume":
                pauses[-1][1] = i
            else:
                still_open.remove((first, pauses))
                pairs += [(first, i, [(a, i if b is None else b) for a, b in pauses])] * (transition == "complete")
    return sorted(pairs, key=lambda pair: pair[1]), len(still_open)


SMALL_ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from("XY"),
        st.sampled_from(["Ann", "Bob", ""]),
        st.sampled_from(["start", "start", "complete", "complete", "suspend", "resume", "abort", "schedule"]),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=30,
)


def coded(texts):
    values = list(dict.fromkeys(texts))
    return Coded(values, np.array([values.index(text) for text in texts], np.int32))


@FEW
@given(SMALL_ROWS, st.randoms())
def test_pairs_are_those_of_a_walk(rows, random):
    times = random.sample(range(len(rows)), len(rows))
    rows = [(*row[:4], time) for row, time in zip(rows, times, strict=True)]
    names = ("case", "activity", "resource", "transition")
    texts = {name: coded([row[i] for row in rows]) for i, name in enumerate(names)}
    pairs = pair_lifecycles(texts, np.array([row[4] for row in rows], float), np.zeros(len(rows), np.bool_))
    expected, still_open = slow_pairs(rows)
    assert list(zip(pairs.start_row.tolist(), pairs.end_row.tolist(), strict=True)) == [pair[:2] for pair in expected]
    pauses = [(event, *pause) for event, pair in enumerate(expected) for pause in pair[2]]
    assert sorted(map(tuple, pairs.pauses.tolist())) == sorted(pauses)
    transitions = [row[3] for row in rows]
    assert len(pairs.unfinished) == len(pairs.resting) == still_open
    assert pairs.aborted == transitions.count("start") - len(expected) - still_open
    assert len(pairs.unstarted) == transitions.count("complete") - len(expected)


@FEW
@given(SMALL_ROWS)
def test_estimates_are_those_of_a_loop(rows):
    case, activity = (coded([row[i] for row in rows]).code.astype(np.int64) for i in (0, 1))
    who = np.array([{"Ann": 0, "Bob": 1, "": -1}[row[2]] for row in rows])
    end = np.array([row[4] for row in rows], float)
    longest = {}
    for i in range(len(rows)):
        before = [end[j] for j in range(len(rows)) if end[j] < end[i] and (case[j] == case[i] or who[j] == who[i] >= 0)]
        longest[i] = end[i] - max(before) if before else None
    expected = []
    for i, duration in longest.items():
        own = [d for j, d in longest.items() if activity[j] == activity[i] and d is not None]
        median = float(np.median(own)) if own else 0.0
        cut = duration is None or duration > LONGEST_IN_MEDIANS * median
        if (who >= 0).any() and not (who[activity == activity[i]] >= 0).any():
            duration, cut = 0.0, False
        expected.append(end[i] - (median if cut else duration))
    np.testing.assert_allclose(estimate_starts(case, who, activity, end), expected)


@FEW
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1))
def test_duplicates_are_those_of_a_set(rows):
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    assert first_of_equals(columns).tolist() == [rows.index(row) for row in rows]


def test_numbers_of_rows_name_the_line_of_the_file(tmp_path):
    """With blank lines and quoted newlines, as a count of newlines says."""
    from longstride.process.event_logs.reading.formats.csv_table import csv_table
    from longstride.process.event_logs.reading.limits import Guard, LogLimits

    cells = ['"a\nb"', "", "c", '"d\r\ne"', "f", "", '"""g"""'] * 3
    lines = count(2)
    expected = []
    for cell in cells:
        line = next(lines)
        if cell:
            expected.append(line)
        for _ in range(cell.count("\n")):
            next(lines)
    path = tmp_path / "log.csv"
    path.write_bytes(("x,y\n" + "".join(f"{cell},1\n" if cell else "\n" for cell in cells)).encode())
    with path.open("rb") as file:
        assert [
            n for block in csv_table(file, Guard(LogLimits(), "log"), {}).blocks([0]) for n in block.numbers
        ] == expected
