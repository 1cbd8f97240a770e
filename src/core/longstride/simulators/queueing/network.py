"""Multiclass queueing networks: a description, and the arrays and sizes that the kernels of ``dynamics`` work on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete, MultiDiscrete

LEAVES = -1


@dataclass(frozen=True)
class Network:
    """Stations of equal servers, and classes of jobs that arrive, are served and become another class or leave.

    Attributes:
        arrival_rate: of each class, jobs a time unit; 0 for a class that only comes from another.
        service_rate: station x class, jobs a time unit that one server completes; 0 if it cannot serve the class.
        next_class: that a job of each class becomes after service, or ``LEAVES``.
        holding_cost: of a job of each class, a time unit.
        servers: of each station.
        spread: 0 for exponential service. Above 0, a job's mean service time is that of its class times 1 + spread or
            1 - spread, with equal probability; then a class may have one station only, and a station one server.
    """

    arrival_rate: Sequence[float]
    service_rate: Sequence[Sequence[float]]
    next_class: Sequence[int]
    holding_cost: Sequence[float]
    servers: Sequence[int]
    spread: float = 0.0


class NetworkParameters(NamedTuple):
    """A network as arrays; a pair is a station and a class that it serves, a choice a station of several classes.

    Attributes:
        entry_class: int64[E], classes that arrive.
        entry_rate: float64[E], at which rate.
        arrivals: sum of these rates.
        next_class: int64[K], or LEAVES.
        holding_cost: float64[K].
        servers: int64[S], of each station.
        pair_station: int64[P], the fastest pairs first.
        pair_class: int64[P].
        pair_rate: float64[P].
        pair_choice: int64[P], the station's choice, -1 where it has none.
        pair_option: int64[P], the value of the choice that prefers this class.
        option_begin: int64[C + 1], where the options of each choice begin in the mask.
        option_class: int64[options], a class.
        option_rate: float64[options], rate of one server for it.
        spread: see :class:`Network`.
        threshold: jobs, for the threshold rule of a simulator that has one.
    """

    entry_class: np.ndarray
    entry_rate: np.ndarray
    arrivals: float
    next_class: np.ndarray
    holding_cost: np.ndarray
    servers: np.ndarray
    pair_station: np.ndarray
    pair_class: np.ndarray
    pair_rate: np.ndarray
    pair_choice: np.ndarray
    pair_option: np.ndarray
    option_begin: np.ndarray
    option_class: np.ndarray
    option_rate: np.ndarray
    spread: float
    threshold: int


def set_up(simulator: Simulator, network: Network, threshold: int = 0) -> None:
    """Give a simulator the sizes, spaces and parameters of a network.

    Args:
        simulator: simulator whose functions are those of ``dynamics``.
        network: the network; at least one of its stations serves several classes.
        threshold: see :class:`NetworkParameters`.
    """
    parameters = build_parameters(network, threshold)
    classes, sizes = len(network.next_class), np.diff(parameters.option_begin).tolist()
    simulator.parameters = parameters
    simulator.observation_size = classes
    simulator.action_space = Discrete(sizes[0]) if len(sizes) == 1 else MultiDiscrete(sizes)
    simulator.mean_interval = 1.0 / events_per_time(network)
    simulator.state_dtype = np.dtype(
        [
            ("queue", np.int64, (classes,)),  # jobs of each class, those in service included
            ("speed", np.float64, (classes,)),  # of the service of each class's first job; 1 if exponential
            ("time", np.float64),
            ("cost", np.float64),
            ("choice", np.int64, (len(sizes),)),  # the rest is work space of a step
            ("waiting", np.int64, (classes,)),
            ("free", np.int64, (len(network.servers),)),
            ("flow", np.float64, (len(parameters.pair_rate),)),
        ]
    )


def events_per_time(network: Network) -> float:
    """Return arrivals and completions a time unit in the long run, the same for every stable policy."""
    total = 0.0
    for entry, rate in enumerate(network.arrival_rate):
        job, visits = entry, 0
        while job != LEAVES:
            job, visits = network.next_class[job], visits + 1
        total += rate * (1 + visits)
    return total


def build_parameters(network: Network, threshold: int = 0) -> NetworkParameters:
    """Return a network as arrays."""
    rates = np.asarray(network.service_rate, np.float64)
    options = [[int(k) for k in np.flatnonzero(row)] for row in rates]
    deciding = [station for station, classes in enumerate(options) if len(classes) > 1]
    pairs = sorted(((s, k) for s, classes in enumerate(options) for k in classes), key=lambda pair: -rates[pair])
    entries = np.flatnonzero(network.arrival_rate)
    entry_rate = np.asarray(network.arrival_rate, np.float64)[entries]

    def whole(values: Any) -> np.ndarray:
        return np.array(list(values), np.int64)

    return NetworkParameters(
        entry_class=whole(entries),
        entry_rate=entry_rate,
        arrivals=float(entry_rate.sum()),
        next_class=whole(network.next_class),
        holding_cost=np.asarray(network.holding_cost, np.float64),
        servers=whole(network.servers),
        pair_station=whole(s for s, _ in pairs),
        pair_class=whole(k for _, k in pairs),
        pair_rate=np.array([rates[pair] for pair in pairs]),
        pair_choice=whole(deciding.index(s) if s in deciding else -1 for s, _ in pairs),
        pair_option=whole(options[s].index(k) for s, k in pairs),
        option_begin=whole(np.cumsum([0, *(len(options[s]) for s in deciding)])),
        option_class=whole(k for s in deciding for k in options[s]),
        option_rate=np.array([rates[s, k] for s in deciding for k in options[s]]),
        spread=float(network.spread),
        threshold=threshold,
    )
