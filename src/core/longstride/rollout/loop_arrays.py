"""The arrays of the compiled loop in ``collect_steps.py``, for the environment instances of one thread."""

from typing import NamedTuple

import numpy as np

from longstride.policies.compiled.forward import new_policy_states, workspace
from longstride.policies.compiled.sampling import row_of
from longstride.policies.spec import PolicySpec
from longstride.rollout.exploring.finds import Finds, new_finds
from longstride.rollout.outcomes.drawn import Outcomes, new_outcomes
from longstride.rollout.trajectory import ALIGNMENT, Allocate, Trajectory, allocate_plain


class LoopArrays(NamedTuple):
    """What the loop reads and writes for S instances, beside the simulator's states and the generators."""

    rows: Trajectory  # trajectories, arrays [S, T, ...]; actions are [S, T, numbers of an action]
    policy_states: np.ndarray  # float32[S, state_size], what the policy carries to the next step
    next_rows: np.ndarray  # int64[S], row of the next step; the loop moves it
    ages: np.ndarray  # int64[S], steps that the episode has made, -1 before its reset; the loop moves it
    rewards: np.ndarray  # float64[S], sum of the rewards of the steps in a call of the loop
    statuses: np.ndarray  # int64[S], status codes of the simulator
    playing: np.ndarray  # int64[1], the instance in hand: an exception comes from this one
    workspace: np.ndarray  # float32[*], scratch of the actor
    finds: Finds  # states that are noted for exploring starts
    outcomes: Outcomes  # further outcomes of each step


def new_loop_arrays(rows: Trajectory, spec: PolicySpec, states: np.ndarray, finds: Finds | None = None) -> LoopArrays:
    """Return the arrays for instances that are to begin an episode in row 0 of ``rows``, arrays [S, T, ...].

    The states are ``state_dtype``[S] of the simulator; nothing is noted without finds.
    """
    count, (row_size, _) = len(rows.rewards), row_of(spec.action_space)
    next_rows, ages, statuses, playing = (zeros_apart(size, np.dtype(np.int64)) for size in (count, count, count, 1))
    ages[:] = -1
    return LoopArrays(
        rows=rows._replace(actions=rows.actions.reshape(*rows.rewards.shape, row_size)),
        policy_states=new_policy_states(spec, count),
        next_rows=next_rows,
        ages=ages,
        rewards=zeros_apart(count, np.dtype(np.float64)),
        statuses=statuses,
        playing=playing,
        workspace=workspace(spec, count),
        finds=new_finds(states) if finds is None else finds,
        outcomes=new_outcomes(states),
    )


def with_more_capacity(arrays: LoopArrays, new: Allocate) -> LoopArrays:
    """Return the arrays of one instance with room for half as many further feasible actions; the loop goes on there."""
    rows, t = arrays.rows, int(arrays.next_rows[0])
    used, old = int(rows.feasible[0, t - 1, 0]) if t else 0, rows.features
    longer = new((1, old.shape[1] + old.shape[1] // 2 + 1, old.shape[2]), old.dtype)
    longer[0, :used] = old[0, :used]
    return arrays._replace(rows=rows._replace(features=longer))


def zeros_apart(count: int, dtype: np.dtype) -> np.ndarray:
    """Return zeros that share no cache line with anything else: threads that write to one line wait for each other."""
    size = count * dtype.itemsize
    room = allocate_plain((size + ALIGNMENT,), np.dtype(np.uint8))
    room[:] = 0
    return room[:size].view(dtype)
