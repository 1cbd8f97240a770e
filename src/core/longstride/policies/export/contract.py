"""The contract of an exported policy: what goes in, what comes out and what it means, as JSON."""

import math
from typing import Any

import numpy as np
import safetensors.numpy

from longstride.escaping import json_line
from longstride.policies.export.family import family_export
from longstride.policies.export.labels import Label, Labels
from longstride.policies.parameter_layout import FEATURE_WEIGHTS, LOG_STD
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete
from longstride.version import __version__

FORMAT = "longstride-policy/1"

FORBIDDEN = -1e30
"""Logit of a forbidden action."""

TENSORS, CONTRACT, ONNX, C_SOURCE, C_HEADER, README = (
    *("policy.safetensors", "policy.json", "policy.onnx", "policy.c", "policy.h", "README.md"),
)
"""Names of the files."""


def actor_tensors(spec: PolicySpec, params: np.ndarray) -> dict[str, np.ndarray]:
    """Return the parameters of the actor by name, float32, matrices as [inputs, outputs].

    Args:
        spec: architecture of the policy.
        params: float32[*], the actor's part of the flat parameters.
    """
    layout = spec.layout
    return {
        name: params[offset : offset + math.prod(layout.shapes[name])].reshape(layout.shapes[name])
        for name, offset in layout.offsets.items()
        if offset < layout.actor_size
    }


def safetensors_bytes(spec: PolicySpec, params: np.ndarray) -> bytes:
    """Return the file of the parameters."""
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in actor_tensors(spec, params).items()}
    return safetensors.numpy.save(tensors, {"format": FORMAT})


def contract_of(spec: PolicySpec, params: np.ndarray, labels: Labels, origin: dict[str, Any]) -> dict[str, Any]:
    """Return the contract as JSON values; ``origin``, about the run, stands beside the format.

    Raises:
        UserError: the family cannot be exported.
    """
    layout = spec.layout
    return {
        "format": FORMAT,
        "longstride": __version__,
        **origin,
        "inputs": _inputs(spec, labels),
        "outputs": _outputs(spec, labels),
        "acting": acting_words(bool(origin.get("draws"))),
        "distribution": _distribution(spec, params),
        "normalization": {
            "formula": "x = clip((observation - observation_mean) * observation_scale, -limit, limit)",
            "limit": spec.observation_limit,
            "inside": [ONNX, C_SOURCE],
        },
        "network": family_export(spec).description(spec),
        "parameters": {
            "file": TENSORS,
            "dtype": "float32",
            "tensors": {name: list(layout.shapes[name]) for name in actor_tensors(spec, params)},
        },
    }


def acting_words(draws: bool) -> str:
    """Return the sentence about the better way to act."""
    if draws:
        return (
            "Draw the actions: an evaluation has shown draws to be better for this policy than the most likely actions."
        )
    return "Take the most likely actions: no evaluation has shown draws to be better for this policy."


def deviations(spec: PolicySpec, params: np.ndarray) -> np.ndarray:
    """Return the standard deviations of the draws of real actions, float64[numbers]."""
    return np.exp(actor_tensors(spec, params)[LOG_STD].astype(np.float64))


def contract_bytes(contract: dict[str, Any]) -> bytes:
    """Return the file of a contract."""
    return (json_line(contract, 1) + "\n").encode()


def _array(name: str, dtype: str, shape: list[int], meaning: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": ["batch", *shape], "meaning": meaning, **more}


def _labelled(labels: tuple[Label, ...]) -> dict[str, Any]:
    """Return names and units where the simulator gives them."""
    return {"elements": [{"name": label.name, "unit": label.unit or None} for label in labels]} if labels else {}


def _inputs(spec: PolicySpec, labels: Labels) -> list[dict[str, Any]]:
    """Return the inputs, in the order of the ONNX model."""
    size, k = spec.action_space.outputs, spec.action_features
    meaning = "what the simulator observes, not scaled"
    found = [_array("observation", "float32", [spec.observation_size], meaning, **_labelled(labels.observation))]
    if not isinstance(spec.action_space, Box):
        found.append(_array("mask", "bool", [size], "true where a value is allowed; one of each choice must be"))
    if k:
        meaning = "figures about each action; the weights are shared by all actions"
        found.append(_array("features", "float32", [size, k], meaning, **_labelled(labels.features)))
    if spec.state_size:
        meaning = "what the policy remembers: zeros when an episode begins, then next_state of the step before"
        found.append(_array("state", "float32", [spec.state_size], meaning))
    return found


def _outputs(spec: PolicySpec, labels: Labels) -> list[dict[str, Any]]:
    """Return the outputs, in the order of the ONNX model."""
    space = spec.action_space
    if isinstance(space, Box):
        clipped = (
            "the mean, mapped onto the bounds by tanh"
            if space.squashed
            else "the mean, scaled and clipped to the bounds"
        )
        found = [
            _array("action", "float32", [space.outputs], f"{clipped} (greedy)", **_labelled(labels.action)),
            _array("mean", "float32", [space.outputs], "means of the Gaussian before the bounds"),
        ]
    else:
        shape = [] if isinstance(space, Discrete) else [len(space.choices)]
        meaning = f"unnormalised log-probabilities of all values; {FORBIDDEN:g} where forbidden"
        found = [
            _array("action", "int64", shape, "the most likely allowed value of each choice (greedy)"),
            _array("logits", "float32", [space.outputs], meaning, **_labelled(labels.action)),
        ]
    if spec.state_size:
        found.append(_array("next_state", "float32", [spec.state_size], "the state for the next step"))
    return found


def _distribution(spec: PolicySpec, params: np.ndarray) -> dict[str, Any]:
    """Return what a sampled action is drawn from."""
    space = spec.action_space
    if isinstance(space, Box):
        low, high = ([x if math.isfinite(x) else None for x in bounds] for bounds in (space.low, space.high))
        onto = "low + (high - low) * (tanh(x) + 1) / 2" if space.squashed else "clip(centre + scale * x, low, high)"
        return {
            "kind": "gaussian",
            "standard_deviation": deviations(spec, params).tolist(),
            "low": low,
            "high": high,
            "centre": space.centre.tolist(),
            "scale": space.scales.tolist(),
            "squashed": space.squashed,
            "formula": f"x = mean + standard_deviation * standard normal; action = {onto}",
        }
    added = f"; logits have features @ {FEATURE_WEIGHTS} added" if spec.action_features else ""
    return {
        "kind": "categorical" if isinstance(space, Discrete) else "independent categorical choices",
        "choices": list(space.choices),
        "formula": f"probabilities of a choice = softmax of its allowed logits{added}",
        **({"order": "logits of the choices stand one after another"} if isinstance(space, MultiDiscrete) else {}),
    }
