"""Every setting of a run as one validated, frozen Config."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, JsonValue, ValidationError

from longstride.errors import UserError, suggestion
from longstride.setting_groups.event_log import EventLog
from longstride.setting_groups.former import renamed, without_removed
from longstride.setting_groups.learning import Learning
from longstride.setting_groups.machine import Machine
from longstride.setting_groups.policy import Policy
from longstride.setting_groups.run import Run
from longstride.setting_groups.service import Service
from longstride.setting_groups.simulator import Simulation

GROUPS: Mapping[str, type[BaseModel]] = {
    "settings of the run": Run,
    "settings of the simulator": Simulation,
    "settings of the event log": EventLog,
    "settings of the policy": Policy,
    "settings of learning": Learning,
    "settings of the machine": Machine,
    "settings of the service": Service,
}
"""The groups of settings by their titles, in the order of hyperparameters.py and of ``--help``."""


class Config(Service, Machine, Learning, Policy, EventLog, Simulation, Run):  # pydantic lists the last base first
    """Every setting of a run, lower case. ``longstride`` exports this class as ``Hyperparameters``.

    Raises:
        UserError: an unknown name, a wrong type or a value out of range.
    """

    @property
    def options_of_simulator(self) -> dict[str, Any]:
        """Arguments of the simulator: SIMULATOR_OPTIONS, and of the process the settings that are its options.

        Raises:
            UserError: SIMULATOR_OPTIONS has a value of a wrong type for such a setting.
        """
        if self.simulator != "process":
            return dict(self.simulator_options)
        own = {name: value for name, value in self.simulator_options.items() if name in PROCESS_OPTIONS}
        checked = validated(own, {name: f"--simulator-option {name}" for name in own})
        named = {name: getattr(checked if name in own else self, name) for name in PROCESS_OPTIONS}
        return {**self.simulator_options, **named, "objective": self.objective}

    @property
    def weights(self) -> str:
        """OBJECTIVE for the quantities of a simulator; empty for the process, which takes it as an option."""
        return "" if self.simulator == "process" else self.objective

    if not TYPE_CHECKING:  # type checkers and editors derive the names from the fields

        def __init__(self, **values: Any) -> None:
            values = without_removed(renamed({n: _plain(value) for n, value in values.items()}), {}, str.lower)
            _refuse_unknown(values, {}, str.lower)
            try:
                super().__init__(**values)
            except ValidationError as error:
                problem = error.errors()[0]
                message = problem["msg"].removeprefix("Input should be ").removeprefix("input was not ")
                raise UserError(f"{problem['loc'][0]}: {problem['input']!r} should be {message}.") from None


def _plain(value: Any) -> Any:
    """Return a value with numbers, truth values and arrays of NumPy as those of Python."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value


LOG_LIMITS = tuple(name for name in Config.model_fields if name.startswith("log_max_"))
"""What reading an event log may take."""

AIMS = ("due", "cost", "target", "main_metric", "class_weights", "late_cases", "batch_start")
"""Settings that say what a process is measured by and what is decided; with OBJECTIVE they belong to a run's policy."""

PROCESS_OPTIONS = (
    *("scenario", "event_log", "log_columns", "log_arrivals", "classes", "log_tolerance", "policy_prior", *AIMS),
    *("time_format", "time_zone", "object_type", "skip_bad_rows", "keep_duplicates", *LOG_LIMITS),
)
"""Settings that are options of the simulator ``process``, and have flags and names of their own."""


def load_values(values: Mapping[str, Any], where: str) -> Config:
    """Return the Config of some lower-case names, which come from somewhere; the others have their defaults.

    Raises:
        UserError: an unknown name, a wrong type or a value out of range.
    """
    return validated(dict(values), {name: f"{where}: {name}" for name in values})


def flag_of(name: str) -> str:
    """Return the flag of a lower-case name."""
    return "--" + name.replace("_", "-")


def validated(values: dict[str, Any], where: Mapping[str, str]) -> Config:
    """Return the Config of some lower-case names.

    Args:
        values: name -> value.
        where: name -> what a sentence calls it.

    Raises:
        UserError: an unknown name, a wrong type or a value out of range.
    """
    values = without_removed(renamed(values), where, str.upper)
    _refuse_unknown(values, where, str.upper)
    try:
        return Config(**values)
    except UserError as error:
        name, _, reason = str(error).partition(": ")
        raise UserError(f"{where.get(name, name)}: {reason}") from None


def _refuse_unknown(values: Mapping[str, Any], where: Mapping[str, str], spell: Callable[[str], str]) -> None:
    """Refuse names that Config does not have, and bools where it has none or nothing else."""
    for name, value in values.items():
        known = Config.model_fields.get(name)
        if known is None:
            names = [spell(field) for field in Config.model_fields]
            hint = suggestion(spell(name), names, "it is not in the list of names")
            raise UserError(f"{where.get(name, name)} is unknown{hint}")
        if isinstance(value, bool) != (known.annotation is bool) and not isinstance(value, str):
            raise UserError(f"{where.get(name, name)}: {value!r} is not {_kind(known.annotation)}.")


def _kind(annotation: Any) -> str:
    return {bool: "True or False", int: "an integer", float: "a number", dict[str, JsonValue]: "a dictionary"}.get(
        annotation, "text"
    )
