"""The compiled loop that records trajectories for a policy that scores a list of feasible actions.

It is the loop of :mod:`longstride.rollout.collect_steps` for lists: the simulator writes the descriptions of the
feasible actions into the trajectory itself, one step after another. Where there is no room for another list, the loop
stops with :data:`LISTS_FULL` before the step; with more room it goes on there as if nothing had happened.
"""

from dataclasses import replace
from functools import cache

import numpy as np
from numba import njit

from longstride.policies.compiled.candidates import build_scorer, greedy_score, sample_score
from longstride.policies.compiled.forward import build_forward
from longstride.policies.spec import PolicySpec
from longstride.rollout.record_step import build_make_step, record
from longstride.rollout.streams.generator_addresses import as_generator
from longstride.simulators.compile import kernel_functions
from longstride.simulators.observe import all_finite, build_read_summary, new_guarded
from longstride.simulators.simulator import (
    DESCRIPTION_NOT_FINITE,
    EMPTY_MASK,
    LISTS_FULL,
    OK,
    Function,
    Simulator,
)
from longstride.simulators.spaces import Discrete


def build_collect_listed(simulator: Simulator, spec: PolicySpec) -> Function:
    """Compile the loop with the arguments of :func:`longstride.rollout.collect_steps.build_collect_steps`.

    Instances are played one after another. ``arrays.rows.features`` is float32[S, A, F] here.
    """
    functions, size, read_summary = kernel_functions(simulator), spec.observation_size, build_read_summary(simulator)
    reset, make_step = functions.reset, build_make_step(functions, simulator.max_steps)
    read_list, (choose, scratch_size) = _build_read_list(functions.describe_actions), _build_choose(spec)
    most = spec.action_space.outputs

    @njit(nogil=True)
    def collect_listed(states, generators, parameters, actor_params, arrays):  # type: ignore[no-untyped-def]
        rows, statuses, ages, workspace = arrays.rows, arrays.statuses, arrays.ages, arrays.workspace
        guarded, end = new_guarded(size), rows.rewards.shape[1]
        ids, scores, scratch = np.empty(most, np.int32), np.empty(most, np.float32), np.zeros(scratch_size, np.float32)
        for i in range(len(ages)):
            arrays.playing[0], t, state = i, arrays.next_rows[i], states[i]
            observations, features, feasible = rows.observations[i], rows.features[i], rows.feasible[i]
            over = t > 0 and ages[i] > 0 and (rows.terminated[i, t - 1] or rows.truncated[i, t - 1])
            if over or t >= end:
                continue
            if ages[i] < 0:
                ages[i] = 0
                reset(state, parameters, as_generator(generators.simulator[i]))
            statuses[i] = read_summary(state, parameters, guarded, observations[t])
            while statuses[i] == OK and t < end:
                begin = feasible[t - 1, 0] if t > 0 else 0
                count, statuses[i] = read_list(state, parameters, ids, features[begin : begin + most])
                if statuses[i] != OK:
                    break
                listed, uniform = features[begin : begin + count], as_generator(generators.policy[i]).random()
                place, log_prob = choose(actor_params, observations[t], listed, uniform, workspace, scores, scratch)
                rows.actions[i, t, 0], action = ids[place], np.int64(ids[place])
                feasible[t, 0], feasible[t, 1] = begin + count, begin + place
                made = make_step(state, parameters, action, log_prob, as_generator(generators.simulator[i]), ages[i])
                if made.status != OK:
                    statuses[i] = made.status
                    break
                record(arrays, i, t, log_prob, made)
                t += 1
                statuses[i] = read_summary(state, parameters, guarded, observations[t])
                if made.terminated or made.truncated:
                    break

    return collect_listed


def _build_read_list(describe: Function) -> Function:
    """Compile ``read_list(state, parameters, ids, room) -> (count, status)``.

    The descriptions go to ``room``, float32[rows, F], which must have a row for each of the ids.
    """

    @njit(nogil=True)
    def read_list(state, parameters, ids, room):  # type: ignore[no-untyped-def]
        if len(room) < len(ids):
            return 0, LISTS_FULL
        count = describe(state, parameters, ids, room)
        if count < 1:
            return 0, EMPTY_MASK
        return count, OK if all_finite(room[:count].reshape(count * room.shape[1])) else DESCRIPTION_NOT_FINITE

    return read_list


def _build_choose(spec: PolicySpec) -> tuple[Function, int]:
    """Compile the choice of an action, the same one for any number of actions; return the values of its scratch.

    Returns:
        ``choose(actor_params, summary, listed, uniform, workspace, scores, scratch) -> (place, log-probability)``:
        listed float32[n, F], uniform a number in [0, 1), or negative for the likeliest action.
    """
    return _build_choose_from_any(replace(spec, action_space=Discrete(1), expected_actions=1.0))


@cache
def _build_choose_from_any(spec: PolicySpec) -> tuple[Function, int]:
    forward, (score, scratch_size) = build_forward(spec), build_scorer(spec)

    @njit(nogil=True)
    def choose(actor_params, summary, listed, uniform, workspace, scores, scratch):  # type: ignore[no-untyped-def]
        count = len(listed)
        encoding = forward(actor_params, summary, workspace[:0], workspace)
        score(actor_params, encoding, listed, count, scores, scratch)
        if uniform < 0.0:
            return greedy_score(scores, count), np.float32(0.0)
        return sample_score(scores, count, uniform)

    return choose, scratch_size


def build_listed_chooser(simulator: Simulator, spec: PolicySpec) -> Function:
    """Compile a trained policy that scores actions as a chooser for ``build_play`` of ``episode_loop.py``."""
    functions, (decide, scratch_size) = kernel_functions(simulator), _build_choose(spec)
    sizes = spec.observation_size, spec.action_features, scratch_size
    return _build_listed_chooser(functions.describe_actions, functions.summarise, decide, *sizes)


@cache
def _build_listed_chooser(
    describe: Function, summarise: Function, decide: Function, size: int, figures: int, scratch_size: int
) -> Function:
    @njit(nogil=True)
    def choose(state, parameters, observed, actor, rng, row):  # type: ignore[no-untyped-def]
        most = len(observed.mask)
        summary, descriptions = np.zeros(size, np.float32), np.empty((most, figures), np.float32)
        ids, scores, scratch = np.empty(most, np.int32), np.empty(most, np.float32), np.zeros(scratch_size, np.float32)
        summarise(state, parameters, summary)
        count = describe(state, parameters, ids, descriptions)
        if count < 1:
            return np.int64(-1)
        uniform = -1.0 if actor.greedy else rng.random()
        place, _ = decide(actor.params, summary, descriptions[:count], uniform, actor.workspace, scores, scratch)
        return np.int64(ids[place])

    return choose
