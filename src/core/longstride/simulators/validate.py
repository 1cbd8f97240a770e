"""Checks a simulator's attributes before anything is compiled."""

import math
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

import numpy as np

from longstride.errors import UserError, suggestion
from longstride.simulators.hooks import Hooks
from longstride.simulators.options import as_whole
from longstride.simulators.simulator import Simulator, function_of
from longstride.simulators.spaces import ActionSpace, Box, Discrete

_POLICIES = ("trained", "trained_sampled", "untrained")
"""Rows of an evaluation that are no heuristic's."""


_SIZES = (
    *("observation_size", "max_steps", "expected_steps", "default_rollout_steps"),
    *("action_feature_size", "summary_size", "description_size"),
)
"""Attributes that are integers of any kind, and become int."""


def require_complete(simulator: Simulator) -> None:
    """Check that a simulator states its sizes and defines its functions.

    Raises:
        UserError: an attribute or function is missing or of the wrong kind.
    """
    for attribute in _SIZES:
        if (whole := as_whole(getattr(simulator, attribute, None))) is not None:
            setattr(simulator, attribute, whole)
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
        if as_whole(value) is None or value < 1:
            yield f"{name}.{attribute} must be a positive integer, not {value!r}."
    space, logits, is_box = simulator.action_space, simulator.initial_logits, isinstance(simulator.action_space, Box)
    if not isinstance(space, ActionSpace):
        kinds = "Discrete(n), MultiDiscrete(sizes) or Box(low, high) of longstride.simulators.spaces"
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
    if not isinstance(simulator.hooks, Hooks):
        yield f"{name}.hooks must be an object of a class that extends longstride.simulators.hooks.Hooks."
    yield from _problems_of_descriptions(simulator, name)
    if np.dtype(simulator.state_dtype).names is None:
        yield f"{name}.state_dtype must name its fields: np.dtype([('stock', np.int64), ...])."
    yield from _problems_of_flags(simulator, name)
    count = len(simulator.quantities)
    if count and np.shape(getattr(simulator.parameters, "weights", ())) != (count,):
        yield f"{name} declares {count} quantities, so parameters.weights must be an array of {count} numbers."
    yield from _problems_of_comparisons(simulator, name)
    sizes = {
        "observation": simulator.observation_size,
        "action": space.outputs,
        "features": simulator.action_feature_size,
    }
    yield from problems_of_labels(simulator.labels, sizes, name)


def _problems_of_flags(simulator: Simulator, name: str) -> Iterator[str]:
    """Yield fields that are arrays of booleans; Numba has no arrays of them in records."""
    for attribute, holder in (("state_dtype", simulator.state_dtype), ("parameters", simulator.parameters)):
        dtype = np.dtype(holder) if attribute == "state_dtype" else getattr(holder, "dtype", np.dtype(np.void))
        for field in dtype.names or ():
            if dtype[field].subdtype and dtype[field].base == np.bool_:
                yield (
                    f"{name}.{attribute}: the field {field} is an array of booleans, which Numba cannot compile in a "
                    f"record; write ({field!r}, np.int8, {dtype[field].shape}), with 0 and 1."
                )


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


def _problems_of_comparisons(simulator: Simulator, name: str) -> Iterator[str]:
    """Yield what is wrong with what policies are compared by, and with what they are compared with."""
    metrics = () if simulator.metrics_dtype is None else np.dtype(simulator.metrics_dtype).names or ()
    if "return" in metrics:
        yield f"{name}.metrics_dtype: every episode has its return; give the field return another name."
    known = ["return", *metrics]
    named = {"main_metric": [simulator.main_metric], "metric_units": simulator.metric_units}
    for attribute, metric in ((attribute, metric) for attribute, found in named.items() for metric in found):
        if metric not in known:
            among = suggestion(str(metric), known, f"there are {', '.join(known)}")
            yield f"{name}.{attribute} names {metric!r}, which is not a metric in metrics_dtype{among}"
    for attribute in ("heuristics", "bounds"):
        for policy in _POLICIES:
            if policy in getattr(simulator, attribute):
                yield f"{name}.{attribute} has {policy!r}, the name of a trained policy's row; choose another name."
    for policy in simulator.bounds:
        if policy in simulator.heuristics:
            yield f"{name} has a heuristic and a bound of the name {policy!r}; rename one."
    if simulator.optimal and simulator.optimal not in simulator.heuristics:
        rules = f"there are {', '.join(simulator.heuristics) or 'none'}"
        remedy = suggestion(str(simulator.optimal), simulator.heuristics, rules)
        yield f"{name}.optimal names {simulator.optimal!r}, which is not a heuristic{remedy}"
    for reference, value in simulator.references.items():
        if not isinstance(value, Real) or not math.isfinite(value):
            yield f"{name}.references[{reference!r}] must be a finite number, not {value!r:.80}."


def problems_of_labels(given: Mapping[str, Any], sizes: Mapping[str, int], name: str) -> Iterator[str]:
    """Yield what is wrong with the attribute ``labels`` of a simulator whose arrays have some sizes."""
    known = [*sizes, *(f"{array}_units" for array in sizes)]
    for key, texts in given.items():
        if key not in known:
            yield f"{name}.labels has no {key!r}{suggestion(key, known, f'there are {known}')}"
        elif isinstance(texts, str) or len(texts) not in (0, sizes[key.removesuffix("_units")]):
            yield f"{name}.labels[{key!r}] must be {sizes[key.removesuffix('_units')]} texts, not {texts!r:.80}."
