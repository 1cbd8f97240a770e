"""Text for people: one format for bytes, one for durations, one for numbers with units, one for counted words."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

Say = Callable[[str], None]
"""Prints one line."""

_BYTE_UNITS = {"GB": (1e9, 1e10, 2), "MB": (1e6, 1e6, 1), "kB": (1e3, 0, 1)}
"""Bytes of a unit, the size from which it is used, and its decimals. Sizes below 10 GB in MB differ visibly."""

_HOUR, _DAY = 3600, 86_400

ROUNDING = 1e-9
"""Share of a number up to which a difference of it is a rounding error."""


def format_bytes(size: float, unit: str = "") -> str:
    """Return bytes in decimal units, such as ``443.0 MB`` or ``48.00 GB``: in a given unit, else in one that suits."""
    unit = unit or next(name for name, (_, least, _) in _BYTE_UNITS.items() if size >= least)
    length, _, decimals = _BYTE_UNITS[unit]
    return f"{size / length:,.{decimals}f} {unit}"


def format_duration(seconds: float) -> str:
    """Return a duration such as ``12.3 ms``, ``41.4 s``, ``3 min 5 s``, ``2 h 58 min`` or ``5 d 2 h``."""
    if round(seconds) >= 60:
        return _whole_units(seconds)
    for unit, length in (("s", 1.0), ("ms", 1e-3)):
        if seconds == 0 or seconds >= 0.9995 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _whole_units(seconds: float) -> str:
    """Return a duration of a minute or more as one or two whole numbers; days from two days on."""
    units = (("d", _DAY, 2 * _DAY), ("h", _HOUR, _HOUR), ("min", 60, 60), ("s", 1, 0))
    first = next(i for i, (_, _, least) in enumerate(units) if round(seconds) >= least)
    (large, length, _), (small, part, _) = units[first : first + 2]
    whole, rest = divmod(round(seconds / part), length // part)
    return f"{whole} {large}" + (f" {rest} {small}" if rest else "")


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 core``, ``2 cores``, ``1,024 copies``."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def agreeing(part: int, whole: int, noun: str, verb: str, verbs: str, plural: str = "") -> str:
    """Return a part of a number with its noun and verb: ``1 of 3 rows is``, ``2 of 3 rows are``."""
    return f"{part:,} of {counted(whole, noun, plural)} {verb if part == 1 else verbs}"


def percent(part: float, whole: float, decimals: int = 0) -> str:
    """Return a part of a whole, such as ``37%``, from 0 to 100 %; ``none`` of nothing, which has no shares."""
    return f"{min(max(part / whole, 0.0), 1.0):.{decimals}%}" if whole > 0.0 else "none"


_TIMES = {"seconds": (1, "s"), "minutes": (60, "min"), "hours": (3600, "h"), "days": (86_400, "d")}
"""Units of time: seconds in each, and its abbreviation."""

_UNITS_UNTIL = 2.0
"""Number of a larger unit from which it is used: 119 minutes, but 2 hours."""


class Scale(NamedTuple):
    """A unit to show numbers in, and what they are multiplied by."""

    unit: str  # abbreviation, such as ``h`` or ``%``; empty for a bare number
    factor: float  # shown number / number

    def show(self, value: float, digits: int = 4) -> str:
        """Return a number with its unit."""
        return f"{format_number(value * self.factor, digits)}{self.suffix}"

    def header(self, metric: str) -> str:
        """Return the name of a metric with the unit of its numbers, such as ``mean cycle time, h``."""
        return in_words(metric) + (f", {self.unit}" if self.unit else "")

    @property
    def suffix(self) -> str:
        """The unit with a space before it; empty without one."""
        return f" {self.unit}" if self.unit else ""


def scale_of(unit: str, size: float) -> Scale:
    """Return the scale for numbers of a unit that are about as large as ``size``.

    Times (``seconds``, ``minutes``, ``hours``, ``days``) are shown in the largest unit of which there are two, a
    ``share`` in per cent, and everything else as it is.
    """
    if unit == "share":
        return Scale("%", 100.0)
    if unit not in _TIMES:
        return Scale(unit, 1.0)
    own = _TIMES[unit][0]
    seconds = abs(size) * own
    fitting = [times for times in _TIMES.values() if seconds >= _UNITS_UNTIL * times[0]]
    length, short = fitting[-1] if fitting else (_TIMES["seconds"] if seconds > 0 else _TIMES[unit])
    return Scale(short, own / length)


def format_number(value: float, digits: int = 4) -> str:
    """Return a number with some significant digits, but never fewer than those before the point."""
    if not math.isfinite(value):
        return "-"
    if 0.0 < abs(value) < 1.0:
        return f"{value:.{digits}g}"
    return f"{value:,.{max(0, digits - len(str(int(abs(value)))))}f}"


def format_half(half: float, value: float, digits: int = 2) -> str:
    """Return half the width of an interval of a value, without an exponent; rounding errors of the value are 0."""
    if half <= ROUNDING * abs(value):
        return format_number(0.0, digits)
    if half < 1e-4:
        return f"{half:.{digits - 1 - math.floor(math.log10(half))}f}"
    return format_number(half, digits)


def with_margin(value: float, margin: float) -> str:
    """Return a number and the half width of its interval, such as ``0.3142 ± 0.0021``: the margin has two digits."""
    if not math.isfinite(margin) or not math.isfinite(value):
        return f"{format_number(value)} ± {format_number(margin)}"
    if margin <= 0.0:
        return f"{format_number(value)} ± 0"
    decimals = min(max(1 - math.floor(math.log10(float(f"{margin:.1e}"))), 0), 12)
    return f"{value:,.{decimals}f} ± {margin:,.{decimals}f}"


def in_words(name: str) -> str:
    """Return the name of a metric as people read it."""
    return name.replace("_", " ")


_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """Return numbers as at most ``width`` bars, the lowest for the least; of many, each bar is the mean of some."""
    count = min(len(values), width)
    edges = [round(i * len(values) / count) for i in range(count + 1)] if count else []
    means = [math.fsum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    if not means or not all(map(math.isfinite, means)):
        return ""
    least, span = min(means), max(means) - min(means)
    return "".join(_BARS[min(int((mean - least) / span * len(_BARS)), 7)] if span else _BARS[3] for mean in means)
