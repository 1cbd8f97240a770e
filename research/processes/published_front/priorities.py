"""Static priorities of people: the settings that a genetic algorithm searches, as a rule of the process simulator.

AgentSimulator-Optimizer fixes, for each person and activity before, who does the next task, and the task waits for that
person. Here each pair of person and activity has a priority. The oldest case is served first, by the free person with
the highest priority; a person whose priority is 0 or less never does the activity. So a table can reserve an activity
for one person, as there, or name an order of deputies. It cannot depend on the person before.
"""

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
from numba import njit

from longstride.process.front.points import front_of
from longstride.process.kernel.heuristics import NO_CASE, oldest_waiting
from longstride.process.scenario.scenario import Scenario
from longstride.process.simulator import ProcessSimulator
from longstride.process.whatif.compare import Players, Sampling
from longstride.simulators.hooks import Records

RULE = "priorities"
_POPULATION, _EPISODES, _KEPT = 40, 3, 12
"""Tables of a generation, episodes of each, as published, and most tables of the front that are compared in full."""

_STREAMS = "search of priorities"


@njit(nogil=True)
def serve_by_priority(state, p, mask, rng):  # type: ignore[no-untyped-def]
    """Serve the oldest case that a person with a priority can take, by the one with the highest.

    ``pair_habit`` has the priorities, float64[P].
    """
    allowed = np.zeros(len(p.pair_mean), np.bool_)
    for pair in range(len(allowed)):
        allowed[pair] = mask[pair] and p.pair_habit[pair] > 0.0
    oldest = oldest_waiting(state, p, allowed)
    case, chosen, best = oldest.min(), len(allowed), 0.0
    if case == NO_CASE:
        return chosen
    for pair in range(len(allowed)):
        if allowed[pair] and oldest[p.pair_activity[pair]] == case and p.pair_habit[pair] > best:
            chosen, best = pair, p.pair_habit[pair]
    return chosen


@dataclass
class Found:
    """The result of a search.

    Attributes:
        records: episodes of each table on the front of the search, by its name.
        simulations: episodes that the search has played.
        seconds: time of the search, with the compiling of the rule.
    """

    records: dict[str, Records] = field(default_factory=dict)
    simulations: int = 0
    seconds: float = 0.0


class Tables:
    """Plays tables of priorities on a scenario whose objective has the two metrics."""

    def __init__(self, scenario: Scenario, threads: int) -> None:
        self._simulator, self._players, self._scenario = ProcessSimulator(scenario), Players(threads), scenario
        self._simulator.heuristics = {RULE: serve_by_priority}
        p = self._simulator.parameters
        self.activity = p["pair_activity"].copy()
        self._figures = {
            "the usual": -p["pair_habit"].astype(float),
            "the cheapest": p["pair_mean"] * p["rate"][p["pair_resource"]],
            "the quickest": p["pair_mean"].astype(float),
        }

    def play(self, table: np.ndarray, sampling: Sampling, streams: str = "evaluation") -> tuple[Records, bool]:
        """Play a table, float64[P]; return the episodes, and whether some ended early because work piled up."""
        simulator = copy(self._simulator)
        simulator.parameters = self._simulator.parameters.copy()
        simulator.parameters["pair_habit"][:] = self.usable(table)
        result = self._players.play("the search", simulator, None, [RULE], sampling, streams)
        return result.records[RULE], bool(result.messages)

    def usable(self, table: np.ndarray) -> np.ndarray:
        """Return a table in which each activity has a person: the one with the highest priority."""
        usable = table.copy()
        for activity in np.unique(self.activity):
            own = np.flatnonzero(self.activity == activity)
            best = own[usable[own].argmax()]
            usable[best] = max(usable[best], 1e-9)
        return usable

    def simple(self) -> dict[str, np.ndarray]:
        """Return tables to begin with: an order by one figure, and only the first person of that order."""
        tables = {"equal": np.ones(len(self.activity))}
        for name, figure in self._figures.items():
            order, only = np.empty(len(figure)), np.full(len(figure), -0.5)
            for activity in np.unique(self.activity):
                own = np.flatnonzero(self.activity == activity)
                sorted_own = own[np.argsort(figure[own], kind="stable")]
                order[sorted_own] = np.linspace(1.0, 0.05, len(own))
                only[sorted_own[0]] = 1.0
            tables |= {f"{name} first": order, f"only {name}": only}
        return tables


def search(tables: Tables, metrics: Sequence[str], simulations: int, seed: int) -> tuple[list[np.ndarray], int]:
    """Search tables by NSGA-II; return those on its front, by cost, and the number of tables that were played.

    A table counts as impossible if it leaves over twice as many cases open as if all people had the same priority:
    work that is never done costs nothing.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.NSGAIISampler(population_size=_POPULATION, seed=seed)
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    names = [f"pair {k}" for k in range(len(tables.activity))]
    space: dict[str, Any] = {name: optuna.distributions.FloatDistribution(-0.5, 1.0) for name in names}
    for table in tables.simple().values():
        study.enqueue_trial(dict(zip(names, table.tolist(), strict=True)))
    played, values = list[np.ndarray](), list[tuple[float, float]]()
    sampling = Sampling(_EPISODES, seed)
    most = 2.0 * _open(tables.play(np.ones(len(names)), sampling, _STREAMS)[0])
    for _ in range(simulations // _EPISODES):
        trial = study.ask(space)
        table = np.array([trial.params[name] for name in names])
        records, piled_up = tables.play(table, sampling, _STREAMS)
        impossible = piled_up or _open(records) > most
        first, second = (1e9 if impossible else fmean(record[metric] for record in records) for metric in metrics)
        study.tell(trial, [first, second])
        played.append(table)
        values.append((first, second))
    ahead = [k for k, is_on in enumerate(front_of(values)) if is_on]
    ahead.sort(key=lambda k: values[k])
    ahead = [k for n, k in enumerate(ahead) if n == 0 or values[k] != values[ahead[n - 1]]]
    spread = np.unique(np.linspace(0, len(ahead) - 1, min(_KEPT, len(ahead))).round().astype(int))
    return [played[ahead[k]] for k in spread], len(played)


def _open(records: Records) -> float:
    """Return the mean number of cases that are open at the end."""
    return fmean(record["cases_open"] for record in records)


def find(tables: Tables, metrics: Sequence[str], simulations: int, sampling: Sampling) -> Found:
    """Search, and play the tables that were found, and the person who is always the usual one, on other episodes."""
    began = time.perf_counter()
    ahead, count = search(tables, metrics, simulations, sampling.seed)
    found = Found(simulations=count * _EPISODES, seconds=time.perf_counter() - began)
    for number, table in enumerate(ahead, 1):
        found.records[f"priorities {number}"], _ = tables.play(table, sampling)
    found.records["only the usual"], _ = tables.play(tables.simple()["only the usual"], sampling)
    return found
