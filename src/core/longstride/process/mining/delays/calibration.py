"""Calibrates external delays such that simulated waiting equals the log's.

The log proves that a part of a wait is external: its person was free. The rest may be external or waiting for people.
So with a share for each activity

    delay = least + share * room,    least: proven part of the wait,    room: unexplained part.

Simulations under the logged habits choose the shares such that the mean time of each activity, from being enabled to
its end, equals the log's in open hours. Nights and weekends can still make the mean cycle times differ. This difference
is removed from the delays, too, in proportion to the unexplained parts.
"""

from dataclasses import dataclass

import numpy as np

from longstride.process.kernel.parameters import build_parameters
from longstride.process.mining.delays.clock import open_time_until
from longstride.process.mining.delays.play_logged import PlayedEvents, as_logged_record, play_logged
from longstride.process.scenario.nodes import TASK
from longstride.process.scenario.scenario import Scenario

MIN_CASES = 30
"""Fewest cases for a calibration; with fewer, all waiting counts as external."""

_ROUNDS = 6
_STEP = 0.8
_EVENTS = 30_000
"""Approximate number of events in all simulations of one step; one to eight simulations are played."""

_TURNS, _MOST_EVENTS = 4, 100_000
"""Simulations that estimate the sampling error, and the most events of a log for which they do."""

_NEGLIGIBLE = 1e-6
"""Share of the log's time below which the unexplained time of an activity is ignored."""

_LONGEST = 4.0
"""Length of a simulation as a multiple of the log's, so that its last cases end."""


@dataclass(frozen=True)
class LoggedTimes:
    """Times of the n events of a log in open hours, float64[n], and their activities."""

    activity: np.ndarray  # int64[n]
    least: np.ndarray  # proven delay
    room: np.ndarray  # unexplained: other waiting, and time of simultaneous records beyond their work
    total: np.ndarray  # from being enabled to the end
    cycle: np.ndarray  # cycle time of the event's case, in hours of any kind

    def delays(self, share: np.ndarray) -> np.ndarray:
        """Return float64[n], the delays least + share * room, with share float64[A]."""
        return np.asarray(self.least + share[self.activity] * self.room)


class DelayCalibration:
    """Simulates a scenario with different delays and fits the share of each activity.

    Args:
        scenario: scenario with a delay at each task node.
        times: logged times.
        events: event of each task node, int64[tasks].
        weights: clock of the delays, float64[168].
    """

    def __init__(self, scenario: Scenario, times: LoggedTimes, events: np.ndarray, weights: np.ndarray) -> None:
        self._times, self._weights = times, weights
        self._parameters, self._sizes = build_parameters(scenario)
        self._record = as_logged_record(self._parameters)
        self._record["horizon"] = _LONGEST * scenario.horizon.value
        kinds = self._parameters.node_kind
        self._tasks = np.flatnonzero(kinds == TASK)
        self._event_of = np.full(len(kinds), -1)
        self._event_of[self._tasks] = events

    def lag(self, share: np.ndarray, cases: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the log's time minus the simulation's, and the room of the same events, float64[A] each.

        Both are sums in open hours over the events of a simulation, on average over several. Each simulated event is
        compared with the logged event that it replays, so that the drawn cases add no sampling error.
        """
        turns = min(max(_EVENTS // len(self._times.total), 1), 8)
        lag, room = np.mean(self._simulate(share, cases, turns), 0)
        return np.asarray(lag), np.asarray(room)

    def sampling_error(self, share: np.ndarray, cases: int) -> np.ndarray:
        """Return float64[A], the standard deviation of an activity's lag between simulations, in open hours.

        The log is like one such simulation, so the fitted delays have the same error. For a log of more than 100,000
        events the error is not measured, and 0 is returned.
        """
        if len(self._times.total) > _MOST_EVENTS:
            return np.zeros(len(share))
        return np.asarray(np.std(self._simulate(share, cases, _TURNS), 0, ddof=1)[0])

    def _simulate(self, share: np.ndarray, cases: int, turns: int) -> np.ndarray:
        """Return float64[turns, 2, A], the lag and the room of each simulation."""
        delays = self._times.delays(share)
        self._record["node_delay"][0][self._tasks] = delays[self._event_of[self._tasks]]
        return np.array([self._compare(delays, len(share), cases, seed) for seed in range(turns)])

    def _compare(self, delays: np.ndarray, count: int, cases: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the lag and the room of one simulation."""
        played = play_logged(self._record, self._parameters, self._sizes, seed, cases=cases)
        event = self._event_of[played.node]
        # A log shows a case from its first start on, so earlier waiting is in no logged time.
        opened = np.full(played.case.max(initial=0) + 1, np.inf)
        np.minimum.at(opened, played.case, played.start)
        since = np.maximum(played.queued, opened[played.case])
        end, since = (open_time_until(self._weights, 3600.0 * np.minimum(t, 1e9)) for t in (played.end, since))
        ahead = self._times.total[event] - (delays[event] + end - since)
        a, room = self._times.activity[event], self._times.room[event]
        ahead += room * (self._cycles_ahead(played, event, opened) - ahead.sum()) / max(room.sum(), 1e-9)
        return np.bincount(a, ahead, count), np.bincount(a, room, count)

    def _cycles_ahead(self, played: PlayedEvents, event: np.ndarray, opened: np.ndarray) -> float:
        """Return the sum of logged minus simulated cycle times of the simulated cases, in open hours."""
        cases, first = np.unique(played.case, return_index=True)
        closed = np.zeros(len(opened))
        np.maximum.at(closed, played.case, np.minimum(played.end, 1e9))
        hours = self._times.cycle[event[first]] - (closed - opened)[cases]
        return float(hours.sum()) * float(self._weights.mean())

    def fit(self, cases: int) -> np.ndarray:
        """Return the shares, float64[A]; simulations have as many cases as the log."""
        share = np.full(int(self._times.activity.max()) + 1, 0.5)
        for _ in range(_ROUNDS):
            # Damped fixed-point iteration: a change of share by d changes an activity's time by about d * room.
            lag, room = self.lag(share, cases)
            share = np.clip(share + _STEP * self._change(share, lag, room), 0.0, 1.0)
        return share

    def _change(self, share: np.ndarray, lag: np.ndarray, room: np.ndarray) -> np.ndarray:
        """Return float64[A], the change of the shares that removes the lag.

        Waiting for people alone may already take longer than an activity's time in the log. Then its share is 0, and
        its excess is subtracted from the delays of the others, so that the mean over all activities is the log's.
        """
        usable = room > _NEGLIGIBLE * self._times.total.sum()
        stuck = (lag < 0.0) & ((share <= 0.0) | ~usable)
        others = usable & ~stuck
        spread = np.where(others, room * (lag[stuck].sum() / max(room[others].sum(), 1e-9)), 0.0)
        return np.asarray(np.divide(lag + spread, room, out=np.zeros(len(share)), where=others))
