"""Reads and writes scenario files; every problem is a sentence that names the place."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from longstride.errors import UserError, reason, suggestion
from longstride.process.event_logs.reading.decode import require_file
from longstride.process.event_logs.reading.json_content import parse_json
from longstride.process.event_logs.reading.limits import Guard, LogLimits
from longstride.process.kernel.record_sizes import sizes_of
from longstride.process.scenario.aims import Aims
from longstride.process.scenario.calendar import Absence
from longstride.process.scenario.case_values import CaseValues
from longstride.process.scenario.routing import build_routing
from longstride.process.scenario.scenario import Arrivals, Scenario, Service, Shift, check_scenario
from longstride.process.scenario.schema import Capacity, Horizon

_PARTS: dict[str, type[BaseModel]] = {
    "horizon": Horizon,
    "arrivals": Arrivals,
    "service": Service,
    "capacity": Capacity,
    "working_hours": Shift,
    "absences": Absence,
    "aims": Aims,
    "case_values": CaseValues,
}


def load_scenario(path: Path) -> Scenario:
    """Read and check a scenario file.

    Raises:
        UserError: the file is missing, is not JSON, or describes an impossible process.
    """
    guard = Guard(LogLimits(), str(path), has_settings=False)
    try:
        require_file(path, "scenario")
        guard.require_memory(path.stat().st_size)
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"There is no scenario file {path}.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"Cannot read the scenario file {path}: {reason(error)}.") from None
    try:
        data = parse_json(text, guard)
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON: {reason(error)}.") from None
    return parse_scenario(data, str(path))


def parse_scenario(data: Any, source: str) -> Scenario:
    """Check the content of a scenario file; messages name its ``source``.

    Raises:
        UserError: the content describes an impossible process; the message names the place.
    """
    if not isinstance(data, dict):
        raise UserError(f"{source}: a scenario is a JSON object, not {type(data).__name__}.")
    try:
        scenario = Scenario.model_validate(data)
        check_scenario(scenario)
        routing = build_routing(scenario.flow, scenario.activities)
        sizes_of(scenario, routing)  # refuses flows that never end and episodes that are too long
    except ValidationError as error:
        raise UserError(f"{source}: {_sentence(error)}") from None
    except UserError as error:
        raise UserError(f"{source}: {error}") from None
    return scenario


def scenario_content(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario as the JSON values that :func:`parse_scenario` reads."""
    return scenario.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True, mode="json")


def _sentence(error: ValidationError) -> str:
    """Turn the first problem that pydantic found into a sentence with its place."""
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"unknown key {where}{suggestion(str(problem['loc'][-1]), _known_keys(problem['loc']))}"
    if problem["type"] == "missing":
        return f"{where} is missing."
    return f"{where}: {problem['msg']} (it is {str(problem['input'])[:60]!r})."


def _known_keys(location: Sequence[int | str]) -> list[str]:
    """Return the keys that the object at a location may have."""
    part = _PARTS.get(str(location[0])) if len(location) > 1 else Scenario
    return [field.alias or name for name, field in part.model_fields.items()] if part else []
