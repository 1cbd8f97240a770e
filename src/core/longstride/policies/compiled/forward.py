"""The actor's forward pass on the CPU, compiled by Numba; :mod:`longstride.policies.compiled.sampling` draws actions.

Each family builds its own network, all of them are made of :mod:`longstride.policies.compiled.products`.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from longstride.errors import UserError
from longstride.policies.compiled.network import Network
from longstride.policies.spec import PolicySpec

_CACHE_LINE = 16
"""Float32 values of a cache line."""


class ActorArrays(NamedTuple):
    """Flat parameters, state (zero when an episode begins) and scratch of one instance; float32[*] each.

    ``greedy`` is whether the likeliest action is taken; otherwise one is drawn.
    """

    params: np.ndarray
    state: np.ndarray
    workspace: np.ndarray
    greedy: bool


def new_actor_arrays(params: np.ndarray, spec: PolicySpec, greedy: bool = False) -> ActorArrays:
    """Return the arrays for one episode."""
    return ActorArrays(params, new_policy_states(spec, 1)[0], workspace(spec), greedy)


@cache
def build_forward(spec: PolicySpec) -> Callable[..., Any]:
    """Compile the actor for one instance.

    Returns:
        ``forward(params, observation, state, workspace) -> outputs``: params and observation as those of
        :class:`Network`, state float32[state_size], which is replaced by the one after the step, and a workspace from
        :func:`workspace`. Parameters from :func:`align_params` are read fastest.

    Raises:
        UserError: hidden layers differ in width.
    """
    network, alone = build_network(spec), np.zeros(1, np.int64)
    load, advance, outputs = network.load, network.advance, network.outputs

    @njit(nogil=True)
    def forward(params, observation, state, workspace):  # type: ignore[no-untyped-def]
        load(params, observation, workspace, 0)
        advance(params, state.reshape((1, len(state))), alone, workspace, 1)
        return outputs(workspace, 0)

    return forward


@cache
def build_network(spec: PolicySpec) -> Network:
    """Compile the actor for several instances; errors are those of :func:`build_forward`."""
    if len(set(spec.actor_hidden)) > 1:
        raise UserError(
            f"The compiled actor needs hidden layers of one width, not {spec.actor_sizes}; make them equal."
        )
    network: Network = spec.family.build_network(spec)
    return network


def workspace(spec: PolicySpec, instances: int = 1) -> np.ndarray:
    """Return float32[*], the actor's scratch for some instances."""
    return _aligned(instances * build_network(spec).room)


def new_policy_states(spec: PolicySpec, instances: int) -> np.ndarray:
    """Return float32[instances, state_size], the states with which episodes begin: zeros."""
    return np.zeros((instances, spec.state_size), np.float32)


def align_params(params: np.ndarray, spec: PolicySpec) -> np.ndarray:
    """Return a copy of the actor's flat parameters in which the first matrix begins with a cache line.

    With layers of a multiple of 16 units, every row of the hidden layers then fills whole cache lines. Each load of
    the forward pass takes one line instead of two. The results are the same.
    """
    copy = _aligned(len(params), 2 * spec.observation_size)
    copy[:] = params
    return copy


def _aligned(size: int, element: int = 0) -> np.ndarray:
    """Return float32[size], zero, in which one element begins a cache line."""
    room = np.zeros(size + _CACHE_LINE, np.float32)
    begin = (-(room.ctypes.data // 4) - element) % _CACHE_LINE
    return room[begin : begin + size]
