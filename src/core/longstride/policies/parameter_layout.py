"""Where each tensor of a policy lies in the one flat float32 array that holds all of them.

Order: observation mean, observation scale, actor layers, for a Gaussian policy the logarithms of its standard
deviations, the network that scores actions, the weights of the action features, mean and scale of the descriptions of
actions, value mean and standard deviation, critic layers. A layer is its weight
matrix, input-major ``[inputs, outputs]``, then its bias. The actor and its normalisation come first, so the actor
parameters are the front of the array, and crossing the bus is one copy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any

Matrices = list[tuple[int, int]]
"""Rows and columns of weight matrices, in their order."""

LOG_STD = "actor.log_std"
"""Name of a Gaussian policy's log-standard deviations, float32[numbers]."""

FEATURE_WEIGHTS = "actor.feature_weights"
"""Name of the weights of the action features, float32[action features]."""

DESCRIBE, MIX, MIX_BIAS, SCORE = "actor.describe", "actor.mix", "actor.mix_bias", "actor.score"
"""Names of the matrices and vectors of a network that scores actions (:mod:`longstride.policies.candidates`)."""

ACTION_MEAN, ACTION_SCALE = "action_mean", "action_scale"
"""Names of mean and 1 / standard deviation of the descriptions of actions, float32[figures]."""

USUAL_LIMIT = 10.0
"""Descriptions of actions and observations are clipped to +- this many standard deviations. An actor may have a
narrower limit of observations (``observation_limit`` of its spec)."""


@dataclass(frozen=True)
class ParameterLayout:
    """Names, shapes and offsets of the tensors in the flat array, in their order."""

    shapes: dict[str, tuple[int, ...]]
    alignment: int = 1  # offsets are multiples of it

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Index of the first element of each tensor."""
        sizes = (-(-prod(shape) // self.alignment) * self.alignment for shape in self.shapes.values())
        return dict(zip(self.shapes, accumulate(sizes, initial=0), strict=False))

    @property
    def size(self) -> int:
        """Number of float32 values in the flat array."""
        last = [*self.shapes][-1]
        return self.offsets[last] + prod(self.shapes[last])

    @cached_property
    def has_gaps(self) -> bool:
        """Whether there are places between the parameters of a part that no parameter has."""
        parts = [self.slice_of(part) for part in ("actor", "critic")]
        used = sum(prod(self.shapes[name]) for part in ("actor", "critic") for name in self.names(part))
        held: int = sum(part.stop - part.start for part in parts)
        return used < held

    def names(self, part: str) -> list[str]:
        """Return the names of the parameters of ``"actor"`` or ``"critic"``, which lie one after another."""
        return [name for name in self.shapes if name.startswith(f"{part}.")]

    def slice_of(self, part: str) -> slice:
        """Return where the parameters of ``"actor"`` or ``"critic"`` lie."""
        names = self.names(part)
        return slice(self.offsets[names[0]], self.offsets[names[-1]] + prod(self.shapes[names[-1]]))

    def view(self, flat: Any, name: str) -> Any:
        """Return the part of a flat tensor that holds a parameter, in its shape."""
        shape = self.shapes[name]
        return flat[self.offsets[name] : self.offsets[name] + prod(shape)].view(shape)

    @property
    def actor_size(self) -> int:
        """Number of leading values that are the actor parameters."""
        return self.offsets["value_mean"]

    @property
    def log_std_offset(self) -> int:
        """Index of a Gaussian policy's log-standard deviations; 0 for other policies."""
        return self.offsets.get(LOG_STD, 0)

    @property
    def feature_weights_offset(self) -> int:
        """Index of the weights of the action features; 0 where there are none."""
        return self.offsets.get(FEATURE_WEIGHTS, 0)

    def aligned(self, alignment: int) -> "ParameterLayout":
        """Return the layout whose tensors begin at multiples of a number of values."""
        return replace(self, alignment=alignment)


def parameter_shapes(
    observations: int, matrices: Mapping[str, Matrices], numbers: int, features: int, score_units: int
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors of a policy by name, in their order.

    Args:
        observations: numbers of an observation.
        matrices: rows and columns of the weight matrices of ``"actor"`` and ``"critic"``.
        numbers: numbers of a Gaussian policy's action, 0 for another policy.
        features: figures about each action.
        score_units: hidden units of the network that scores actions, 0 if none does.
    """
    figures: dict[str, tuple[int, ...]] = dict.fromkeys((ACTION_MEAN, ACTION_SCALE), (features,))
    return {
        "observation_mean": (observations,),
        "observation_scale": (observations,),
        **_layers("actor", matrices["actor"]),
        **({LOG_STD: (numbers,)} if numbers else {}),
        **(_scores(features, score_units) if score_units else {}),
        **({FEATURE_WEIGHTS: (features,)} if features else {}),
        **(figures if score_units else {}),
        "value_mean": (1,),
        "value_std": (1,),
        **_layers("critic", matrices["critic"]),
    }


def _scores(figures: int, units: int) -> dict[str, tuple[int, ...]]:
    return {DESCRIBE: (figures, units), MIX: (units, units), MIX_BIAS: (units,), SCORE: (units,)}


def _layers(name: str, matrices: Matrices) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for i, (n_in, n_out) in enumerate(matrices):
        shapes[f"{name}.{i}.weight"] = (n_in, n_out)
        shapes[f"{name}.{i}.bias"] = (n_out,)
    return shapes
