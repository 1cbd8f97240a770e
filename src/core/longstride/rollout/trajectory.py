"""The arrays of a trajectory: what the steps of one or more episodes leave for the update."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from longstride.policies.spec import CHUNK, PolicySpec
from longstride.simulators.float32 import LARGEST_REWARD

ALIGNMENT = 64
"""Bytes, those of a cache line and of the widest vector. A matrix product of MKL rounds by where its operands begin."""

Allocate = Callable[[tuple[int, ...], np.dtype], np.ndarray]
"""Returns an uninitialised array of a shape and dtype; on a GPU machine one in pinned memory."""


class Trajectory(NamedTuple):
    """T environment steps and the observation after the last one, of one episode or of several one after another.

    Of several, the first may have begun in the rollout before, and the last may continue in the next. After an end the
    next row is the first observation of another episode. Actions of a Box are the draws, before they are clipped or
    squashed onto the bounds. ``cut_observations`` has a row for each t < T - 1 that is truncated, in their order.
    """

    observations: np.ndarray  # float32[T + 1, O]; row T is the observation after the last step
    actions: np.ndarray  # int64[T] (Discrete), int64[T, choices] (MultiDiscrete) or float32[T, numbers] (Box)
    log_probs: np.ndarray  # float32[T], log-probabilities of the actions under the policy that chose them
    rewards: np.ndarray  # float32[T], reward of step t
    masks: np.ndarray  # bool[T, values of all choices], True where allowed; bool[T, 0] for a Box and for lists
    # float32[T, values of all choices, F], the action features; of a policy that scores actions float32[A, F], the
    # descriptions of the feasible actions of all steps, one step after another
    features: np.ndarray
    states: np.ndarray  # float32[kept, state_size], the policy's state before every chunk, or before the first alone
    begins: np.ndarray  # bool[T, 1], whether step t is the first of an episode; bool[T, 0] for a policy without memory
    # int64[T, 2], the row of ``features`` after the feasible actions of step t, and that of the chosen one; else [T, 0]
    feasible: np.ndarray
    elapsed: np.ndarray  # float64[T], simulated time from step t to step t + 1
    control_variate: np.ndarray  # float32[T], increment of the simulator's control variate from step t to step t + 1
    terminated: np.ndarray  # bool[T], whether the process ended after t, so that nothing follows
    truncated: np.ndarray  # bool[T], whether the episode was cut after t, so that its next observation is valued
    cut_observations: np.ndarray  # float32[cuts, O], observations after cuts

    @property
    def steps(self) -> int:
        """Number of steps T."""
        return len(self.actions)

    def first(self, steps: int) -> "Trajectory":
        """Return a view of the first steps and the observation that follows them."""
        cuts = int(self.truncated[: steps - 1].sum()) if len(self.cut_observations) else 0
        rows = {name: getattr(self, name)[:steps] for name in _ROWS}
        return self._replace(
            observations=self.observations[: steps + 1],
            states=self.states[: self.chunks(steps)],
            cut_observations=self.cut_observations[:cuts],
            **{**rows, "features": self.features[: self.feature_rows(steps)]},
        )

    def shortened(self, steps: int) -> "Trajectory":
        """Return a view of the same memory with room for fewer steps."""
        rows = {name: getattr(self, name)[:steps] for name in (*_ROWS, "cut_observations")}
        if self.has_lists:  # as many actions as there is room for
            rows["features"] = self.features
        return self._replace(
            observations=self.observations[: steps + 1], states=self.states[: self.chunks(steps)], **rows
        )

    @property
    def has_lists(self) -> bool:
        """Whether the features are lists of the feasible actions."""
        return bool(self.feasible.shape[-1] > 0)

    def feature_rows(self, steps: int) -> int:
        """Return the number of rows that the features of the first steps take."""
        return int(self.feasible[steps - 1, 0]) if self.has_lists and steps else steps

    def chunks(self, steps: int) -> int:
        """Return the number of states that are kept of so many steps, at most."""
        return -(-steps // CHUNK) if self.begins.shape[-1] else steps

    def select(self, which: int | slice | None) -> "Trajectory":
        """Return a view with ``[which]`` applied to the first axis of every array; None adds an axis."""
        return Trajectory(*(column[which] for column in self))


_ROWS = tuple(name for name in Trajectory._fields if name not in ("observations", "states", "cut_observations"))
"""Columns with a row for each step."""


def digest(trajectories: Iterable[Trajectory]) -> str:
    """Return the SHA-256 of some trajectories, by which two runs are compared.

    It covers every small column of every step. Observations are twenty times as many bytes and are left out: a policy
    that saw something else has other log-probabilities.
    """
    return digest_of(digested(trajectories))


def digested(trajectories: Iterable[Trajectory]) -> Iterator[memoryview]:
    """Yield what :func:`digest` covers, in its order."""
    for each in trajectories:
        for name in ("actions", "log_probs", "rewards", "elapsed", "control_variate", "terminated", "truncated"):
            yield np.ascontiguousarray(getattr(each, name)).data


def digest_of(parts: Iterable[memoryview | bytes]) -> str:
    """Return the SHA-256 of some bytes, one after another."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def allocate_plain(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Allocate ordinary memory that begins at a multiple of :data:`ALIGNMENT` bytes."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)


def allocate(
    spec: PolicySpec, steps: int, new: Allocate = allocate_plain, cuts: int = 0, host_only: Allocate | None = None
) -> Trajectory:
    """Allocate the arrays for up to ``steps`` steps, with up to ``cuts`` episodes cut before the last of them.

    ``new`` gives the arrays, ``host_only`` those that an update's device does not read (by default ``new``, too).
    Memory that is never written is never touched, so a generous ``steps`` costs address space only (pinned memory is
    the exception).
    """
    space, values, host_only = spec.action_space, spec.mask_size, host_only or new
    lists = spec.scores_actions
    return Trajectory(
        observations=new((steps + 1, spec.observation_size), np.dtype(np.float32)),
        actions=new((steps, *space.shape), np.dtype(space.dtype)),
        log_probs=new((steps,), np.dtype(np.float32)),
        rewards=host_only((steps,), np.dtype(np.float32)),
        masks=new((steps, values), np.dtype(np.bool_)),
        features=new(
            (list_rows(spec, steps) if lists else steps, *(() if lists else (values,)), spec.action_features),
            np.dtype(np.float32),
        ),
        states=new((spec.kept_states(steps), spec.state_size), np.dtype(np.float32)),
        begins=new((steps, int(spec.has_memory)), np.dtype(np.bool_)),
        feasible=host_only((steps, 2 * lists), np.dtype(np.int64)),
        elapsed=host_only((steps,), np.dtype(np.float64)),
        control_variate=host_only((steps,), np.dtype(np.float32)),
        terminated=host_only((steps,), np.dtype(np.bool_)),
        truncated=host_only((steps,), np.dtype(np.bool_)),
        cut_observations=host_only((cuts, spec.observation_size), np.dtype(np.float32)),
    )


def list_rows(spec: PolicySpec, steps: int) -> int:
    """Return the rows for the feasible actions of some steps with which a trajectory begins; it gets more if needed."""
    return int(steps * spec.expected_actions) + spec.action_space.outputs


def trajectory_bytes(spec: PolicySpec, steps: int, cuts: int = 0) -> int:
    """Return the bytes of the arrays that :func:`allocate` makes of the same arguments; nothing is allocated."""
    pinned, host_only = _sizes(spec, steps, cuts)
    return sum(pinned) + sum(host_only)


def pinned_bytes(spec: PolicySpec, steps: int, cuts: int = 0, together: int = 1) -> int:
    """Return the same where the device reads pinned memory, which torch gives in powers of two.

    Arrays of so many trajectories are allocated ``together``.
    """
    pinned, host_only = _sizes(spec, steps, cuts)
    return sum(1 << (together * size - 1).bit_length() for size in pinned if size > 0) + together * sum(host_only)


def _sizes(spec: PolicySpec, steps: int, cuts: int) -> tuple[list[int], list[int]]:
    """Return the bytes of the arrays that a device reads, and of the others."""
    pinned, host_only = list[int](), list[int]()

    def measuring(sizes: list[int]) -> Allocate:
        def measure(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
            sizes.append(math.prod(shape) * dtype.itemsize)
            return np.empty(0, dtype)

        return measure

    allocate(spec, steps, measuring(pinned), cuts, measuring(host_only))
    return pinned, host_only


def first_not_finite(rewards: np.ndarray, discounts: np.ndarray, variate: np.ndarray) -> tuple[int, str] | None:
    """Return (step, what is wrong) of the first step that cannot be learned from, None if all can.

    ``rewards`` and ``variate``, the increments of the control variate, are float32[T]; ``discounts``, from the
    simulator's clock, are float64[T].
    """
    for column, what in ((rewards, "the reward is"), (variate, "control_variate grew by")):
        bad = ~(np.abs(column) <= LARGEST_REWARD)
        if bad.any():
            step = int(bad.argmax())
            return step, f"{what} {column[step]}; keep it finite and below 1e12"
    bad = ~np.isfinite(discounts)
    if bad.any():
        what = "the clock gave an elapsed time that is negative or not a number; let time only go forward"
        return int(bad.argmax()), what
    return None
