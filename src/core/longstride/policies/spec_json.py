"""The spec of a policy as JSON values, as checkpoints and orders to other hosts hold it."""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from longstride.errors import UserError
from longstride.policies.families.families import family_of
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import ActionSpace, Box, Discrete, MultiDiscrete


def spec_to_json(spec: PolicySpec) -> dict[str, Any]:
    """Return JSON values from which :func:`spec_from_json` makes an equal spec."""
    values = {each.name: getattr(spec, each.name) for each in fields(spec)}
    return {**values, "action_space": _space_to_json(spec.action_space), "family": spec.family.name}


def spec_from_json(values: Mapping[str, Any]) -> PolicySpec:
    """Return the spec that :func:`spec_to_json` described; without a family that of perceptrons.

    Raises:
        KeyError, TypeError, ValueError: the values describe none.
    """
    hidden = {name: tuple(map(int, values[name])) for name in ("actor_hidden", "critic_hidden")}
    space, family = _space_from_json(values["action_space"]), family_of(str(values.get("family", "mlp")))
    spec = PolicySpec(**{**values, **hidden, "action_space": space, "family": family})
    _require_scalars(spec)
    return spec


def _require_scalars(spec: PolicySpec) -> None:
    """Check the types of a spec's own values.

    Raises:
        TypeError: a size is no integer from 0 on, or another value is no text or finite number from 0 on.
    """
    for each in fields(spec):
        value = getattr(spec, each.name)
        if each.name in ("actor_hidden", "critic_hidden", "action_space", "family"):
            continue
        kinds = {int: int, "int": int, float: int | float, "float": int | float}
        is_known = isinstance(value, kinds.get(each.type, str)) and not isinstance(value, bool)
        if not is_known or (isinstance(value, int | float) and not 0 <= value < 2**31):
            raise TypeError(f"{each.name} is {value!r:.50}")


def _space_to_json(space: ActionSpace) -> dict[str, Any]:
    """Return a space as JSON values; an infinite bound is None."""
    if isinstance(space, Discrete):
        return {"discrete": space.n}
    if isinstance(space, MultiDiscrete):
        return {"multi_discrete": list(space.sizes)}
    low, high = ([x if math.isfinite(x) else None for x in bounds] for bounds in (space.low, space.high))
    return {"box": {"low": low, "high": high, "squashed": space.squashed, "scale": space.scale and list(space.scale)}}


def _space_from_json(values: dict[str, Any]) -> ActionSpace:
    [(kind, value)] = values.items()
    if kind == "discrete":
        return Discrete(value)
    if kind == "multi_discrete":
        return MultiDiscrete(value)
    low = [-math.inf if x is None else x for x in value["low"]]
    high = [math.inf if x is None else x for x in value["high"]]
    if "scale" not in value and not value["squashed"]:  # numbers were the draws themselves
        box = Box(low, high)
        if box.centre.any() or set(box.scales) != {1.0}:
            raise UserError(
                "An earlier version of Longstride, which did not scale real-valued actions, trained this policy: "
                "train again, or use that one."
            )
    return Box(low, high, value["squashed"], value.get("scale"))
