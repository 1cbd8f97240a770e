"""Closes what a log leaves open: delays and availability such that simulated waiting is the log's.

The log proves that a part of a wait is the world's: its person was free. The rest may be either's. So the delays hold
that part and a share beta of the rest, by activity, and people are as available as ``widening`` says. Both are chosen
by simulations under the logged habits: first the least widening with which people cause at most half of what is
unexplained, then beta such that the mean time of each activity, from being enabled to its end, equals the log's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from core.simulators.process.mining.clock import open_time_until
from core.simulators.process.mining.play_logged import play_logged
from core.simulators.process.parameters import as_record, build_parameters
from core.simulators.process.routing import build_routing
from core.simulators.process.scenario import Scenario
from core.simulators.process.world.duty import roster_arrays
from core.simulators.process.world.nodes import TASK
from core.simulators.process.world.schema import DutyPlan

MIN_CASES = 30
"""Cases below which nothing is closed: all waiting counts as the world's, and people are there at all hours seen."""

WIDENINGS = 0.01, 0.1, 0.25, 0.5, 0.75, 0.99
_PEOPLES_SHARE = 0.5
"""Share of the unexplained waiting that people cause at most: nothing in a log says more than that it is 0 to 1."""

_ROUNDS = 6
_STEP = 0.8
_EVENTS = 30_000
"""Events that the simulations of one step have in all, about; at least one is played, and at most eight."""

_NEGLIGIBLE = 1e-6
"""Share of the log's time below which what is unexplained of an activity is left alone."""

_LONGEST = 4.0
"""Length of a simulation that ends its last cases, as a multiple of the log's."""


class Share(NamedTuple):
    """What is closed."""

    widening: float  # 0 to 1, see rosters.py
    beta: np.ndarray  # float64[A], share of the unexplained waiting of each activity that is the world's


@dataclass(frozen=True)
class LoggedTimes:
    """Times of the n events of a log in open hours, float64[n], and their activities."""

    activity: np.ndarray  # int64[n]
    least: np.ndarray  # delay that the log proves
    room: np.ndarray  # waiting beyond that, and what records that are open at the same time take longer than their work
    total: np.ndarray  # from being enabled to the end

    def delays(self, beta: np.ndarray) -> np.ndarray:
        """Return float64[n], the delays with a share beta, float64[A], of what is unexplained."""
        return np.asarray(self.least + beta[self.activity] * self.room)


class Rehearsal:
    """A scenario that is simulated with several delays and rosters; what it learned stays in the last simulation.

    Args:
        scenario: scenario with plans for every widening strictly between 0 and 1.
        rosters: rosters by widening.
        times: logged times.
        events: event of each task node, int64[tasks].
        weights: clock of the delays, float64[168].
    """

    def __init__(
        self,
        scenario: Scenario,
        rosters: Callable[[float], dict[str, list[dict[str, Any]]]],
        times: LoggedTimes,
        events: np.ndarray,
        weights: np.ndarray,
    ) -> None:
        self._scenario, self._rosters, self._times, self._weights = scenario, rosters, times, weights
        self._parameters, self._sizes = build_parameters(scenario)
        self._record = as_record(self._parameters)
        self._record["horizon"] = _LONGEST * scenario.horizon.value
        kinds = np.array(build_routing(scenario.flow, scenario.activities).kind)
        self._tasks = np.flatnonzero(kinds == TASK)
        self._event_of = np.full(len(kinds), -1)
        self._event_of[self._tasks] = events

    def lag(self, share: Share, cases: int) -> tuple[np.ndarray, np.ndarray]:
        """Return by activity how much less time the simulation takes than the log, and the same events' room.

        Both are float64[A] sums in open hours over the events of some simulations: each simulated event is compared
        with the logged one whose place it takes, so that the luck of drawing cases does not matter.
        """
        delays = self._times.delays(share.beta)
        self._record["node_delay"][0][self._tasks] = delays[self._event_of[self._tasks]]
        plans = {n: [DutyPlan.model_validate(p) for p in rows] for n, rows in self._rosters(share.widening).items()}
        plans = {name: plans[name] for name in self._scenario.resources}
        arrays = roster_arrays(plans, {}, self._scenario.resources)
        self._record["roster_cumulative"][0][:] = arrays["roster_cumulative"]
        turns = min(max(_EVENTS // len(self._times.total), 1), 8)
        lag, room = np.mean([self._compare(delays, len(share.beta), cases, seed) for seed in range(turns)], 0)
        return np.asarray(lag), np.asarray(room)

    def _compare(self, delays: np.ndarray, count: int, cases: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the lag and the room of one simulation."""
        played = play_logged(self._record, self._parameters, self._sizes, seed, cases=cases)
        event = self._event_of[played.node]
        end, queued = (open_time_until(self._weights, 3600.0 * np.minimum(t, 1e9)) for t in (played.end, played.queued))
        ahead = self._times.total[event] - (delays[event] + end - queued)
        a = self._times.activity[event]
        return np.bincount(a, ahead, count), np.bincount(a, self._times.room[event], count)

    def close(self, cases: int) -> Share:
        """Return widening and beta; simulations have as many cases as the log."""
        none = np.zeros(int(self._times.activity.max()) + 1)
        for widening in WIDENINGS:
            share = Share(widening, none)
            lag, room = self.lag(share, cases)
            if lag.sum() >= (1.0 - _PEOPLES_SHARE) * room.sum():
                break
        for _ in range(_ROUNDS):
            change = self._change(share.beta, lag, room)
            share = Share(share.widening, np.clip(share.beta + _STEP * change, 0.0, 1.0))
            lag, room = self.lag(share, cases)
        return share

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
