"""Closes what a log leaves open: delays such that simulated waiting is the log's.

The log proves that a part of a wait is the world's: its person was free. The rest may be either's. So the delays hold
that part and a share beta of the rest, by activity. It is chosen by simulations under the logged habits, such that the
mean time of each activity, from being enabled to its end, equals the log's in open hours. What nights and weekends then
leave between the mean cycle times is taken from the delays, too, in proportion to what is unexplained.
"""

from dataclasses import dataclass

import numpy as np

from longstride.process.kernel.parameters import build_parameters
from longstride.process.mining.delays.clock import open_time_until
from longstride.process.mining.delays.play_logged import PlayedEvents, as_long_record, play_logged
from longstride.process.scenario.nodes import TASK
from longstride.process.scenario.routing import build_routing
from longstride.process.scenario.scenario import Scenario

MIN_CASES = 30
"""Cases below which nothing is closed: all waiting counts as the world's."""

_ROUNDS = 6
_STEP = 0.8
_EVENTS = 30_000
"""Events that the simulations of one step have in all, about; at least one is played, and at most eight."""

_TURNS, _MOST_EVENTS = 4, 100_000
"""Simulations that show how much is luck, and the events of the longest log of which they do."""

_NEGLIGIBLE = 1e-6
"""Share of the log's time below which what is unexplained of an activity is left alone."""

_LONGEST = 4.0
"""Length of a simulation that ends its last cases, as a multiple of the log's."""


@dataclass(frozen=True)
class LoggedTimes:
    """Times of the n events of a log in open hours, float64[n], and their activities."""

    activity: np.ndarray  # int64[n]
    least: np.ndarray  # delay that the log proves
    room: np.ndarray  # waiting beyond that, and what records that are open at the same time take longer than their work
    total: np.ndarray  # from being enabled to the end
    cycle: np.ndarray  # cycle time of the event's case, in hours of any kind

    def delays(self, beta: np.ndarray) -> np.ndarray:
        """Return float64[n], the delays with a share beta, float64[A], of what is unexplained."""
        return np.asarray(self.least + beta[self.activity] * self.room)


class Rehearsal:
    """A scenario that is simulated with several delays; what it learned stays in the last simulation.

    Args:
        scenario: scenario with a delay at each task node.
        times: logged times.
        events: event of each task node, int64[tasks].
        weights: clock of the delays, float64[168].
    """

    def __init__(self, scenario: Scenario, times: LoggedTimes, events: np.ndarray, weights: np.ndarray) -> None:
        self._times, self._weights = times, weights
        self._parameters, self._sizes = build_parameters(scenario)
        self._record = as_long_record(self._parameters)
        self._record["horizon"] = _LONGEST * scenario.horizon.value
        kinds = np.array(build_routing(scenario.flow, scenario.activities).kind)
        self._tasks = np.flatnonzero(kinds == TASK)
        self._event_of = np.full(len(kinds), -1)
        self._event_of[self._tasks] = events

    def lag(self, beta: np.ndarray, cases: int) -> tuple[np.ndarray, np.ndarray]:
        """Return by activity how much less time the simulation takes than the log, and the same events' room.

        Both are float64[A] sums in open hours over the events of some simulations: each simulated event is compared
        with the logged one whose place it takes, so that the luck of drawing cases does not matter.
        """
        turns = min(max(_EVENTS // len(self._times.total), 1), 8)
        lag, room = np.mean(self._simulate(beta, cases, turns), 0)
        return np.asarray(lag), np.asarray(room)

    def luck(self, beta: np.ndarray, cases: int) -> np.ndarray:
        """Return float64[A], the standard deviation of an activity's lag from simulation to simulation, in open hours.

        The log is one of them, so the delays that close it are as uncertain. Of a log of more than 100,000 events it is
        not measured, and is 0.
        """
        if len(self._times.total) > _MOST_EVENTS:
            return np.zeros(len(beta))
        return np.asarray(np.std(self._simulate(beta, cases, _TURNS), 0, ddof=1)[0])

    def _simulate(self, beta: np.ndarray, cases: int, turns: int) -> np.ndarray:
        """Return float64[turns, 2, A], the lag and the room of each simulation."""
        delays = self._times.delays(beta)
        self._record["node_delay"][0][self._tasks] = delays[self._event_of[self._tasks]]
        return np.array([self._compare(delays, len(beta), cases, seed) for seed in range(turns)])

    def _compare(self, delays: np.ndarray, count: int, cases: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the lag and the room of one simulation."""
        played = play_logged(self._record, self._parameters, self._sizes, seed, cases=cases)
        event = self._event_of[played.node]
        # A log shows a case from its first start on: what the case waited for before that is in no logged time.
        opened = np.full(played.case.max(initial=0) + 1, np.inf)
        np.minimum.at(opened, played.case, played.start)
        since = np.maximum(played.queued, opened[played.case])
        end, since = (open_time_until(self._weights, 3600.0 * np.minimum(t, 1e9)) for t in (played.end, since))
        ahead = self._times.total[event] - (delays[event] + end - since)
        a, room = self._times.activity[event], self._times.room[event]
        ahead += room * (self._cycles_ahead(played, event, opened) - ahead.sum()) / max(room.sum(), 1e-9)
        return np.bincount(a, ahead, count), np.bincount(a, room, count)

    def _cycles_ahead(self, played: PlayedEvents, event: np.ndarray, opened: np.ndarray) -> float:
        """Return the open hours by which the logged cycle times of the simulated cases exceed the simulated ones."""
        cases, first = np.unique(played.case, return_index=True)
        closed = np.zeros(len(opened))
        np.maximum.at(closed, played.case, np.minimum(played.end, 1e9))
        hours = self._times.cycle[event[first]] - (closed - opened)[cases]
        return float(hours.sum()) * float(self._weights.mean())

    def close(self, cases: int) -> np.ndarray:
        """Return beta, float64[A]; simulations have as many cases as the log."""
        beta = np.full(int(self._times.activity.max()) + 1, 0.5)
        for _ in range(_ROUNDS):
            lag, room = self.lag(beta, cases)
            beta = np.clip(beta + _STEP * self._change(beta, lag, room), 0.0, 1.0)
        return beta

    def _change(self, beta: np.ndarray, lag: np.ndarray, room: np.ndarray) -> np.ndarray:
        """Return float64[A], what is missing to beta.

        People alone may delay an activity more than the log does. It has no delays then, and what it takes too long is
        taken from those of the others, so that the mean over all activities is the log's.
        """
        usable = room > _NEGLIGIBLE * self._times.total.sum()
        stuck = (lag < 0.0) & ((beta <= 0.0) | ~usable)
        others = usable & ~stuck
        spread = np.where(others, room * (lag[stuck].sum() / max(room[others].sum(), 1e-9)), 0.0)
        return np.asarray(np.divide(lag + spread, room, out=np.zeros(len(beta)), where=others))
