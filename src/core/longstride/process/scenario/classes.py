"""Flows with classes of cases: each arriving case is of one class, which has a flow of its own.

``{"classes": [{"name": "urgent", "p": 0.2, "flow": {...}}, {"name": "normal", "p": 0.8, "flow": {...}}]}``: an activity
that one class alone names has queue, people and service times of that class; others are shared.
"""

from collections.abc import Callable, Iterator
from typing import Any

from longstride.errors import UserError

CLASSES = "classes"
"""Key of a flow with classes."""

SEPARATOR = " · "
"""Between an activity and a class in the names that mining gives to activities of a class."""

_TOLERANCE = 1e-6


def has_classes(flow: dict[str, Any]) -> bool:
    """Return whether a flow has classes."""
    return set(flow) == {CLASSES}


def class_names(flow: dict[str, Any]) -> list[str]:
    """Return the names of a flow's classes; none without classes, and none if they are malformed."""
    parts = flow[CLASSES] if has_classes(flow) else []
    names = [part.get("name") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return [name for name in names if isinstance(name, str)]


def flows_of(flow: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the flow of each class, or the flow itself if it has none."""
    parts = flow[CLASSES] if has_classes(flow) else [{"flow": flow}]
    if isinstance(parts, list):
        yield from (part["flow"] for part in parts if isinstance(part, dict) and isinstance(part.get("flow"), dict))


def with_flows(flow: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Return a flow with the flow of each class changed, or the flow itself if it has none."""
    if not has_classes(flow):
        return change(flow)
    return {CLASSES: [{**part, "flow": change(part["flow"])} for part in flow[CLASSES]]}


def parse_classes(parts: Any) -> list[tuple[str, float, dict[str, Any]]]:
    """Return name, probability and flow of each class.

    Raises:
        UserError: an entry is malformed; the message names the place.
    """
    if not isinstance(parts, list) or not parts:
        raise UserError("flow.classes: expected a list of classes that is not empty.")
    found: list[tuple[str, float, dict[str, Any]]] = []
    for i, part in enumerate(parts):
        where = f"flow.classes[{i}]"
        if not isinstance(part, dict) or set(part) != {"name", "p", "flow"}:
            raise UserError(f"{where}: expected the keys name, p and flow.")
        name, p, flow = part["name"], part["p"], part["flow"]
        if not isinstance(name, str) or not name.strip():
            raise UserError(f"{where}.name: expected a text that is not empty, not {str(name)[:60]!r}.")
        if name in [known for known, *_ in found]:
            raise UserError(f"{where}.name: {name!r} is listed twice.")
        if isinstance(p, bool) or not isinstance(p, int | float) or not 0.0 < p <= 1.0:
            raise UserError(f"{where}.p: expected a probability above 0, not {str(p)[:60]!r}.")
        if not isinstance(flow, dict) or has_classes(flow):
            raise UserError(f"{where}.flow: expected a tree, a chain or a list of cases.")
        found.append((name, float(p), flow))
    total = sum(p for _, p, _ in found)
    if abs(total - 1.0) > _TOLERANCE:
        raise UserError(f"flow.classes: the probabilities add up to {total:.6g}, not to 1.")
    return [(name, p / total, flow) for name, p, flow in found]
