"""Positions of the parts of a time in all texts of one shape, and fast parsing of such texts with NumPy.

The shape of a text has ``0`` for each digit and small letters: ``0000-00-00t00:00:00``. A log has few shapes.
"""

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np

MICROSECOND = 1_000_000
"""Microseconds of a second."""

_DAY = 86_400
_DAYS_TO_1970 = 25_569
_DIGITS_OF_DAYS = 12
"""Digits of the fraction of a day that count."""

_FIRST_DAY, _LAST_DAY = 20_000, 80_000
"""Days of a spreadsheet that are read, the years 1954 to 2119; other numbers of five digits are something else."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    "(?P<b>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    "nov(?:ember)?|dec(?:ember)?)"
)
_WEEKDAY = "(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*"
_CLOCK = r"(?P<H>00?):(?P<M>00)(?::(?P<S>00)(?:[.,](?P<f>0+))?)?(?: ?(?P<p>[ap]\.?m\.?))?"
_ZONE = r"(?: ?(?P<z>z|utc|gmt|[+-]00(?::?00)?)(?: ?\[[a-z0_/+-]+\])?)?"
_TAIL = rf"(?:(?:t|,? +){_CLOCK}{_ZONE})?"

PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?P<Y>0000)-(?P<m>00)-(?P<d>00){_TAIL}",
        rf"(?P<Y>0000)(?P<s>[/.])(?P<m>00?)(?P=s)(?P<d>00?){_TAIL}",
        rf"(?P<one>00?)(?P<s>[/.-])(?P<two>00?)(?P=s)(?P<Y>0000){_TAIL}",
        rf"(?:{_WEEKDAY},? )?(?P<d>00?)[ -]{_MONTH}\.?,?[ -](?P<Y>0000){_TAIL}",
        rf"(?:{_WEEKDAY},? )?{_MONTH}\.? (?P<d>00?),? (?P<Y>0000){_TAIL}",
        rf"(?P<Y>0000)(?P<m>00)(?P<d>00)t?(?P<H>00)(?P<M>00)(?P<S>00){_ZONE}",
        r"(?P<e>0{9,10})(?:[.,](?P<f>0+))?",
        r"(?P<e>0{13}|0{16}|0{19})(?:[.,]0*)?",
        r"(?P<x>00000)(?:[.,](?P<f>0+))?",
    )
)
"""Recognised shapes: ISO 8601, year first, day or month first, names of months, 20240305093000, seconds since 1970
and thousandths, millionths and billionths of them, and days since 1899-12-30 as spreadsheets count them. A zone's name
in brackets may follow its offset."""

_DIRECTIVES = {
    "%Y": "(?P<Y>0000)",
    "%y": "(?P<y>00)",
    "%m": "(?P<m>00?)",
    "%d": "(?P<d>00?)",
    "%H": "(?P<H>00?)",
    "%I": "(?P<H>00?)",
    "%M": "(?P<M>00?)",
    "%S": "(?P<S>00?)",
    "%f": "(?P<f>0{1,6})",
    "%p": "(?P<p>[ap]m)",
    "%z": "(?P<z>z|[+-]00:?00)",
    "%b": _MONTH,
    "%B": _MONTH,
    "%a": _WEEKDAY,
    "%A": _WEEKDAY,
    "%%": "%",
}

_SHAPE = np.arange(256, dtype=np.uint8)
_SHAPE[ord("0") : ord("9") + 1] = ord("0")
_SHAPE[ord("A") : ord("Z") + 1] += 32


class Layout(NamedTuple):
    """Parts of a time in texts of one shape."""

    spans: dict[str, tuple[int, int]]  # first and last position of each part, named as in ``PATTERNS``
    texts: dict[str, str]  # shape of each part

    @property
    def unit(self) -> str:
        """What a plain number counts: ``e`` seconds since 1970, ``x`` days of a spreadsheet; "" for other texts."""
        return next((name for name in "ex" if name in self.spans), "")

    @property
    def is_numeric_date(self) -> bool:
        """Whether only the whole column can tell which of two numbers is the day."""
        return "one" in self.spans


class Parsed(NamedTuple):
    """Times of n texts of one shape."""

    clock: np.ndarray  # int64[n], microseconds of the wall clock since 1970
    offset: np.ndarray | int | None  # seconds that the wall clock is ahead of UTC, int64[n] or one; None for unknown
    valid: np.ndarray  # bool[n], whether the text is a time


def shapes_of(texts: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Return each shape in some texts, with its rows, int64."""
    width = texts.dtype.itemsize
    shapes = _SHAPE[_matrix(texts)].view(f"S{width}").ravel()
    if (shapes == shapes[0]).all():
        return [(shapes[0].decode("latin-1"), np.arange(len(texts)))]
    kinds, inverse = np.unique(shapes, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(inverse))[:-1])
    return [(kind.decode("latin-1"), mine) for kind, mine in zip(kinds, rows, strict=True)]


@lru_cache(maxsize=10_000)
def layout_of(shape: str, patterns: tuple[re.Pattern[str], ...]) -> Layout | None:
    """Return the layout of a shape by the first pattern that fits, or None."""
    for pattern in patterns:
        if found := pattern.fullmatch(shape):
            texts = {name: text for name, text in found.groupdict().items() if text is not None}
            return Layout({name: found.span(name) for name in texts}, texts)
    return None


def pattern_of(time_format: str) -> re.Pattern[str] | None:
    """Return the pattern of a format of ``strptime``, or None if it has directives that only ``strptime`` knows."""
    pieces = re.findall(r"%.|\s+|.", time_format, re.DOTALL)
    if any(piece.startswith("%") and piece not in _DIRECTIVES for piece in pieces):
        return None
    shaped = [re.sub("[0-9]", "0", piece.lower()) for piece in pieces]
    parts = [
        _DIRECTIVES.get(piece) or (r"\s+" if piece.isspace() else re.escape(shape))
        for piece, shape in zip(pieces, shaped, strict=True)
    ]
    try:
        return re.compile("".join(parts))
    except re.error:  # a directive occurs twice
        return None


def leading_numbers(texts: np.ndarray, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Return the first two numbers of numeric dates, int64[n] each."""
    matrix = _matrix(texts)
    return _number(matrix, layout.spans["one"]), _number(matrix, layout.spans["two"])


def parse(texts: np.ndarray, layout: Layout, day_first: bool) -> Parsed:
    """Return the times of texts of one layout; ``day_first`` applies to numeric dates."""
    matrix = _matrix(texts)
    if layout.unit:
        return (_since_1970 if layout.unit == "e" else _since_1899)(matrix, layout)
    part = {name: _number(matrix, span) for name, span in layout.spans.items() if name in ("Y", "y", "m", "d")}
    if layout.is_numeric_date:
        part["d"], part["m"] = (
            _number(matrix, layout.spans[n]) for n in (("one", "two"), ("two", "one"))[not day_first]
        )
    if "y" in part:
        part["Y"] = part["y"] + np.where(part["y"] < 69, 2000, 1900)
    if "b" in layout.texts:
        part["m"] = np.full(len(texts), 1 + _MONTHS.index(layout.texts["b"][:3]))
    days, valid = _days(part["Y"], part["m"], part["d"])
    seconds, micros, possible = _time_of_day(matrix, layout)
    offset = _offset(matrix, layout)
    if isinstance(offset, np.ndarray):
        possible &= np.abs(offset) < 86_400
    return Parsed((days * 86_400 + seconds) * MICROSECOND + micros, offset, valid & possible)


def _days(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return days since 1970, int64[n], and bool[n], whether the calendar has them."""
    months = ((year - 1970) * 12 + month - 1).astype("M8[M]")
    first, following = months.astype("M8[D]").astype(np.int64), (months + 1).astype("M8[D]").astype(np.int64)
    valid = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= following - first)
    return first + day - 1, valid


def _time_of_day(matrix: np.ndarray, layout: Layout) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return seconds since midnight, microseconds, int64[n] each, and bool[n], whether the clock has them.

    ISO 8601 also writes the end of a day as 24:00.
    """
    zero = np.zeros(len(matrix), np.int64)
    hour, minute, second = (_number(matrix, layout.spans[n]) if n in layout.spans else zero for n in "HMS")
    valid = (hour <= 23) & (minute <= 59) & (second <= 59)
    if "p" in layout.texts:
        valid &= (hour >= 1) & (hour <= 12)
        hour = hour % 12 + 12 * layout.texts["p"].startswith("p")
    seconds, micros = hour * 3600 + minute * 60 + second, _fraction(matrix, layout)
    if "p" not in layout.texts:
        valid |= (hour == 24) & (minute == 0) & (second == 0) & (micros == 0)
    return seconds, micros, valid


def _fraction(matrix: np.ndarray, layout: Layout) -> np.ndarray:
    """Return microseconds, int64[n]; further digits are cut off, as Python's ``datetime`` does."""
    if "f" not in layout.spans:
        return np.zeros(len(matrix), np.int64)
    begin, end = layout.spans["f"]
    end = min(end, begin + 6)
    return np.asarray(_number(matrix, (begin, end)) * 10 ** (6 - (end - begin)))


def _offset(matrix: np.ndarray, layout: Layout) -> np.ndarray | int | None:
    """Return the seconds that the wall clock is ahead of UTC."""
    zone = layout.texts.get("z")
    if zone is None or zone[0] not in "+-":
        return None if zone is None else 0
    begin, end = layout.spans["z"]
    minutes = _number(matrix, (end - 2, end)) if len(zone) > 3 else 0
    seconds = _number(matrix, (begin + 1, begin + 3)) * 3600 + minutes * 60
    return np.asarray(seconds if zone[0] == "+" else -seconds)


def _since_1970(matrix: np.ndarray, layout: Layout) -> Parsed:
    """Return times that are written as a number of seconds, or of fractions of a second, since 1970 in UTC."""
    begin, end = layout.spans["e"]
    number = _number(matrix, layout.spans["e"])
    clock: np.ndarray
    if end - begin == 19:
        clock = number // 1000
    elif end - begin >= 13:
        clock = number * (1000 if end - begin == 13 else 1)
    else:
        clock = number * MICROSECOND + _fraction(matrix, layout)
    return Parsed(clock, 0, number >= 0)  # 19 digits can be more than 64 bits hold


def _since_1899(matrix: np.ndarray, layout: Layout) -> Parsed:
    """Return times that are written as a number of days since 1899-12-30, to the millisecond."""
    day = _number(matrix, layout.spans["x"])
    begin, end = layout.spans.get("f", (0, 0))
    end = min(end, begin + _DIGITS_OF_DAYS)
    thousandths = np.rint(_number(matrix, (begin, end)) * (_DAY * 1000 / 10 ** (end - begin))).astype(np.int64)
    clock = ((day - _DAYS_TO_1970) * _DAY * 1000 + thousandths) * 1000
    return Parsed(clock, None, (day >= _FIRST_DAY) & (day <= _LAST_DAY))


def _number(matrix: np.ndarray, span: tuple[int, int]) -> np.ndarray:
    """Return int64[n], the numbers between two columns of uint8[n, width]."""
    value = np.zeros(len(matrix), np.int64)
    for column in range(*span):
        value = value * 10 + (matrix[:, column].astype(np.int64) - ord("0"))
    return value


def _matrix(texts: np.ndarray) -> np.ndarray:
    """Return the bytes of texts, uint8[n, width]."""
    return np.ascontiguousarray(texts).view(np.uint8).reshape(len(texts), texts.dtype.itemsize)
