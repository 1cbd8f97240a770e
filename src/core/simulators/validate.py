"""Checks a simulator's attributes before anything is compiled."""

from collections.abc import Iterator

import numpy as np

from core.errors import UserError
from core.simulators.simulator import Simulator, function_of
from core.simulators.spaces import ActionSpace, Box, Discrete


def require_complete(simulator: Simulator) -> None:
    """Check that a simulator states its sizes and defines its functions.

    Raises:
        UserError: an attribute or function is missing or of the wrong kind.
    """
    if problem := next(_problems(simulator, type(simulator).__name__), None):
        raise UserError(problem)


def _problems(simulator: Simulator, name: str) -> Iterator[str]:
    """Yield what is wrong; what comes later may rely on what comes before."""
    for attribute in ("observation_size", "action_space", "max_steps", "state_dtype"):
        if not hasattr(simulator, attribute):
            yield f"{name} has no {attribute}: set it in the class (docs/reference/simulator-contract.md)."
    for attribute in ("reset", "observe", "step"):
        if function_of(simulator, attribute) is None:
            yield f"{name} defines no function {attribute}: see docs/reference/simulator-contract.md."
    for attribute in ("observation_size", "max_steps"):
        value = getattr(simulator, attribute)
        if not isinstance(value, int) or value < 1:
            yield f"{name}.{attribute} must be a positive integer, not {value!r}."
    space, logits, is_box = simulator.action_space, simulator.initial_logits, isinstance(simulator.action_space, Box)
    if not isinstance(space, ActionSpace):
        kinds = "Discrete(n), MultiDiscrete(sizes) or Box(low, high) of core.simulators.spaces"
        yield f"{name}.action_space must be {kinds}, not {space!r}."
    if is_box and function_of(simulator, "action_mask") is not None:
        yield f"{name} has a Box of actions, which cannot be masked: remove action_mask."
    if is_box and logits is not None:
        yield f"{name} has a Box of actions, which has no logits: remove initial_logits."
    if logits is not None and np.shape(logits) != (space.outputs,):
        yield f"{name}.initial_logits must be an array of {space.outputs} numbers, one an action."
    weights, size = simulator.initial_feature_weights, simulator.action_feature_size
    if (size > 0) != (function_of(simulator, "action_features") is not None):
        yield f"{name}: action_features and a positive action_feature_size belong together; set both."
    if size > 0 and is_box:
        yield f"{name} has a Box of actions, which has no logits to add to: remove action_features."
    if weights is not None and np.shape(weights) != (size,):
        yield f"{name}.initial_feature_weights must be an array of action_feature_size = {size} numbers."
    yield from _problems_of_descriptions(simulator, name)
    if np.dtype(simulator.state_dtype).names is None:
        yield f"{name}.state_dtype must name its fields: np.dtype([('stock', np.int64), ...])."


def _problems_of_descriptions(simulator: Simulator, name: str) -> Iterator[str]:
    """Yield what is wrong with what policies read that score lists of actions."""
    sizes = {"summarise": simulator.summary_size, "describe_actions": simulator.description_size}
    given = {function: function_of(simulator, function) is not None for function in sizes}
    if len({*given.values(), *(size > 0 for size in sizes.values())}) > 1:
        yield (
            f"{name}: summarise, describe_actions, a positive summary_size and a positive description_size belong "
            "together; set all four."
        )
    if given["describe_actions"] and not isinstance(simulator.action_space, Discrete):
        yield f"{name} describes actions, which are not of a Discrete space: remove describe_actions."
    weights, size = simulator.initial_description_weights, sizes["describe_actions"]
    if weights is not None and np.shape(weights) != (size,):
        yield f"{name}.initial_description_weights must be an array of description_size = {size} numbers."
