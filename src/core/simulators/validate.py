"""Checks a simulator's attributes before anything is compiled."""

import numpy as np

from core.errors import UserError
from core.simulators.simulator import Simulator, function_of
from core.simulators.spaces import ActionSpace, Box


def require_complete(simulator: Simulator) -> None:
    """Check that a simulator states its sizes and defines its functions.

    Raises:
        UserError: an attribute or function is missing or of the wrong kind.
    """
    name = type(simulator).__name__
    for attribute in ("observation_size", "action_space", "max_steps", "state_dtype"):
        if not hasattr(simulator, attribute):
            raise UserError(f"{name} has no {attribute}: set it in the class (docs/reference/simulator-contract.md).")
    for attribute in ("reset", "observe", "step"):
        if function_of(simulator, attribute) is None:
            raise UserError(f"{name} defines no function {attribute}: see docs/reference/simulator-contract.md.")
    for attribute in ("observation_size", "max_steps"):
        value = getattr(simulator, attribute)
        if not isinstance(value, int) or value < 1:
            raise UserError(f"{name}.{attribute} must be a positive integer, not {value!r}.")
    _require_space(simulator, name)
    _require_features(simulator, name)
    if np.dtype(simulator.state_dtype).names is None:
        raise UserError(f"{name}.state_dtype must name its fields: np.dtype([('stock', np.int64), ...]).")


def _require_space(simulator: Simulator, name: str) -> None:
    space, logits = simulator.action_space, simulator.initial_logits
    if not isinstance(space, ActionSpace):
        raise UserError(
            f"{name}.action_space must be Discrete(n), MultiDiscrete(sizes) or Box(low, high) of "
            f"core.simulators.spaces, not {space!r}."
        )
    if isinstance(space, Box) and function_of(simulator, "action_mask") is not None:
        raise UserError(f"{name} has a Box of actions, which cannot be masked: remove action_mask.")
    if isinstance(space, Box) and logits is not None:
        raise UserError(f"{name} has a Box of actions, which has no logits: remove initial_logits.")
    if logits is not None and np.shape(logits) != (space.outputs,):
        raise UserError(f"{name}.initial_logits must be an array of {space.outputs} numbers, one an action.")


def _require_features(simulator: Simulator, name: str) -> None:
    weights, size = simulator.initial_feature_weights, simulator.action_feature_size
    if (size > 0) != (function_of(simulator, "action_features") is not None):
        raise UserError(f"{name}: action_features and a positive action_feature_size belong together; set both.")
    if size > 0 and isinstance(simulator.action_space, Box):
        raise UserError(f"{name} has a Box of actions, which has no logits to add to: remove action_features.")
    if weights is not None and np.shape(weights) != (size,):
        raise UserError(f"{name}.initial_feature_weights must be an array of action_feature_size = {size} numbers.")
