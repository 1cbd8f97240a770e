"""Options of the process simulator, by the names of their settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from longstride.config import LOG_LIMITS, PROCESS_OPTIONS, Config
from longstride.errors import UserError, suggestion
from longstride.process.choose_prior import AUTO
from longstride.process.event_logs.reading.limits import LogLimits
from longstride.process.event_logs.reading.options import LogReading, parse_log_columns
from longstride.process.kernel.policy_prior import PRIORS
from longstride.process.read_aims import AimSettings
from longstride.simulators.hooks import OBJECTIVE

TOLERANCE = float(Config.model_fields["log_tolerance"].default)
_READING = tuple(field.name for field in fields(LogReading) if field.name != "limits")
LOG_SETTINGS = (*_READING, *LOG_LIMITS, "log_columns", "log_arrivals", "classes")
"""Settings that decide what is mined from a log, and the limits of reading it."""

T = TypeVar("T")


@dataclass(frozen=True)
class ProcessOptions:
    """Options of a process.

    Attributes:
        scenario: bundled name or file.
        event_log: file to mine the scenario from; empty for none.
        log_columns: ``case=..,activity=..`` for columns that are not recognised.
        log_arrivals: ``"weekly"`` or ``"replay"``.
        log_tolerance: difference of the simulation from the log beyond which no verdict is given.
        policy_prior: prior of an untrained policy; ``"auto"`` to let a run choose.
        classes: column of the log whose values are classes of cases, or ``"auto"``; empty for none.
        reading: times, object type, bad rows and limits of the log.
        aims: aims of the scenario, and who begins batches.
    """

    scenario: str = "loan_desk"
    event_log: str = ""
    log_columns: str = ""
    log_arrivals: str = "weekly"
    log_tolerance: float = TOLERANCE
    policy_prior: str = AUTO
    classes: str = ""
    reading: LogReading = field(default_factory=LogReading)
    aims: AimSettings = field(default_factory=AimSettings)

    @property
    def columns(self) -> dict[str, str]:
        """Columns that are not recognised, by field."""
        return parse_log_columns(self.log_columns) if self.log_columns else {}


def process_options(given: Mapping[str, Any]) -> ProcessOptions:
    """Return the options of a process from settings by name, such as ``time_format`` or ``log_max_rows``.

    Raises:
        UserError: there is no such option, or no such prior.
    """
    known = (*PROCESS_OPTIONS, OBJECTIVE)
    for name in given:
        if name not in known:
            raise UserError(f"process has no option {name} (there are {', '.join(known)}){suggestion(name, known)}")
    limits = LogLimits(**{name.removeprefix("log_"): given[name] for name in LOG_LIMITS if name in given})
    reading = _filled(LogReading, given, limits=limits)
    options = _filled(ProcessOptions, given, reading=reading, aims=_filled(AimSettings, given))
    if options.policy_prior not in (AUTO, *PRIORS):
        raise UserError(f"policy_prior is {options.policy_prior!r}; expected {', '.join((AUTO, *PRIORS))}.")
    return options


def options_of(config: Config) -> ProcessOptions:
    """Return the options of a process in a Config."""
    return process_options({name: getattr(config, name) for name in PROCESS_OPTIONS})


def _filled(kind: type[T], given: Mapping[str, Any], **others: Any) -> T:
    """Return a dataclass with the values of its fields' names."""
    named = {each.name: given[each.name] for each in fields(kind) if each.name in given}  # type: ignore[arg-type]
    return kind(**named, **others)
