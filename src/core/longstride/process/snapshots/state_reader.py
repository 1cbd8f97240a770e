"""One compiled call from a described state to the input of a policy and the choices of heuristics."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit

from longstride.jit_cache.cache import cached
from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.described import Described
from longstride.process.snapshots.write_state import empty_record, write_state
from longstride.simulators.compile import kernel_functions
from longstride.simulators.observe import all_finite, build_observe_state, build_read_summary, new_guarded
from longstride.simulators.simulator import (
    DESCRIPTION_NOT_FINITE,
    OK,
    Function,
    compiled,
    describe_fault,
)


class PolicyInput(NamedTuple):
    """The input of a policy in one state. The arrays belong to the :class:`StateReader`, which overwrites them.

    For a policy that scores a list of actions, ``observation`` is the summary, ``features`` are float32[n, F], the
    descriptions of the n actions in ``actions``, and ``mask`` is only for heuristics.
    """

    state: dict[str, np.ndarray]  # fields of the state record
    observation: np.ndarray  # float32[O]
    mask: np.ndarray  # bool[P + 1]
    features: np.ndarray  # float32[P + 1, F]
    actions: np.ndarray  # int32[n], feasible actions of a list; empty without one
    feasible: int  # feasible pairs
    choices: dict[str, int]  # heuristic -> action


class StateReader:
    """Reads described states with the simulator's own functions; for one thread at a time.

    Args:
        simulator: process simulator.
        listed: whether the policy scores a list of actions.
    """

    def __init__(self, simulator: ProcessSimulator, listed: bool) -> None:
        self._simulator, self._listed, self._parameters = simulator, listed, simulator.parameters.copy()
        self._parameters["has_priorities"] = 0  # a described state has neither priorities nor values of cases
        self._states, actions = empty_record(simulator), len(simulator.parameters.pair_mean) + 1
        # Views of the record: plain indexing with [0] would copy scalar fields.
        self._fields = {name: self._states[name].view(np.ndarray)[0, ...] for name in simulator.state_dtype.names or ()}
        self.heuristics = {name: rule for name, rule in simulator.heuristics.items() if name != "random"}
        size = simulator.summary_size if listed else simulator.observation_size
        columns = simulator.description_size if listed else simulator.action_feature_size
        self._guarded, self._observation = new_guarded(size), np.zeros(size, np.float32)
        self._mask, self._features = np.ones(actions, np.bool_), np.zeros((actions, columns), np.float32)
        self._ids, self._choices = np.zeros(actions, np.int32), np.zeros(max(1, len(self.heuristics)), np.int64)
        self._rng = np.random.default_rng(0)
        self._begin = self._rng.bit_generator.state
        self._read = (_read_list_of if listed else _read_of)(simulator, *self.heuristics.values())

    def read(self, described: Described) -> PolicyInput:
        """Write a state into the record, and return a policy's input and the heuristics' choices.

        Heuristics break ties at random, with the same draws in each call.

        Raises:
            SimulatorError: an observation is not finite.
        """
        self._rng.bit_generator.state = self._begin
        read = self._observation, self._mask, self._features, self._ids, self._choices
        status, feasible, count = self._read(self._states, self._parameters, described, self._rng, self._guarded, *read)
        if status != OK:
            raise describe_fault(status, self._simulator, "of the described state", 0)
        choices = dict(zip(self.heuristics, self._choices.tolist(), strict=False))
        features = self._features[:count] if self._listed else self._features
        return PolicyInput(self._fields, self._observation, self._mask, features, self._ids[:count], feasible, choices)


def _read_of(simulator: ProcessSimulator, *heuristics: Function) -> Function:
    """Return ``read(states, parameters, described, rng, guarded, observation, mask, features, ids, choices)``.

    The compiled function returns status, number of feasible pairs, and 0. Simulators that differ in sizes share it.
    """
    return _build_read(build_observe_state(simulator, kernel_functions(simulator)), *heuristics)


def _read_list_of(simulator: ProcessSimulator, *heuristics: Function) -> Function:
    """Return the same with a summary and descriptions; the last value returned is their number."""
    functions = kernel_functions(simulator)
    parts = build_read_summary(simulator), functions.action_mask, functions.describe_actions
    return _build_read_list(*parts, *heuristics)


@cache
def _build_read(observe_state: Function, *heuristics: Function) -> Function:
    choose_all = _build_choose_all(list(heuristics))

    @cached
    @njit(nogil=True)
    def read(states, parameters, described, rng, guarded, observation, mask, features, ids, choices):  # type: ignore[no-untyped-def]
        state = states[0]
        write_state(state, parameters, described)
        status = observe_state(state, parameters, guarded, observation, mask, features)
        choose_all(state, parameters, mask, rng, choices, 0)
        return status, _count(mask), 0

    return read


@cache
def _build_read_list(
    read_summary: Function, action_mask: Function, describe: Function, *heuristics: Function
) -> Function:
    choose_all = _build_choose_all(list(heuristics))

    @cached
    @njit(nogil=True)
    def read_list(states, parameters, described, rng, guarded, observation, mask, features, ids, choices):  # type: ignore[no-untyped-def]
        state = states[0]
        write_state(state, parameters, described)
        status = read_summary(state, parameters, guarded, observation)
        mask[:] = True
        action_mask(state, parameters, mask)
        count = describe(state, parameters, ids, features)
        if status == OK and not all_finite(features[:count].reshape(count * features.shape[1])):
            status = DESCRIPTION_NOT_FINITE
        choose_all(state, parameters, mask, rng, choices, 0)
        return status, _count(mask), count

    return read_list


@njit(nogil=True)
def _count(mask):  # type: ignore[no-untyped-def]
    """Return the number of allowed actions in bool[P + 1], without the last, which is always allowed."""
    count = 0
    for pair in range(len(mask) - 1):
        count += mask[pair]
    return count


def _build_choose_all(heuristics: list[Function]) -> Function:
    """Compile ``choose_all(state, parameters, mask, rng, choices, i)``: the actions of the heuristics, from index i."""
    if not heuristics:
        return _nothing
    first, rest = compiled(heuristics[0]), _build_choose_all(heuristics[1:])

    @njit(nogil=True)
    def choose_all(state, parameters, mask, rng, choices, i):  # type: ignore[no-untyped-def]
        choices[i] = first(state, parameters, mask, rng)
        rest(state, parameters, mask, rng, choices, i + 1)

    return choose_all


@njit(nogil=True)
def _nothing(state, parameters, mask, rng, choices, i):  # type: ignore[no-untyped-def]
    pass
