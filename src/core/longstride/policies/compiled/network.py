"""The compiled actor as its callers see it, whatever its family."""

from collections.abc import Callable
from typing import Any, NamedTuple

Function = Callable[..., Any]


class Network(NamedTuple):
    """The compiled actor for several instances that share a workspace; each has a place there, counted from 0.

    Attributes:
        load: ``load(params, observation, workspace, place)`` writes the inputs of an instance to its place: params
            float32[*] in the flat layout, observation float32[O], not normalised.
        advance: ``advance(params, states, members, workspace, count)`` computes the outputs of the first ``count``
            places. The instance at place r has the state ``states[members[r]]``, which is replaced by the one after
            the step: states float32[S, state_size], members int64[*].
        outputs: ``outputs(workspace, place) -> float32[*]``, a view of the workspace that the next instance at this
            place overwrites.
        room: number of values of the workspace that an instance takes.
    """

    load: Function
    advance: Function
    outputs: Function
    room: int
