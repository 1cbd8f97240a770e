"""Where each tensor of a policy lies in the one flat float32 array that holds all of them.

Order: observation mean, observation scale, actor layers, for a Gaussian policy the logarithms of its standard
deviations, the weights of the action features, value mean and standard deviation, critic layers. A layer is its weight
matrix, input-major ``[inputs, outputs]``, then its bias. The actor and its normalisation come first, so the CPU copy of
the policy is the front of the array and crossing the bus is one copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

LOG_STD = "actor.log_std"
"""Name of a Gaussian policy's log-standard deviations, float32[numbers]."""

FEATURE_WEIGHTS = "actor.feature_weights"
"""Name of the weights of the action features, float32[action features]."""

OBSERVATION_CLIP = 10.0
"""Normalised observations are clipped to +- this many standard deviations, as Stable-Baselines3 does."""


@dataclass(frozen=True)
class ParameterLayout:
    """Names, shapes and offsets of the tensors in the flat array."""

    shapes: dict[str, tuple[int, ...]]

    @property
    def offsets(self) -> dict[str, int]:
        """Index of the first element of each tensor."""
        offsets, total = {}, 0
        for name, shape in self.shapes.items():
            offsets[name] = total
            total += prod(shape)
        return offsets

    @property
    def size(self) -> int:
        """Number of float32 values in the flat array."""
        return sum(prod(shape) for shape in self.shapes.values())

    @property
    def actor_size(self) -> int:
        """Number of leading values that the CPU copy needs."""
        return self.offsets["value_mean"]


def policy_layout(
    actor_sizes: Sequence[int], critic_sizes: Sequence[int], gaussian: bool = False, action_features: int = 0
) -> ParameterLayout:
    """Lay out an actor and a critic.

    Args:
        actor_sizes: observation size, hidden sizes ..., outputs of the action space.
        critic_sizes: observation size, hidden sizes ..., 1.
        gaussian: whether the actions are real numbers, a mean each.
        action_features: figures per action that the actor weighs beside its network.
    """
    shapes: dict[str, tuple[int, ...]] = {
        "observation_mean": (actor_sizes[0],),
        "observation_scale": (actor_sizes[0],),
        **_layers("actor", actor_sizes),
        **({LOG_STD: (actor_sizes[-1],)} if gaussian else {}),
        **({FEATURE_WEIGHTS: (action_features,)} if action_features else {}),
        "value_mean": (1,),
        "value_std": (1,),
        **_layers("critic", critic_sizes),
    }
    return ParameterLayout(shapes)


def log_std_offset(actor_sizes: Sequence[int]) -> int:
    """Return where the log-standard deviations of a Gaussian policy begin."""
    return policy_layout(actor_sizes, (actor_sizes[0], 1), gaussian=True).offsets[LOG_STD]


def feature_weights_offset(actor_sizes: Sequence[int]) -> int:
    """Return where the weights of the action features begin."""
    return policy_layout(actor_sizes, (actor_sizes[0], 1), action_features=1).offsets[FEATURE_WEIGHTS]


def _layers(name: str, sizes: Sequence[int]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for i, (n_in, n_out) in enumerate(pairwise(sizes)):
        shapes[f"{name}.{i}.weight"] = (n_in, n_out)
        shapes[f"{name}.{i}.bias"] = (n_out,)
    return shapes
