"""What crosses the wire: tasks for a host, and the trajectories that it sends back, in as few bytes as lose nothing."""

from typing import Any, NamedTuple

import numpy as np

from longstride.policies.spec import PolicySpec
from longstride.rollout.collector import EpisodeOutcome, RolloutPlan
from longstride.rollout.trajectory import Trajectory
from longstride.simulators.spaces import ActionSpace, Box, Discrete

_LARGEST_TASK = 16


class Saved(NamedTuple):
    """An unfinished episode of an instance."""

    record: np.ndarray  # uint8[*], the simulator's state and then the policy's
    metadata: dict[str, Any]  # number, age, rewards and generators of the episode


class Task(NamedTuple):
    """Instances, one after another, that a host is to play."""

    first: int  # number of the first instance
    instances: int  # number of instances
    first_episode: int  # number of the iteration's first whole episode
    steps: int  # steps of each instance; 0 for a whole episode
    saved: tuple[Saved, ...] = ()  # their unfinished episodes; none where they play whole ones


class Played(NamedTuple):
    """What a host played of an instance."""

    columns: dict[str, Any]  # columns of the trajectory, packed
    finished: tuple[EpisodeOutcome, ...]  # outcomes of the episodes that ended
    record: np.ndarray  # uint8[*], the simulator's state after the steps and then the policy's; empty without any
    metadata: dict[str, Any]  # episode after the steps


def largest_task(plan: RolloutPlan) -> int:
    """Return the most instances of a task: a host has memory for so many whole episodes at once."""
    return max(_LARGEST_TASK, plan.side_by_side)


def pack(trajectory: Trajectory, spec: PolicySpec) -> dict[str, Any]:
    """Return columns of a trajectory: integers in the smallest dtype, bools as bits, a constant column once."""
    return {name: _packed(getattr(trajectory, name), name, spec.action_space) for name in Trajectory._fields}


def unpack(columns: dict[str, Any], name: str) -> np.ndarray:
    """Return a column that was packed, in its own dtype and shape."""
    kind, dtype, shape, data = columns[name]
    if kind == "bits":
        return np.unpackbits(data, count=int(np.prod(shape, dtype=np.int64))).view(np.bool_).reshape(shape)
    if kind == "constant":
        return np.broadcast_to(data.view(dtype).reshape((1, *shape[1:])), shape)
    return np.asarray(data.astype(dtype, copy=False).reshape(shape))


def _packed(column: np.ndarray, name: str, space: ActionSpace) -> tuple[str, str, tuple[int, ...], np.ndarray]:
    """Return kind, dtype, shape and bytes of a column."""
    column = np.ascontiguousarray(column)
    dtype, shape = column.dtype.str, column.shape
    if name not in ("actions", "log_probs", "observations") and len(column) > 1 and column[0].size:
        rows = column.view(np.uint8).reshape(len(column), -1)
        if (rows == rows[0]).all():
            return "constant", dtype, shape, rows[0].copy()
    if column.dtype == np.bool_:
        return "bits", dtype, shape, np.packbits(column)
    if name == "actions":
        column = column.astype(smallest_dtype(space))
    return "array", dtype, shape, column.copy()


def smallest_dtype(space: ActionSpace) -> np.dtype[Any]:
    """Return the smallest dtype that holds every action of a space."""
    if isinstance(space, Box):
        return np.dtype(space.dtype)
    largest = (space.n if isinstance(space, Discrete) else max(space.sizes)) - 1
    return np.min_scalar_type(largest)


def write(columns: dict[str, Any], into: Trajectory) -> None:
    """Write packed columns into the first rows of a trajectory that has room for them."""
    for name in columns:
        values = unpack(columns, name)
        getattr(into, name)[: len(values)] = values


def steps_of(columns: dict[str, Any]) -> int:
    """Return the number of steps of packed columns."""
    return int(columns["actions"][2][0])


def bytes_of(played: Played) -> int:
    """Return the bytes of what a host sends of an instance, without those that name the columns."""
    columns = sum(int(data.nbytes) for *_, data in played.columns.values())
    return columns + played.record.nbytes + _METADATA_BYTES


def task_bytes(task: Task) -> int:
    """Return the bytes of a task, without those that name its fields."""
    return sum(each.record.nbytes + _METADATA_BYTES for each in task.saved)


_METADATA_BYTES = 200
"""Bytes of an episode's numbers and of the states of two generators, about."""
