"""The policy for an environment that is not compiled: one compiled call a step."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit, typeof
from numba.experimental import jitclass  # type: ignore[attr-defined]

from longstride.jit_cache.whole_kernel import compile_whole_kernel
from longstride.policies.compiled.forward import build_forward, workspace
from longstride.policies.compiled.sampling import build_sampling, row_of
from longstride.policies.spec import PolicySpec
from longstride.rollout.trajectory import Trajectory
from longstride.simulators.observe import all_finite, build_mask_check
from longstride.simulators.simulator import EMPTY_MASK, OBSERVATION_NOT_FINITE, OK, POLICY_NOT_FINITE, Function
from longstride.simulators.spaces import Discrete


class StepPolicy(NamedTuple):
    """The policy, compiled for one action space and network.

    Attributes:
        new_slot: ``new_slot(actor_params, rng, trajectory, policy_state) -> PolicySlot``, all that the functions work
            on in one object: an array handed to compiled code costs 0.1 µs a call, a generator 10.
        sample: ``sample(handle, t) -> status`` reads observation and mask of row t of the trajectory, draws an action
            and writes it and its log-probability there.
        greedy: ``greedy(handle, t) -> status``, the same for the likeliest action; no log-probability.
    """

    new_slot: Callable[..., "PolicySlot"]
    sample: Function
    greedy: Function


class PolicySlot(NamedTuple):
    """The policy's place at one environment."""

    handle: Any  # argument of :class:`StepPolicy`'s functions
    actions: Any  # indexed by t, what the environment is to receive (as a row of our action space)


class _Always:
    """Stands in for an array whose every row is the same one: actions within the bounds are not kept."""

    def __init__(self, row: np.ndarray) -> None:
        self._row = row

    def __getitem__(self, t: int) -> np.ndarray:
        return self._row


@cache
def build_step_policy(spec: PolicySpec) -> StepPolicy:
    """Compile the policy of a spec without action features."""
    new_slot, forward = _build_new_slot(spec), build_forward(spec)
    sampling = build_sampling(spec.action_space, spec.layout.log_std_offset)
    has_memory, chunk, allows_a_choice = spec.has_memory, spec.chunk, build_mask_check(spec.action_space)
    draw, best = sampling.sample, sampling.greedy

    @njit(nogil=True)
    def check(handle, t):  # type: ignore[no-untyped-def]
        if not all_finite(handle.observations[t]):
            return OBSERVATION_NOT_FINITE
        return OK if allows_a_choice(handle.masks[t]) else EMPTY_MASK

    @njit(nogil=True)
    def outputs_of(handle, t):  # type: ignore[no-untyped-def]
        if has_memory and t % chunk == 0 and t // chunk < len(handle.states):
            handle.states[t // chunk, :] = handle.state
        return forward(handle.actor_params, handle.observations[t], handle.state, handle.values)

    @njit(nogil=True)
    def sample(handle, t):  # type: ignore[no-untyped-def]
        status = check(handle, t)
        if status != OK:
            return status
        outputs, mask = outputs_of(handle, t), handle.masks[t]
        _, log_prob = draw(outputs, handle.actor_params, mask, handle.rng, handle.drawn[t], handle.row)
        if not np.isfinite(log_prob):
            return POLICY_NOT_FINITE
        handle.log_probs[t] = log_prob
        return OK

    @njit(nogil=True)
    def greedy(handle, t):  # type: ignore[no-untyped-def]
        status = check(handle, t)
        if status == OK:
            action = best(outputs_of(handle, t), handle.masks[t], handle.row)
            handle.drawn[t, :] = action
        return status

    return StepPolicy(new_slot, compile_whole_kernel(sample), compile_whole_kernel(greedy))


_FIELDS = ["actor_params", "observations", "masks", "drawn", "log_probs", "states", "state", "row", "values", "rng"]
"""Arrays and generator of a handle; ``row`` and ``values`` are scratch."""


def _build_new_slot(spec: PolicySpec) -> Any:
    row_size, row_dtype = row_of(spec.action_space)
    kinds: dict[tuple[Any, ...], Any] = {}

    def new_slot(
        actor_params: np.ndarray, rng: np.random.Generator, trajectory: Trajectory, policy_state: np.ndarray
    ) -> PolicySlot:
        row = np.zeros(row_size, row_dtype)
        drawn = trajectory.actions.reshape(len(trajectory.actions), row_size)
        inputs, outputs = (trajectory.observations, trajectory.masks), (drawn, trajectory.log_probs, trajectory.states)
        values = (actor_params, *inputs, *outputs, policy_state, row, workspace(spec), rng)
        fields = tuple((name, typeof(value)) for name, value in zip(_FIELDS, values, strict=True))  # type: ignore[no-untyped-call]
        if fields not in kinds:

            class Handle:  # jitclass needs one of its own for each set of types
                def __init__(self, arrays):  # type: ignore[no-untyped-def]
                    self.actor_params, self.observations, self.masks, self.drawn, self.log_probs = arrays[:5]
                    self.states, self.state, self.row, self.values, self.rng = arrays[5:]

            kinds[fields] = jitclass(list(fields))(Handle)
            compile_whole_kernel(getattr(kinds[fields], "_ctor", None))
        actions = drawn if isinstance(spec.action_space, Discrete) else _Always(row)
        return PolicySlot(kinds[fields](values), actions)

    return new_slot
