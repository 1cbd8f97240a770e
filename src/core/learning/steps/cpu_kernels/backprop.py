"""The gradient of some samples: of each network forward pass, loss and backward pass, in arrays made once."""

from typing import NamedTuple

import numpy as np

from core.learning.algorithms.ppo import LossTerms
from core.learning.steps.cpu_kernels.loss_gradients import (
    Coefficients,
    Columns,
    choices_head,
    gaussian_head,
    value_head,
)
from core.learning.steps.cpu_kernels.mlp import backward, forward, gather
from core.policies.distributions import log_area, quadrature
from core.policies.networks import ActorCritic
from core.policies.parameter_layout import FEATURE_WEIGHTS, LOG_STD
from core.simulators.spaces import Box


class Workspace(NamedTuple):
    """Arrays of one piece of a minibatch.

    Attributes:
        rows: most samples.
        x: float32, normalised observations.
        activations: float32, of either network.
        deltas: float32[2, *], derivatives by hidden activations.
        gradient: float32, of the shape of the flat parameters; 0 for what is not learned.
        terms: float64[7], the loss terms.
    """

    rows: int
    x: np.ndarray
    activations: np.ndarray
    deltas: np.ndarray
    gradient: np.ndarray
    terms: np.ndarray


class Passes:
    """Computes gradients of one model. Threads may share it; each piece at work needs a workspace.

    Args:
        model: on the CPU; its weights are read where they lie.
    """

    def __init__(self, model: ActorCritic) -> None:
        self._flat, self._tanh = model.flat.numpy(), model.spec.activation == "tanh"
        self._actor, self._critic = np.array(model.spec.actor_sizes), np.array(model.spec.critic_sizes)
        offsets = model.layout.offsets
        self._actor_at, self._critic_at = offsets["actor.0.weight"], offsets["critic.0.weight"]
        self._beside_at = offsets.get(LOG_STD, offsets.get(FEATURE_WEIGHTS, 0))
        space = model.spec.action_space
        self._space, self._features = space, model.spec.action_features
        self._parts = np.cumsum([0, *space.choices])
        squashed = isinstance(space, Box) and space.squashed
        self._nodes = np.array(quadrature()) if squashed else np.zeros((2, 0))
        self._log_area = log_area(space) if isinstance(space, Box) and space.squashed else 0.0

    def workspace(self, rows: int) -> Workspace:
        """Return arrays for at most so many samples."""
        layers = max(self._actor[1:].sum(), self._critic[1:].sum())
        widest = max(*self._actor[1:], *self._critic[1:])
        return Workspace(
            rows,
            np.zeros(rows * self._actor[0], np.float32),
            np.zeros(rows * layers, np.float32),
            np.zeros((2, rows * widest), np.float32),
            np.zeros_like(self._flat),
            np.zeros(len(LossTerms._fields)),
        )

    def compile(self) -> None:
        """Compile the kernels, or load them, by a pass over one sample, whose gradient nobody sees."""
        numbers = np.zeros(1, np.float32)
        choices = self._space.choices
        columns = Columns(
            np.zeros((1, self._actor[0]), np.float32),
            np.zeros((1, len(choices) or self._actor[-1]), np.float32 if isinstance(self._space, Box) else np.int64),
            numbers,
            np.ones((1, sum(choices)), np.bool_),
            np.zeros((1, sum(choices), self._features), np.float32),
            *(numbers,) * 3,
        )
        self.run(columns, np.zeros(1, np.int64), numbers, Coefficients(0.2, 0.0, 0.5, 0.0), self.workspace(1))

    def run(
        self, columns: Columns, indices: np.ndarray, weights: np.ndarray, coefficients: Coefficients, space: Workspace
    ) -> None:
        """Leave gradient and loss terms (but for their total) of some samples in a workspace.

        Args:
            columns: the rollout.
            indices: int64[n], at most as many as the workspace has rows.
            weights: float32[n].
            coefficients: of the loss.
            space: changed in place.
        """
        space.terms.fill(0.0)
        gather(columns.observations, indices, self._flat, space.x)
        sample = indices, weights, columns, coefficients
        outputs = self._forward(self._actor_at, self._actor, len(indices), space)
        beside = self._flat, self._beside_at, space.gradient, space.terms
        if isinstance(self._space, Box):
            gaussian_head(outputs, self._nodes, self._log_area, *sample, *beside)
        else:
            choices_head(outputs, self._parts, *sample, *beside)
        self._backward(self._actor_at, self._actor, len(indices), space)
        values = self._forward(self._critic_at, self._critic, len(indices), space)
        value_head(values.reshape(-1), *sample, space.terms)
        self._backward(self._critic_at, self._critic, len(indices), space)

    def _forward(self, offset: int, sizes: np.ndarray, rows: int, space: Workspace) -> np.ndarray:
        """Return float32[rows, outputs], a view of the activations."""
        forward(self._flat, offset, sizes, space.x, rows, self._tanh, space.activations)
        end = rows * sizes[1:].sum()
        return space.activations[end - rows * sizes[-1] : end].reshape(rows, sizes[-1])

    def _backward(self, offset: int, sizes: np.ndarray, rows: int, space: Workspace) -> None:
        arrays = space.activations, space.deltas, space.gradient
        backward(self._flat, offset, sizes, space.x, rows, self._tanh, *arrays)
