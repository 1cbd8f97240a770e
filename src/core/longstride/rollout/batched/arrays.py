"""The arrays of the compiled turns: of all instances, and of the block of them that a thread steps."""

from typing import NamedTuple

import numpy as np

from longstride.policies.compiled.sampling import row_of
from longstride.policies.spec import PolicySpec
from longstride.rollout.batched.forward import BatchedForward
from longstride.rollout.batched.turns import HALVES, new_counters
from longstride.rollout.loop_arrays import zeros_apart
from longstride.rollout.streams.swapped_generator import WORDS, SwappedGenerator
from longstride.rollout.trajectory import Trajectory

IDLE, BEGINS, ACTS, ENDED = range(4)
"""What an instance does next: nothing in this rollout; show its first observation; take an action; wait for Python,
as its episode has ended."""

ROWS_OF_A_BATCH = 8
"""The rows of a half-batch are a multiple of this: matrix products take so many together."""


class BatchArrays(NamedTuple):
    """What the turns read and write for S instances, beside the simulator's states."""

    rows: Trajectory  # trajectories, arrays [S, T, ...]; actions are [S, T, numbers of an action]
    steps: np.ndarray  # int64[1], rows that are filled in this rollout, at most T
    next_rows: np.ndarray  # int64[S], row of the next step
    ages: np.ndarray  # int64[S], steps that the episode has made, -1 before its reset
    rewards: np.ndarray  # float64[S], sum of the rewards of the episode's steps in this rollout
    statuses: np.ndarray  # int64[S], status codes of the simulator
    phases: np.ndarray  # int64[S], what each does next
    simulator_words: np.ndarray  # uint64[S, 5], states of the simulator's generators
    policy_words: np.ndarray  # uint64[S, 5], states of the policy's generators
    observations: np.ndarray  # float32[halves, rows, O], what the forward pass reads
    begins: np.ndarray  # bool[halves, rows, 1], whether an observation is the first of an episode
    outputs: np.ndarray  # float32[halves, rows, outputs], what it returned, without action features
    in_a_half: np.ndarray  # int64[1], instances of the first half
    turns: np.ndarray  # int64[1, halves, 8], turns that were opened
    done: np.ndarray  # int64[threads, halves, 8], turns that each thread has made


class BlockArrays(NamedTuple):
    """What one thread works with."""

    thread: np.ndarray  # int64[1], its number
    bounds: np.ndarray  # int64[halves, 2], its first instance of each half, and the one after its last
    playing: np.ndarray  # int64[1], the instance in hand: an exception comes from this one
    begins_in: np.ndarray  # int64[1], the half whose episodes are to begin now, -1 for none
    going_on: np.ndarray  # int64[halves], instances that take an action in the next turn
    words: np.ndarray  # uint64[4], memory of its generator
    rest: np.ndarray  # uint64[1], memory of its generator


def half_batches(instances: int) -> tuple[int, int]:
    """Return the number of half-batches of so many instances, and the rows of each: more than it has instances."""
    halves = min(instances, HALVES)
    in_a_half = -(-instances // halves)
    return halves, -(-in_a_half // ROWS_OF_A_BATCH) * ROWS_OF_A_BATCH


def new_batch_arrays(rows: Trajectory, spec: PolicySpec, forward: BatchedForward, threads: int) -> BatchArrays:
    """Return the arrays for the instances of ``rows``, arrays [S, T, ...], none of which has begun."""
    count, (row_size, _), int64 = len(rows.rewards), row_of(spec.action_space), np.dtype(np.int64)
    next_rows, ages, statuses, phases = (zeros_apart(count, int64) for _ in range(4))
    steps, in_a_half = np.array([rows.rewards.shape[1]]), np.array([-(-count // min(count, HALVES))])
    return BatchArrays(
        rows=rows._replace(actions=rows.actions.reshape(*rows.rewards.shape, row_size)),
        steps=steps,
        next_rows=next_rows,
        ages=ages,
        rewards=zeros_apart(count, np.dtype(np.float64)),
        statuses=statuses,
        phases=phases,
        simulator_words=np.zeros((count, WORDS), np.uint64),
        policy_words=np.zeros((count, WORDS), np.uint64),
        observations=forward.observations,
        begins=forward.begins,
        outputs=forward.outputs,
        in_a_half=in_a_half,
        turns=new_counters(1),
        done=new_counters(threads),
    )


def new_block(thread: int, threads: int, count: int, generator: SwappedGenerator) -> BlockArrays:
    """Return the arrays of a thread, which has its share of each half of so many instances."""
    in_a_half, bounds = -(-count // min(count, HALVES)), np.zeros((HALVES, 2), np.int64)
    for half in range(HALVES):
        begin, end = (min(k * in_a_half, count) for k in (half, half + 1))
        bounds[half] = [begin + (end - begin) * k // threads for k in (thread, thread + 1)]
    int64 = np.dtype(np.int64)
    return BlockArrays(
        thread=np.array([thread]),
        bounds=bounds,
        playing=zeros_apart(1, int64),
        begins_in=np.array([-1]),
        going_on=zeros_apart(HALVES, int64),
        words=generator.words,
        rest=generator.rest,
    )
