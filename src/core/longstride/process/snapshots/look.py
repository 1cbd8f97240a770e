"""One compiled call from a described state to what policies and heuristics choose from, and what heuristics choose."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numba import njit

from longstride.jit_cache.cache import cached
from longstride.process.simulator import ProcessSimulator
from longstride.process.snapshots.described import Described
from longstride.process.snapshots.write_state import empty_record, write_state
from longstride.simulators.observe import all_finite, build_observe_state, build_read_summary, new_guarded
from longstride.simulators.simulator import (
    DESCRIPTION_NOT_FINITE,
    OK,
    Function,
    compile_functions,
    compiled,
    describe_fault,
)


class View(NamedTuple):
    """What a policy chooses from. The arrays are those of the :class:`Lookout`, until it looks again.

    For a policy that scores a list of actions, ``observation`` is the summary, ``features`` are float32[n, F], the
    descriptions of the n actions of ``actions``, and ``mask`` is for heuristics alone.
    """

    state: dict[str, np.ndarray]  # fields of the state record
    observation: np.ndarray  # float32[O]
    mask: np.ndarray  # bool[P + 1]
    features: np.ndarray  # float32[P + 1, F]
    actions: np.ndarray  # int32[n], feasible actions of a list; empty without one
    feasible: int  # feasible pairs
    choices: dict[str, int]  # heuristic -> action


class Lookout:
    """Looks at described states with the simulator's own functions; one thread at a time.

    Args:
        simulator: process simulator.
        listed: whether for a policy that scores a list of actions.
    """

    def __init__(self, simulator: ProcessSimulator, listed: bool) -> None:
        self._simulator, self._listed = simulator, listed
        self._states, actions = empty_record(simulator), len(simulator.parameters.pair_mean) + 1
        # Views of the one record: [0] alone would copy the fields that are single numbers.
        self._fields = {name: self._states[name].view(np.ndarray)[0, ...] for name in simulator.state_dtype.names or ()}
        self.heuristics = {name: rule for name, rule in simulator.heuristics.items() if name != "random"}
        size = simulator.summary_size if listed else simulator.observation_size
        columns = simulator.description_size if listed else simulator.action_feature_size
        self._guarded, self._observation = new_guarded(size), np.zeros(size, np.float32)
        self._mask, self._features = np.ones(actions, np.bool_), np.zeros((actions, columns), np.float32)
        self._ids, self._choices = np.zeros(actions, np.int32), np.zeros(max(1, len(self.heuristics)), np.int64)
        self._rng = np.random.default_rng(0)
        self._begin = self._rng.bit_generator.state
        self._look = (_build_look_at_list if listed else _build_look)(simulator, self.heuristics)

    def look(self, described: Described) -> View:
        """Write the state into the record and read it.

        Heuristics draw among equals; the draws are the same each time.

        Raises:
            SimulatorError: an observation is not finite.
        """
        self._rng.bit_generator.state = self._begin
        read = self._observation, self._mask, self._features, self._ids, self._choices
        status, feasible, count = self._look(
            self._states, self._simulator.parameters, described, self._rng, self._guarded, *read
        )
        if status != OK:
            raise describe_fault(status, self._simulator, "of the described state", 0)
        choices = dict(zip(self.heuristics, self._choices.tolist(), strict=False))
        features = self._features[:count] if self._listed else self._features
        return View(self._fields, self._observation, self._mask, features, self._ids[:count], feasible, choices)


def _build_look(simulator: ProcessSimulator, heuristics: Mapping[str, Function]) -> Function:
    """Compile ``look(states, parameters, described, rng, guarded, observation, mask, features, ids, choices)``.

    It returns status, number of feasible pairs, and 0.
    """
    observe_state = build_observe_state(simulator, compile_functions(simulator))
    choose_all = _build_choose_all(list(heuristics.values()))

    @cached
    @njit(nogil=True)
    def look(states, parameters, described, rng, guarded, observation, mask, features, ids, choices):  # type: ignore[no-untyped-def]
        state = states[0]
        write_state(state, parameters, described)
        status = observe_state(state, parameters, guarded, observation, mask, features)
        choose_all(state, parameters, mask, rng, choices, 0)
        return status, _count(mask), 0

    return look


def _build_look_at_list(simulator: ProcessSimulator, heuristics: Mapping[str, Function]) -> Function:
    """Compile the same with a summary and descriptions, whose number is what it returns last."""
    read_summary, functions = build_read_summary(simulator), compile_functions(simulator)
    action_mask, describe = functions.action_mask, functions.describe_actions
    choose_all = _build_choose_all(list(heuristics.values()))

    @cached
    @njit(nogil=True)
    def look_at_list(states, parameters, described, rng, guarded, observation, mask, features, ids, choices):  # type: ignore[no-untyped-def]
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

    return look_at_list


@njit(nogil=True)
def _count(mask):  # type: ignore[no-untyped-def]
    """Return how many of bool[P + 1] are allowed, without the last, which always is."""
    count = 0
    for pair in range(len(mask) - 1):
        count += mask[pair]
    return count


def _build_choose_all(heuristics: list[Function]) -> Function:
    """Compile ``choose_all(state, parameters, mask, rng, choices, i)``: the actions of the heuristics, from place i."""
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
