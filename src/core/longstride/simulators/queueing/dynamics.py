"""What happens in a queueing network: the functions of the contract that all networks share.

A step is an event, an arrival or a completed service, and the time until it. Service is preemptive: at each event every
station may turn to another class. It serves the class that it chose first and gives servers that are left to its other
classes, so nobody idles while there is work. Where two stations want the same job, the faster one has it. These are the
rules of QGym's work-conserving policies (Chen, Li, Che, Dong, Peng and Namkoong 2024).
"""

from typing import Any

import numpy as np
from numba import njit

from longstride.simulators.queueing.network import LEAVES, NetworkParameters


def reset(state: Any, parameters: NetworkParameters, rng: np.random.Generator) -> None:
    """Start empty."""
    for k in range(len(state.queue)):
        state.queue[k] = 0
        state.speed[k] = 1.0
    state.time, state.cost = 0.0, 0.0


def observe(state: Any, parameters: NetworkParameters, observation: np.ndarray) -> None:
    """Write the jobs of each class."""
    for k in range(len(state.queue)):
        observation[k] = state.queue[k]


def action_mask(state: Any, parameters: NetworkParameters, mask: np.ndarray) -> None:
    """Forbid a station to choose a class without jobs, unless none of its classes has any."""
    for choice in range(len(parameters.option_begin) - 1):
        begin, end = parameters.option_begin[choice], parameters.option_begin[choice + 1]
        work = 0
        for option in range(begin, end):
            work += state.queue[parameters.option_class[option]]
        if work > 0:
            for option in range(begin, end):
                mask[option] = state.queue[parameters.option_class[option]] > 0


def step_of_one(state: Any, parameters: NetworkParameters, action: int, rng: np.random.Generator) -> tuple[float, bool]:
    """Go to the next event where one station decides: an action is the place of a class among its classes."""
    state.choice[0] = action
    return -_next_event(state, parameters, rng), False


def step_of_many(
    state: Any, parameters: NetworkParameters, action: np.ndarray, rng: np.random.Generator
) -> tuple[float, bool]:
    """Go to the next event where several stations decide."""
    for choice in range(len(state.choice)):
        state.choice[choice] = action[choice]
    return -_next_event(state, parameters, rng), False


def time(state: Any, parameters: NetworkParameters) -> float:
    """Return the simulated time."""
    return state.time  # type: ignore[no-any-return]


def episode_metrics(state: Any, parameters: NetworkParameters, metrics: Any) -> None:
    """Write the mean cost a time unit."""
    metrics.mean_cost = state.cost / state.time if state.time > 0 else 0.0


@njit(nogil=True)
def _next_event(state: Any, parameters: NetworkParameters, rng: np.random.Generator) -> float:
    """Let time pass until the next event; return the holding cost until then."""
    total = parameters.arrivals + _assign(state, parameters)
    duration, cost = rng.standard_exponential() / total, 0.0
    for k in range(len(state.queue)):
        cost += parameters.holding_cost[k] * state.queue[k]
    cost *= duration
    state.time += duration
    state.cost += cost
    rest = rng.random() * total
    for entry in range(len(parameters.entry_rate)):
        rest -= parameters.entry_rate[entry]
        if rest < 0.0:
            _join(state, parameters, parameters.entry_class[entry], rng)
            return cost
    for pair in range(len(state.flow)):
        rest -= state.flow[pair]
        if rest < 0.0:
            _complete(state, parameters, parameters.pair_class[pair], rng)
            return cost
    return cost  # rounding: rest is 0 and not below; nothing happens


@njit(nogil=True)
def _assign(state: Any, parameters: NetworkParameters) -> float:
    """Give jobs to servers, the chosen classes first; write the rate of completions of each pair, return their sum."""
    total = 0.0
    for k in range(len(state.queue)):
        state.waiting[k] = state.queue[k]
    for station in range(len(state.free)):
        state.free[station] = parameters.servers[station]
    for chosen in (True, False):
        for pair in range(len(state.flow)):
            choice = parameters.pair_choice[pair]
            preferred = choice < 0 or state.choice[choice] == parameters.pair_option[pair]
            if preferred == chosen:
                station, k = parameters.pair_station[pair], parameters.pair_class[pair]
                jobs = min(state.free[station], state.waiting[k])
                state.free[station] -= jobs
                state.waiting[k] -= jobs
                state.flow[pair] = jobs * parameters.pair_rate[pair] * state.speed[k]
                total += state.flow[pair]
    return total


@njit(nogil=True)
def _join(state: Any, parameters: NetworkParameters, k: int, rng: np.random.Generator) -> None:
    """Add a job to a class."""
    state.queue[k] += 1
    if state.queue[k] == 1:
        _begin(state, parameters, k, rng)


@njit(nogil=True)
def _complete(state: Any, parameters: NetworkParameters, k: int, rng: np.random.Generator) -> None:
    """Take a served job out of a class and into its next one."""
    state.queue[k] -= 1
    if state.queue[k] > 0:
        _begin(state, parameters, k, rng)
    if parameters.next_class[k] != LEAVES:
        _join(state, parameters, parameters.next_class[k], rng)


@njit(nogil=True)
def _begin(state: Any, parameters: NetworkParameters, k: int, rng: np.random.Generator) -> None:
    """Draw the phase of the job that is now the first of its class."""
    if parameters.spread > 0.0:
        long = rng.random() < 0.5
        state.speed[k] = 1.0 / (1.0 + parameters.spread) if long else 1.0 / (1.0 - parameters.spread)
