"""The gradient of some samples: forward pass, loss and backward pass of each network, in arrays made once."""

from math import prod

import numpy as np
import torch
from torch import Tensor

from longstride.learning.algorithms.interface import Samples
from longstride.learning.steps.cpu_kernels.loss_gradients import (
    TERMS,
    HeadParameters,
    KernelCoefficients,
    Piece,
    choices_head,
    gaussian_head,
    value_head,
)
from longstride.learning.steps.cpu_kernels.mlp import Network, Workspace, backward, forward, gather
from longstride.policies.distributions import log_area, quadrature
from longstride.policies.networks import ActorCritic
from longstride.policies.parameter_layout import FEATURE_WEIGHTS, LOG_STD, USUAL_LIMIT
from longstride.simulators.spaces import Box

_CRITIC_LIMIT = np.float32(USUAL_LIMIT)
"""Standard deviations to which the critic's observations are clipped; the actor's limit is that of the spec."""


class Backprop:
    """Computes gradients of one model, read in place. Threads may share it; each piece at work needs a workspace."""

    def __init__(self, model: ActorCritic) -> None:
        self._spec, self._flat = model.spec, model.flat.numpy()
        offsets, shapes, tanh = model.layout.offsets, model.layout.shapes, model.spec.activation == "tanh"
        self._limit = np.float32(model.spec.observation_limit)
        self._actor = Network(offsets["actor.0.weight"], np.array(model.spec.actor_sizes), tanh)
        self._critic = Network(offsets["critic.0.weight"], np.array(model.spec.critic_sizes), tanh)
        name, space = LOG_STD if model.spec.is_gaussian else FEATURE_WEIGHTS, model.spec.action_space
        self._head = slice(offsets.get(name, 0), offsets.get(name, 0) + prod(shapes.get(name, (0,))))
        self._parts = np.cumsum([0, *space.choices])
        self._nodes, self._log_area = np.zeros((2, 0)), 0.0
        if isinstance(space, Box) and space.squashed:
            self._nodes, self._log_area = np.array(quadrature()), log_area(space)

    def workspace(self, rows: int) -> Workspace:
        """Return arrays for at most so many samples."""
        widths = [network.sizes[1:] for network in (self._actor, self._critic)]
        return Workspace(
            np.zeros(rows * self._actor.sizes[0], np.float32),
            np.zeros(rows * max(each.sum() for each in widths), np.float32),
            np.zeros((2, rows * max(each.max() for each in widths)), np.float32),
            np.zeros_like(self._flat),
            np.zeros(len(TERMS)),
        )

    def compile(self) -> None:
        """Compile the kernels, or load them, by a pass over one sample, whose gradient nobody reads."""
        space = self._spec.action_space
        number, values = torch.zeros(1), sum(space.choices)
        samples = Samples(
            observations=torch.zeros(1, self._spec.observation_size),
            actions=torch.from_numpy(np.zeros((1, *space.shape), space.dtype)),
            log_probs=number,
            masks=torch.ones(1, values, dtype=torch.bool),
            features=torch.zeros(1, values, self._spec.action_features),
            advantages=number,
            returns=number,
            values=number,
        )
        coefficients = KernelCoefficients(0.2, 1.0, 0.5, 0.0)
        piece = Piece(arrays_of(samples), np.zeros(1, np.int64), np.zeros(1, np.float32), coefficients)
        self.run(piece, self.workspace(1))

    def run(self, piece: Piece, workspace: Workspace) -> Workspace:
        """Leave gradient and loss terms of a piece in a workspace, which has as many rows, and return it."""
        rows = len(piece.indices)
        self.run_actor(piece, workspace)
        if self._limit != _CRITIC_LIMIT:
            gather(piece.rollout.observations, piece.indices, self._flat, _CRITIC_LIMIT, workspace.x)
        values = self._forward(self._critic, rows, workspace)
        value_head(values.reshape(-1), piece, workspace.terms)
        backward(self._flat, self._critic, rows, workspace)
        return workspace

    def run_actor(self, piece: Piece, workspace: Workspace) -> Workspace:
        """Do the actor's part of :meth:`run`; the critic's part of the gradient stays what it was."""
        rows = len(piece.indices)
        workspace.terms.fill(0.0)
        gather(piece.rollout.observations, piece.indices, self._flat, self._limit, workspace.x)
        outputs = self._forward(self._actor, rows, workspace)
        head = HeadParameters(self._flat[self._head], workspace.gradient[self._head])
        if self._spec.is_gaussian:
            gaussian_head(outputs, self._nodes, self._log_area, piece, head, workspace.terms)
        else:
            choices_head(outputs, self._parts, piece, head, workspace.terms)
        backward(self._flat, self._actor, rows, workspace)
        return workspace

    def _forward(self, network: Network, rows: int, workspace: Workspace) -> np.ndarray:
        """Return float32[rows, outputs], a view of the activations."""
        forward(self._flat, network, rows, workspace)
        end, outputs = rows * network.sizes[1:].sum(), network.sizes[-1]
        return workspace.activations[end - rows * outputs : end].reshape(rows, outputs)


def arrays_of(samples: Samples) -> Samples:
    """Return samples whose columns are arrays that share their memory, actions [N, choices or numbers]."""
    return samples._replace(actions=samples.actions.reshape(len(samples.actions), -1)).map(Tensor.numpy)
