"""Small scenarios for the tests of the process simulator, and episodes of them in one compiled loop."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from longstride.jit_cache.cache import cached
from longstride.process.kernel import heuristics
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import parse_scenario
from longstride.process.simulator import ProcessSimulator
from longstride.rollout.episode_loop import build_play, new_episode_arrays
from longstride.seeding import stream
from longstride.simulators.simulator import OK, Function, compile_functions, metrics_of, new_state

RANDOM, FIFO, SPT, LAZY = range(4)
"""The choosers that one compiled loop holds; LAZY postpones half of the time and else chooses at random."""

BASE: dict[str, Any] = {
    "schema": "resource-allocation-scenario/1",
    "name": "test",
    "time_unit": "hours",
    "horizon": {"value": 1000.0},
    "arrivals": {"process": "poisson", "rate": 0.5},
    "activities": ["A"],
    "resources": ["R"],
    "service": [{"activity": "A", "resource": "R", "distribution": "exponential", "mean": 1.0}],
    "flow": {"task": "A"},
}


def scenario(**changes: Any) -> Scenario:
    """Return the one-activity, one-resource scenario with some keys changed."""
    return parse_scenario({**BASE, **changes}, "test")


def service(activity: str, resource: str, distribution: str, **values: Any) -> dict[str, Any]:
    """Return one entry of a scenario's service times."""
    return {"activity": activity, "resource": resource, "distribution": distribution, **values}


WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]


@cache
def office() -> Scenario:
    """Return a tree flow with nested forks, weekly arrivals, office hours with a break and a night shift."""
    inner = {"and": [{"task": "C"}, {"seq": [{"task": "A"}, {"task": "B"}]}]}
    either = {"xor": [{"p": 0.3, "branch": {"task": "B"}}, {"p": 0.7, "branch": {"seq": [{"task": "C"}, inner]}}]}
    return scenario(
        time_unit="minutes",
        horizon={"value": 3 * 7 * 1440.0},
        warmup=4 * 1440.0,
        arrivals={"process": "weekly", "rates": ([0.0] * 8 + [0.01] * 9 + [0.002] * 7) * 7},
        activities=["A", "B", "C"],
        resources=["day", "night", "always"],
        service=[
            service("C", "always", "exponential", mean=60.0),
            service("A", "day", "lognormal", mean=90.0, cv=0.8),
            service("A", "night", "constant", mean=100.0),
            service("B", "night", "uniform", low=10.0, high=200.0),
            service("B", "day", "quantiles", quantiles=[5.0, 30.0, 40.0, 300.0]),
        ],
        flow={"seq": [{"and": [either, {"task": "A"}]}, {"task": "B"}]},
        working_hours={
            "day": [{"days": WEEKDAYS, "from": a, "to": b} for a, b in (("08:00", "12:15"), ("13:00", "17:00"))],
            "night": [
                {"days": ["Monday", "Tuesday", "Wednesday"], "from": "20:00", "to": "24:00"},
                {"days": ["Tuesday", "Wednesday", "Thursday"], "from": "00:00", "to": "05:30"},
            ],
        },
    )


@cache
def rework() -> Scenario:
    """Return a Markov flow with rework, and arrivals replayed, some of them at one time."""
    return scenario(
        time_unit="abstract",
        horizon={"value": 300.0},
        arrivals={"process": "replay", "times": [float(t // 2 * 3) for t in range(190)] + [300.0, 400.0]},
        activities=["A", "B"],
        resources=["r", "s"],
        service=[
            service("A", "r", "constant", mean=1.0),
            service("B", "r", "exponential", mean=0.8),
            service("B", "s", "constant", mean=0.5),
        ],
        flow={
            "start": [{"p": 0.9, "activity": "A"}, {"p": 0.1, "activity": "B"}],
            "next": {
                "A": [{"p": 1.0, "activity": "B"}],
                "B": [{"p": 0.2, "activity": "A"}, {"p": 0.3, "activity": "B"}, {"p": 0.5, "activity": None}],
            },
        },
        warmup=100.0,
    )


def clerk(times: list[float], days: list[str], horizon: float = 24.0) -> ProcessSimulator:
    """Return one clerk who needs two hours for each of four cases and works 9-12 and 13-17."""
    hours = [{"days": days, "from": a, "to": b} for a, b in (("09:00", "12:00"), ("13:00", "17:00"))]
    return ProcessSimulator(
        scenario(
            horizon={"value": horizon},
            arrivals={"process": "replay", "times": times},
            service=[service("A", "R", "constant", mean=2.0)],
            working_hours={"R": hours},
        )
    )


@cache
def pool() -> ProcessSimulator:
    """Return two activities in parallel, each done by both of two resources."""
    pairs = [service(a, r, "exponential", mean=m) for a, m in (("K", 1.8), ("L", 1.6)) for r in ("r", "s")]
    return ProcessSimulator(
        scenario(
            time_unit="abstract",
            horizon={"value": 400.0},
            activities=["K", "L"],
            resources=["r", "s"],
            service=pairs,
            flow={"and": [{"task": "K"}, {"task": "L"}]},
        )
    )


class Episode(NamedTuple):
    """What is left of an episode."""

    steps: int
    total: float
    metrics: dict[str, Any]
    state: Any


@njit
def choose(state, p, observed, which, rng, row):
    """Choose by the heuristic of a number, so that all of them share one compilation of the loop."""
    if which == FIFO:
        return heuristics.first_in_first_out(state, p, observed.mask, rng)
    if which == SPT:
        return heuristics.shortest_processing_time(state, p, observed.mask, rng)
    if which == LAZY and rng.random() < 0.5:
        return len(p.pair_mean)
    return heuristics.random(state, p, observed.mask, rng)


def play_of(simulator: ProcessSimulator, chooser: Function = choose) -> Function:
    """Return the compiled loop, the same one for all simulators of processes."""
    return cached(build_play(simulator, chooser))


def play(
    simulator: ProcessSimulator, which: int, count: int, seed: int = 0, chooser: Function = choose
) -> list[Episode]:
    """Play episodes 0 .. count - 1 of a seed."""
    loop = play_of(simulator, chooser)
    episodes = []
    for i in range(count):
        states = new_state(simulator)
        rngs = stream(seed, "simulator", i), stream(seed, "policy", i)
        arrays = new_episode_arrays(simulator)
        steps, total, status = loop(states, simulator.parameters, which, *rngs, arrays, simulator.max_steps, False)
        assert status == OK
        assert simulator.message(states[0]) is None
        episodes.append(Episode(steps, total, metrics_of(simulator, states), states[0]))
    return episodes


@cache
def mean_and_error(simulator: ProcessSimulator, which: int, count: int, seed: int = 0) -> tuple[float, float]:
    """Return the mean over episodes of the mean cycle time and the standard error of that mean."""
    return summary([e.metrics["mean_cycle_time"] for e in play(simulator, which, count, seed)])


def summary(values: Any) -> tuple[float, float]:
    """Return the mean of independent values and its standard error."""
    values = np.asarray(values, float)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def bound_of(simulator: ProcessSimulator, episode: int) -> tuple[Any, dict[str, Any]]:
    """Return the state and the metrics of the lower bound of an episode of seed 0."""
    states = new_state(simulator)
    compile_functions(simulator).reset(states[0], simulator.parameters, stream(0, "simulator", episode))
    metrics = metrics_of(simulator, states, simulator.bounds["lower_bound"])
    return states[0], metrics
