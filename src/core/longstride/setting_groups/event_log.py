"""Settings of the event log."""

import threading
from typing import Literal

from pydantic import BaseModel, Field

from longstride.setting_groups.fields import FIELDS


class EventLog(BaseModel):
    """The event log from which a scenario is mined, and the limits of reading it."""

    model_config = FIELDS

    event_log: str = ""
    """Event log from which the scenario is mined, instead of SCENARIO. CSV, XES, Excel, Parquet or OCEL 2.0; "" for
    none."""

    log_columns: str = ""
    """Columns of a log whose names are not recognised. "case=..,activity=..,resource=..,start=..,end=..". If starts and
    completions have separate rows, add "transition=..,instance=.."."""

    time_format: str = ""
    """Format of a log's times. "day-first", "month-first", or a format of Python's strptime such as "%d/%m/%Y %H:%M".
    "" is enough for ISO 8601, month names, Unix times, and dates like 31/12/2024."""

    time_zone: str = ""
    """Time zone of the people's working hours. A name such as "Europe/Berlin". Times without a UTC offset are in this
    zone, others are converted. "" takes the times as they are, and rejects a mixture."""

    object_type: str = ""
    """Type of the objects that become cases in an object-centric log. Text, such as "orders" in a log of OCEL 2.0; ""
    for the only type."""

    skip_bad_rows: bool = False
    """Leave out bad rows of a log. True lists them in refused_rows.csv of the run directory; False rejects such a
    log."""

    keep_duplicates: bool = False
    """Keep repeated events of a log. They have the same case, activity, resource, start and end."""

    log_arrivals: Literal["weekly", "replay"] = "weekly"
    """Arrivals of a mined scenario. "weekly" draws them from the log's rate for each hour of the week, "replay" repeats
    the logged times in every episode."""

    classes: str = ""
    """Column of a log whose values are classes of cases. Each class has its own routing, delays and queues, and its own
    service times if these differ; numbers become three ranges. "auto" takes the column on which routing or times depend
    most in held-out cases, if there is one; "" for none."""

    log_tolerance: float = Field(default=0.15, ge=0)
    """Largest difference between the simulated process and its log up to which verdicts are given. Number >= 0, a share
    of the log's time or of the cycle time. The mined scenario keeps it."""

    log_max_bytes: int = Field(default=8_000_000_000, ge=1, lt=2**63)
    """Largest log, in unpacked bytes. Integer >= 1. The LOG_MAX_... limits protect against small files that become
    huge. If a log exceeds a limit, the error names it. Raise a limit for a genuine log, and lower the limits for logs
    of unknown origin."""

    log_max_unpacking: int = Field(default=200, ge=1, lt=2**63)
    """Largest compression ratio of a gzip file or workbook, once it exceeds 100 MB. Integer >= 1. Logs rarely exceed
    50."""

    log_max_memory: int = Field(default=4_000_000_000, ge=1, lt=2**63)
    """Largest number of bytes by which the process may grow while it reads a log. Integer >= 1. A CSV of 10 million
    events takes about 2 GB, JSON 10 times its size."""

    log_max_rows: int = Field(default=50_000_000, ge=1, lt=2**63)
    """Largest number of rows or events of a log. Integer >= 1."""

    log_max_columns: int = Field(default=1_000, ge=1, le=1_000_000)
    """Largest number of columns of a log. Integer >= 1."""

    log_max_sheets: int = Field(default=100, ge=1, le=1_000_000)
    """Largest number of sheets of a workbook. Integer >= 1."""

    log_max_nesting: int = Field(default=100, ge=10, le=100_000)
    """Largest nesting of XML elements, or of JSON lists and objects. Integer >= 10."""

    log_max_seconds: float = Field(default=60.0, ge=0, le=threading.TIMEOUT_MAX)
    """Longest time without a new row of a log, in seconds. Number >= 0; 0 for no limit."""
