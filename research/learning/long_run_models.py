"""Endless problems of `optima.py` as chains: what follows each action in each state, without a simulation."""

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.inventory.lost_sales import LostSales
from longstride.simulators.inventory.lost_sales_figures import MEAN_DEMAND
from longstride.simulators.queueing.network import LEAVES, NetworkParameters
from longstride.simulators.queueing.tandem import HOLDING, REFUSAL, SPEEDS, Tandem

NetworkSimulator = Any
"""A simulator whose parameters are those of a queueing network with exponential services."""

Follows = tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]
"""For each of some rows: the expected cost, and (row after, probability) of each event."""


class Model(NamedTuple):
    """A problem in steps of equal mean length.

    Attributes:
        states: int64[S, O], which are the observations as well; the first one is where episodes begin.
        allowed: bool[S, outputs], the mask of actions.
        actions: each as the number of each choice.
        follows: expected costs and events of some rows after an action.
        clock: steps a time unit.
    """

    states: np.ndarray
    allowed: np.ndarray
    actions: list[tuple[int, ...]]
    follows: Callable[[np.ndarray, tuple[int, ...]], Follows]
    clock: float


def model_of(simulator: Any, most: int) -> Model:
    """Return the chain of a simulator.

    Args:
        simulator: one of these problems.
        most: jobs of each class of a network; those that find no room are lost.
    """
    if isinstance(simulator, Tandem):
        return tandem(simulator)
    return lost_sales(simulator) if isinstance(simulator, LostSales) else network(simulator, most)


def tandem(simulator: Tandem) -> Model:
    """Return the chain of two queues in a row."""
    parameters = simulator.parameters
    side = parameters.capacity + 1
    states = np.indices((side, side)).reshape(2, -1).T

    def follows(rows: np.ndarray, action: tuple[int, ...]) -> Follows:
        first, second = states[rows].T
        works = (first > 0) & (second < parameters.capacity), second > 0
        rates = [parameters.speeds[a] * w / parameters.clock for a, w in zip(action, works, strict=True)]
        power = sum(parameters.power[a] * w for a, w in zip(action, works, strict=True))
        arrives, is_full = parameters.arrival_rate / parameters.clock, first == parameters.capacity
        cost = (HOLDING[0] * first + HOLDING[1] * second + power) / parameters.clock + REFUSAL * arrives * is_full
        moves = [(rows + side * ~is_full, np.full(len(rows), arrives))]
        moves += [(rows + (1 - side) * works[0], rates[0]), (rows - works[1], rates[1])]
        return cost, with_rest(rows, moves)

    actions = list(product(range(len(SPEEDS)), repeat=2))
    return Model(states, np.ones((len(states), 2 * len(SPEEDS)), bool), actions, follows, parameters.clock)


def network(simulator: NetworkSimulator, most: int) -> Model:
    """Return the chain of a queueing network, by the rules of ``simulators/queueing/dynamics.py``."""
    parameters, side = simulator.parameters, most + 1
    classes = len(parameters.next_class)
    states = np.indices((side,) * classes).reshape(classes, -1).T
    steps = side ** np.arange(classes)[::-1]
    clock = parameters.arrivals + sum(parameters.servers[s] * rate for s, rate in fastest(parameters).items())

    def joined(rows: np.ndarray, k: int) -> np.ndarray:
        return rows + steps[k] * (rows // steps[k] % side < most)

    def follows(rows: np.ndarray, action: tuple[int, ...]) -> Follows:
        entries = zip(parameters.entry_class, parameters.entry_rate, strict=True)
        moves = [(joined(rows, k), np.full(len(rows), rate / clock)) for k, rate in entries]
        for pair, flow in enumerate(flows(parameters, states[rows], action)):
            k = parameters.pair_class[pair]
            left, on = rows - steps[k] * (flow > 0), parameters.next_class[k]
            moves.append((left if on == LEAVES else np.where(flow > 0, joined(left, on), rows), flow / clock))
        return states[rows] @ parameters.holding_cost / clock, with_rest(rows, moves)

    allowed = np.ones((len(states), len(parameters.option_class)), bool)
    for begin, end in zip(parameters.option_begin, parameters.option_begin[1:], strict=False):
        jobs = states[:, parameters.option_class[begin:end]]
        allowed[:, begin:end] = (jobs > 0) | ~(jobs > 0).any(axis=1, keepdims=True)
    actions = list(product(*(range(size) for size in np.diff(parameters.option_begin))))
    return Model(states, allowed, actions, follows, float(clock))


def fastest(parameters: NetworkParameters) -> dict[int, float]:
    """Return the fastest rate of a server of each station."""
    pairs = zip(parameters.pair_station[::-1], parameters.pair_rate[::-1], strict=True)  # the fastest pairs come last
    return {int(station): float(rate) for station, rate in pairs}


def flows(parameters: NetworkParameters, queue: np.ndarray, action: tuple[int, ...]) -> list[np.ndarray]:
    """Return the rates of completions of each pair of station and class, float64[rows] each."""
    waiting, found = queue.copy(), [np.zeros(len(queue)) for _ in parameters.pair_rate]
    free = np.tile(parameters.servers, (len(queue), 1))
    for chosen in (True, False):
        for pair, station in enumerate(parameters.pair_station):
            choice, k = parameters.pair_choice[pair], parameters.pair_class[pair]
            if chosen == (choice < 0 or action[choice] == parameters.pair_option[pair]):
                jobs = np.minimum(free[:, station], waiting[:, k])
                free[:, station] -= jobs
                waiting[:, k] -= jobs
                found[pair] = jobs * parameters.pair_rate[pair]
    return found


def lost_sales(simulator: LostSales) -> Model:
    """Return the chain of an inventory with lost sales; the first state has the mean demand everywhere."""
    parameters, periods = simulator.parameters, simulator.observation_size
    most, largest = parameters.most, parameters.largest_order
    orders = [np.array(order, np.int64) for order in product(range(largest + 1), repeat=periods - 1)]
    states = np.array([[n, *order] for order in orders for n in range(most + 1 - order.sum())], np.int64)
    begin = np.flatnonzero((states == MEAN_DEMAND).all(axis=1))[0]
    states[[0, begin]] = states[[begin, 0]]
    weights = (largest + 1) ** np.arange(periods - 1)
    numbers = np.zeros((most + 1, (largest + 1) ** (periods - 1)), np.int64)
    numbers[states[:, 0], states[:, 1:] @ weights] = np.arange(len(states))
    demand = np.arange(len(parameters.probability))
    beyond = np.r_[1.0, 1.0 - parameters.distribution]  # probability of a demand of at least so many units
    left = np.arange(most + 1)[:, None] - demand
    costs = (np.where(left >= 0, left, -parameters.penalty * left) * parameters.probability).sum(axis=1)

    def follows(rows: np.ndarray, action: tuple[int, ...]) -> Follows:
        stock, moves = states[rows, 0], []
        pipeline = np.concatenate([states[rows, 1:], np.full((len(rows), 1), action[0])], axis=1)
        for kept in range(most + 1):
            chance = np.where(kept <= stock, parameters.probability[np.maximum(stock - kept, 0)], 0.0)
            chance = beyond[stock] if kept == 0 else chance
            after = np.minimum(kept + pipeline[:, 0], most)
            moves.append((numbers[after, pipeline[:, 1:] @ weights], chance))
        return costs[stock], moves

    allowed = states.sum(axis=1, keepdims=True) + np.arange(largest + 1) <= most
    allowed[:, 0] = True
    return Model(states, allowed, [(order,) for order in range(largest + 1)], follows, 1.0)


def with_rest(rows: np.ndarray, moves: list[tuple[np.ndarray, np.ndarray]]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return events and that nothing happens, with the probability that is left."""
    return [*moves, (rows, 1.0 - sum(chance for _, chance in moves))]
