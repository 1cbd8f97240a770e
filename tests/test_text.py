"""Bytes, durations and counted words as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longstride.text import (
    agreeing,
    counted,
    format_bytes,
    format_duration,
    format_half,
    percent,
    sparkline,
    with_margin,
)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        *((0, "0.0 kB"), (24_000, "24.0 kB"), (999_900, "999.9 kB"), (10**6, "1.0 MB"), (443 * 10**6, "443.0 MB")),
        *((1190 * 10**6, "1,190.0 MB"), (10**10, "10.00 GB"), (48 * 10**9, "48.00 GB"), (166 * 10**10, "1,660.00 GB")),
    ],
)
def test_bytes(size, text):
    assert format_bytes(size) == text


def test_bytes_in_a_unit_of_ones_own():
    assert [format_bytes(1_500_000_000, unit) for unit in ("GB", "MB")] == ["1.50 GB", "1,500.0 MB"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0, "0 s"), (1.234e-5, "12.3 µs"), (0.001, "1 ms"), (0.0123, "12.3 ms"), (0.99999, "1 s"), (41.4, "41.4 s")),
        *((59.6, "1 min"), (185, "3 min 5 s"), (3599.7, "1 h"), (10_700, "2 h 58 min"), (10_799.9, "3 h")),
        *((47 * 3600, "47 h"), (48 * 3600, "2 d"), (2.5 * 86_400, "2 d 12 h"), (214 * 86_400 - 1, "214 d")),
    ],
)
def test_durations(seconds, text):
    assert format_duration(seconds) == text


@given(st.floats(1e-6, 1e7))
def test_a_duration_can_be_read_back(seconds):
    lengths = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
    words = format_duration(seconds).split()
    parsed = sum(float(number) * lengths[unit] for number, unit in zip(words[::2], words[1::2], strict=True))
    assert parsed == pytest.approx(seconds, rel=0.0101)


def test_counted_words():
    assert [counted(n, "core") for n in (0, 1, 2)] == ["0 cores", "1 core", "2 cores"]
    assert counted(1024, "copy", "copies") == "1,024 copies"


def test_bars_of_numbers():
    assert sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([0, 10, 0, 10, 10, 10], 3) == "▁▁█", "each bar is the mean of two"
    assert sparkline([-3.0, -3.0], 5) == "▄▄"
    assert sparkline([], 5) == sparkline([1.0, float("nan")], 5) == ""


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=200), st.integers(1, 40))
def test_the_bars_are_in_the_order_of_the_numbers(values, width):
    bars = sparkline(values, width)
    assert len(bars) == min(len(values), width)
    if len(values) <= width:
        heights = [ord(bar) for bar in bars]
        assert all(
            heights[i] <= heights[k] for i in range(len(values)) for k in range(len(values)) if values[i] < values[k]
        )


def test_shares_are_from_0_to_100_per_cent_and_nothing_has_none():
    assert [percent(1, 4), percent(1, 3, 1), percent(7, 4), percent(-1e-12, 2)] == ["25%", "33.3%", "100%", "0%"]
    assert percent(0, 0) == percent(3, 0.0) == "none"


def test_verbs_agree_with_the_part_and_nouns_with_the_whole():
    assert agreeing(1, 1, "row", "is", "are") == "1 of 1 row is"
    assert agreeing(1, 1_234, "person", "has", "have", "people") == "1 of 1,234 people has"
    assert agreeing(2, 3, "row", "is", "are") == "2 of 3 rows are"


@pytest.mark.parametrize(
    ("value", "margin", "text"),
    [
        (0.3142, 0.00213, "0.3142 ± 0.0021"),
        (256.0, 0.0, "256.0 ± 0"),
        (12345.6, 234.5, "12,346 ± 234"),
        (1.5, 0.996, "1.5 ± 1.0"),
        (1.005, 0.00951, "1.0050 ± 0.0095"),
        (-3.0, float("inf"), "-3.000 ± -"),
    ],
)
def test_a_margin_has_two_digits_and_the_number_as_many_decimals(value, margin, text):
    assert with_margin(value, margin) == text


@pytest.mark.parametrize(
    ("half", "value", "text"),
    [
        (0.35, 14.93, "0.35"),
        (4.6e-11, 14.93, "0.0"),
        (0.0, 0.0, "0.0"),
        (4.6e-5, 1e-3, "0.000046"),
        (123.4, 5000.0, "123"),
    ],
)
def test_half_an_interval_has_no_exponent_and_no_rounding_errors(half, value, text):
    assert format_half(half, value) == text
