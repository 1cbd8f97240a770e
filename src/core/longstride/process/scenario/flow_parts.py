"""Checks of the parts of a flow: choices, names, widths."""

from typing import Any

from longstride.errors import UserError

_TOLERANCE = 1e-6


def probabilities_of(choices: Any, key: str, where: str) -> list[float]:
    """Check a list of ``{"p": .., key: ..}`` and return the probabilities."""
    if not isinstance(choices, list) or not choices:
        raise UserError(f"{where}: expected a list of choices, not {short(choices)}.")
    for i, choice in enumerate(choices):
        if not isinstance(choice, dict) or set(choice) != {"p", key}:
            raise UserError(f"{where}[{i}]: expected the keys p and {key}, not {short(choice)}.")
        p = choice["p"]
        if isinstance(p, bool) or not isinstance(p, int | float) or not 0.0 <= p <= 1.0:
            raise UserError(f"{where}[{i}].p: expected a probability between 0 and 1, not {short(p)}.")
    total = sum(float(c["p"]) for c in choices)
    if abs(total - 1.0) > _TOLERANCE:
        raise UserError(f"{where}: the probabilities add up to {total:.6g}, not to 1.")
    return [float(c["p"]) / total for c in choices]


def activity_in(name: Any, index: dict[str, int], where: str) -> str:
    """Return a name that is one of the activities; ``where`` is its place in the flow."""
    if not isinstance(name, str) or name not in index:
        raise UserError(f"{where}: {short(name)} is not one of the scenario's activities.")
    return name


def width_of_tree(flow: dict[str, Any]) -> int:
    """Return the largest number of tasks of one case that can wait at once."""
    kind, content = next(iter(flow.items()))
    if kind == "task":
        return 1
    widths = [width_of_tree(c["branch"] if kind == "xor" else c) for c in content]
    return sum(widths) if kind == "and" else max(widths)


def short(value: Any) -> str:
    """Return a value as text of at most 60 letters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
