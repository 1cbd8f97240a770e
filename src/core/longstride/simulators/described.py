"""A simulator as its checkpoint describes it: names and units as data, so that nothing of its source has to run."""

from collections.abc import Mapping, Sequence
from typing import Any

from longstride.errors import UserError
from longstride.simulators.simulator import Simulator


class DescribedSimulator(Simulator):
    """A simulator that cannot be played: only the attributes that a report or an export shows are set."""


def described(simulator: Simulator) -> dict[str, Any]:
    """Return the names and units of a simulator as JSON values; nothing where an attribute is of another kind."""
    try:
        return {
            "main_metric": str(simulator.main_metric),
            "main_metric_lower_is_better": bool(simulator.main_metric_lower_is_better),
            "metric_units": {str(name): str(unit) for name, unit in simulator.metric_units.items()},
            "metric_labels": _lists(simulator.metric_labels),
            "labels": _lists(simulator.labels),
            "heuristics": [str(name) for name in simulator.heuristics],
            "bounds": [str(name) for name in simulator.bounds],
            "optimal": str(simulator.optimal),
        }
    except Exception:  # a user's attributes; the run itself does not need them here
        return {}


def from_description(content: object) -> DescribedSimulator | None:
    """Return the simulator of :func:`described`; None if the values are not such as a run writes."""
    try:
        return _from_description(content) if isinstance(content, dict) and content else None
    except (LookupError, TypeError, ValueError, AttributeError):
        return None


def _from_description(content: Mapping[str, Any]) -> DescribedSimulator:
    simulator = DescribedSimulator()
    simulator.main_metric = str(content["main_metric"])
    simulator.main_metric_lower_is_better = bool(content["main_metric_lower_is_better"])
    simulator.metric_units = {str(name): str(unit) for name, unit in content["metric_units"].items()}
    simulator.metric_labels, simulator.labels = _lists(content["metric_labels"]), _lists(content["labels"])
    simulator.heuristics = {str(name): _unplayable for name in content["heuristics"]}
    simulator.bounds = {str(name): _unplayable for name in content["bounds"]}
    simulator.optimal = str(content.get("optimal", ""))  # checkpoints of earlier versions have none
    return simulator


def _lists(given: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {str(name): [str(value) for value in values] for name, values in given.items()}


def _unplayable(*arguments: object) -> None:
    raise UserError("A simulator that is only described cannot be played.")
