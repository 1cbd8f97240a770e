"""Objectives: weights of the quantities that a simulator declares."""

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from longstride.errors import UserError, suggestion


def parse_objective(text: str) -> dict[str, float]:
    """Return the weights in a text such as ``cost=1 tardiness=20``, by the names of quantities.

    Raises:
        UserError: the text is something else.
    """
    weights: dict[str, float] = {}
    for word in text.replace(",", " ").split():
        name, equals, number = word.partition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if not name or not equals or not math.isfinite(weight):
            raise UserError(f"OBJECTIVE is {text!r}; expected NAME=WEIGHT ..., such as 'cost=1 tardiness=20'.")
        if name in weights:
            raise UserError(f"OBJECTIVE is {text!r}, which weighs {name} twice; leave out one.")
        weights[name] = weight
    return weights


def weighed(simulator: Any, objective: Mapping[str, float]) -> Any:
    """Return a copy of a simulator with these weights in ``parameters.weights``, and 0 for other quantities.

    Raises:
        UserError: the simulator does not declare a quantity.
    """
    kind, names = type(simulator).__name__, list(simulator.quantities)
    for name in objective:
        if not names:
            raise UserError(f"OBJECTIVE weighs {name!r}, but {kind} declares no quantities; leave it out.")
        if name not in names:
            ending = suggestion(name, names, f"there are {', '.join(names)}")
            raise UserError(f"OBJECTIVE weighs {name!r}, which {kind} does not declare{ending}")
    changed = copy.copy(simulator)
    row = np.array([objective.get(name, 0.0) for name in names])
    if hasattr(simulator.parameters, "_replace"):
        changed.parameters = simulator.parameters._replace(weights=row)
    else:
        changed.parameters = simulator.parameters.copy()
        changed.parameters["weights"] = row
    return changed
