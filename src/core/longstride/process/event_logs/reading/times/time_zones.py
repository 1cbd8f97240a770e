"""Time zones: the UTC offsets of times without one, and the zone in whose hours people work."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from longstride.errors import UserError
from longstride.process.event_logs.reading.times.parse_times import Times
from longstride.process.event_logs.reading.times.time_layouts import MICROSECOND

OPTION = "--time-zone"
_MINUTE = 60
_EPOCH = datetime(1970, 1, 1)


def find_zone(name: str) -> ZoneInfo:
    """Return a time zone by its IANA name.

    Raises:
        UserError: there is no zone of this name, or this machine has no table of time zones.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UserError(
            f"{OPTION}: there is no time zone {name!r}; expected a name like Europe/Berlin or UTC (if those are "
            "unknown too, pip install tzdata)."
        ) from None


def in_zone(times: Times, zone: ZoneInfo, later: bool = False) -> Times:
    """Return times on the wall clock of a zone, all with an offset.

    A time without an offset belongs to this wall clock. In the hour that the change to winter time repeats, it is in
    the first pass, or in the second one if ``later``.
    """
    naive = ~times.has_offset
    offset = np.empty_like(times.offset)
    offset[naive] = _offsets(times.clock[naive], zone, fold=int(later))
    utc = times.clock[~naive] - times.offset[~naive] * MICROSECOND
    offset[~naive] = _offsets(utc, zone, fold=None)
    clock = times.clock.copy()
    clock[~naive] = utc + offset[~naive] * MICROSECOND
    return times._replace(clock=clock, offset=offset, has_offset=np.ones_like(times.has_offset))


def _offsets(clock: np.ndarray, zone: ZoneInfo, fold: int | None) -> np.ndarray:
    """Return the offset in seconds at each time, int64[n]; times are UTC without a ``fold``."""
    # Zones change at whole minutes.
    minutes, inverse = np.unique(clock // (_MINUTE * MICROSECOND), return_inverse=True)
    found = np.fromiter((_offset(int(minute), zone, fold) for minute in minutes), np.int64, len(minutes))
    return found[inverse]


def _offset(minute: int, zone: ZoneInfo, fold: int | None) -> int:
    try:
        moment = _EPOCH + timedelta(minutes=minute)
        aware = moment.replace(tzinfo=UTC).astimezone(zone) if fold is None else moment.replace(tzinfo=zone, fold=fold)
        ahead = aware.utcoffset()
    except OverflowError:  # the first and the last day of the calendar
        return 0
    assert ahead is not None  # every zone has one
    return int(ahead.total_seconds())
