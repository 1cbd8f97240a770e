"""The policy for an environment that is not compiled: one compiled call a decision."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, typeof
from numba.experimental import jitclass  # type: ignore[attr-defined]

from core.policies.compiled.forward import build_forward, workspace
from core.policies.compiled.sampling import build_sampling, row_of
from core.policies.parameter_layout import log_std_offset
from core.policies.spec import PolicySpec
from core.rollout.trajectory import Trajectory
from core.simulators.simulator import EMPTY_MASK, OBSERVATION_NOT_FINITE, OK, POLICY_NOT_FINITE, Function
from core.simulators.spaces import Discrete


class StepPolicy(NamedTuple):
    """The policy, compiled for one action space and network.

    Attributes:
        new_seat: ``new_seat(actor_params, rng, trajectory) -> seat``, all that the functions work on, in one object: an
            array handed to compiled code costs 0.1 µs a call, a generator 10.
        sample: ``sample(seat, t) -> status`` reads observation and mask of row t of the trajectory, draws an action and
            writes it and its log-probability there.
        greedy: ``greedy(seat, t) -> status``, the same for the likeliest action; no log-probability.
    """

    new_seat: Any
    sample: Function
    greedy: Function


class PolicySlot(NamedTuple):
    """The policy's place at one environment.

    Attributes:
        handle: for :class:`StepPolicy`'s functions.
        actions: indexed by t, what the environment is to receive (as a row of our action space).
    """

    handle: Any
    actions: Any


class _Always:
    """Stands in for an array whose every row is the same one: actions within the bounds are not kept."""

    def __init__(self, row: np.ndarray) -> None:
        self._row = row

    def __getitem__(self, t: int) -> np.ndarray:
        return self._row


def build_step_policy(spec: PolicySpec) -> StepPolicy:
    """Compile the policy.

    Args:
        spec: architecture of the policy, without action features.
    """
    space = spec.action_space
    forward, sampling = build_forward(spec), build_sampling(space, log_std_offset(spec))
    draw, best = sampling.sample, sampling.greedy
    ends, n_choices = np.cumsum((0, *space.choices)), len(space.choices)

    @njit(nogil=True)
    def check(observation, mask):  # type: ignore[no-untyped-def]
        finite = np.float32(0.0)
        for i in range(len(observation)):
            finite += observation[i] * np.float32(0.0)
        if finite != 0.0:
            return OBSERVATION_NOT_FINITE
        for choice in range(n_choices):
            i = ends[choice]
            while i < ends[choice + 1] and not mask[i]:
                i += 1
            if i == ends[choice + 1]:
                return EMPTY_MASK
        return OK

    @njit(nogil=True)
    def sample(seat, t):  # type: ignore[no-untyped-def]
        observation, mask = seat.observations[t], seat.masks[t]
        status = check(observation, mask)
        if status != OK:
            return status
        outputs = forward(seat.actor_params, observation, seat.values)
        _, log_prob = draw(outputs, seat.actor_params, mask, seat.rng, seat.drawn[t], seat.row)
        if not np.isfinite(log_prob):
            return POLICY_NOT_FINITE
        seat.log_probs[t] = log_prob
        return OK

    @njit(nogil=True)
    def greedy(seat, t):  # type: ignore[no-untyped-def]
        observation, mask = seat.observations[t], seat.masks[t]
        status = check(observation, mask)
        if status == OK:
            outputs = forward(seat.actor_params, observation, seat.values)
            action = best(outputs, mask, seat.row)
            seat.drawn[t, :] = action
        return status

    return StepPolicy(_build_new_seat(spec), sample, greedy)


def _build_new_seat(spec: PolicySpec) -> Any:
    space = spec.action_space
    row_size, row_dtype = row_of(space)

    def parts(actor_params: np.ndarray, rng: np.random.Generator, trajectory: Trajectory) -> dict[str, Any]:
        return {
            "actor_params": actor_params,
            "observations": trajectory.observations,
            "masks": trajectory.masks,
            "drawn": trajectory.actions.reshape(len(trajectory.actions), row_size),
            "log_probs": trajectory.log_probs,
            "row": np.zeros(row_size, row_dtype),
            "values": workspace(spec),
            "rng": rng,
        }

    kinds: dict[tuple[Any, ...], Any] = {}

    def new_seat(actor_params: np.ndarray, rng: np.random.Generator, trajectory: Trajectory) -> PolicySlot:
        values = parts(actor_params, rng, trajectory)
        spec = tuple((name, typeof(value)) for name, value in values.items())  # type: ignore[no-untyped-call]
        if spec not in kinds:
            kinds[spec] = jitclass(list(spec))(_seat_class())
        handle = kinds[spec](*values.values())
        return PolicySlot(handle, values["drawn"] if isinstance(space, Discrete) else _Always(values["row"]))

    return new_seat


def _seat_class() -> type:
    """Return a class for ``jitclass``, which needs one of its own for each set of types."""

    class Handle:
        def __init__(self, actor_params, observations, masks, drawn, log_probs, row, values, rng):  # type: ignore[no-untyped-def]
            self.actor_params = actor_params
            self.observations = observations
            self.masks = masks
            self.drawn = drawn
            self.log_probs = log_probs
            self.row = row
            self.values = values
            self.rng = rng

    return Handle
