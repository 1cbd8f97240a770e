"""Figures of the later part of a log, predicted from the earlier one, with intervals for what happens once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from longstride.errors import UserError
from longstride.process.backtest.parts import HOUR, WEEK, Parts, staged, there
from longstride.process.event_logs.event_log import EventLog
from longstride.process.fidelity.base import logged_episode
from longstride.process.fidelity.verdict import logged_shares
from longstride.process.kernel.parameters import build_parameters
from longstride.process.mining.delays.play_logged import as_logged_record, play_logged
from longstride.process.mining.machines import without_machines
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.resamples.interval import Effect, interval, log_error
from longstride.process.resamples.play import FEWEST, blocks_of, drawn, run_resamples, why_not
from longstride.process.scenario.scenario import Scenario
from longstride.text import Say

TIMES, SHARES = ("mean", "median", "p90"), ("work", "people", "external")
FIGURES = (*TIMES, *SHARES, "throughput")
"""Cycle times in hours, shares of the cycle time, and cases that end in a week."""

_SLACK = 0.01

Figures = dict[str, np.ndarray]
"""A figure of each episode, float64[episodes], by name."""


@dataclass(frozen=True)
class Prediction:
    """A figure as predicted, with its 95 % interval, and as it was."""

    predicted: float
    low: float
    high: float
    of_log: float  # share of the interval's variance that comes from the size of the earlier part
    actual: float

    @property
    def held(self) -> bool:
        """Whether the interval holds what was, or ends within 1 % of it; as arrivals are known, some have no width."""
        slack = _SLACK * abs(self.actual)
        return self.low - slack <= self.actual <= self.high + slack

    def as_json(self) -> dict[str, float | bool]:
        """Return the JSON values."""
        return {**vars(self), "held": self.held}


@dataclass(frozen=True)
class Playing:
    """How much is played."""

    episodes: int
    resamples: int
    seed: int
    processes: int


def figures_of(scenario: Scenario, since: float, seeds: Sequence[int]) -> Figures:
    """Return the figures of episodes under the logged habits, as a log of them would show them after a moment."""
    parameters, sizes = build_parameters(scenario)
    record, rows = as_logged_record(parameters), []
    weeks = max((scenario.horizon.value - since) * HOUR / WEEK, 1e-9)
    for seed in seeds:
        played = play_logged(record, parameters, sizes, seed)
        shown, ended = logged_episode(played, since), played.state.completion_time[: played.state.arrived]
        rows.append([*_times(shown.cycles), *shown.shares, float((ended >= max(since, 0.0)).sum()) / weeks])
    return dict(zip(FIGURES, np.array(rows).T, strict=True))


def actual_of(log: EventLog, counted: np.ndarray, since: float) -> dict[str, float]:
    """Return the same figures of a log, of whose cases bool[cases] are counted."""
    log, _, _ = without_machines(log)
    first, last = log.case_times()
    weeks = max((float(last.max()) - since * HOUR) / WEEK, 1e-9)
    ended = float((last >= since * HOUR).sum()) / weeks
    values = [*_times(((last - first) / HOUR)[counted]), *logged_shares(log), ended]
    return dict(zip(FIGURES, values, strict=True))


def predict(parts: Parts, playing: Playing, say: Say) -> tuple[dict[str, Prediction], Prediction]:
    """Return the figures of the later part, and the change of the mean cycle time from the earlier part to it, in %.

    Raises:
        UserError: the later part needs people whom the earlier one does not have.
    """
    mined = mine_scenario(parts.before, name="earlier part").scenario
    ours = _Of(parts, playing, mined, there(parts.before), there(parts.after))
    own = ours.play(mined, 0)
    if own is None:
        raise UserError(f"{parts.before.source}: an activity of the later part has nobody from the earlier one.")
    resampled: list[Figures] = []
    if playing.resamples and not (reason := why_not(parts.before)):
        drawn_figures = run_resamples(partial(_resampled, ours), playing.resamples, playing.processes, say)
        resampled = [of for of in drawn_figures if of is not None]
    elif playing.resamples:
        say(f"The intervals cover only the sampling error of the episodes, not the size of the earlier part: {reason}.")
    if len(resampled) < FEWEST:
        resampled = []
    actual = actual_of(parts.after, parts.counted, parts.since)
    blocks = blocks_of(parts.before)
    found = {name: _predicted(own, resampled, name, actual[name], blocks) for name in FIGURES}
    first, last = parts.before.case_times()
    real = 100.0 * (actual["mean"] / (float((last - first).mean()) / HOUR) - 1.0)
    return found, _predicted(own, resampled, "change", real, blocks)


@dataclass(frozen=True)
class _Of:
    """What a model of the earlier part plays: the arrivals and the staff of both parts."""

    parts: Parts
    playing: Playing
    mined: Scenario  # from the earlier part
    earlier: Scenario
    later: Scenario

    def play(self, model: Scenario, number: int) -> Figures | None:
        """Return the figures of the later part, and the ratio of both mean cycle times; None if it cannot play."""
        seeds = range(1000 * number, 1000 * number + self.playing.episodes)
        try:
            later, earlier = staged(model, self.later), staged(model, self.earlier)
        except UserError:
            return None
        figures = figures_of(later, self.parts.since, seeds)
        means = figures_of(earlier, -math.inf, seeds)["mean"]
        return figures | {"change": figures["mean"] / np.maximum(means, 1e-9)}


def _resampled(ours: _Of, number: int) -> Figures | None:
    """Return the figures that a resample of the earlier part predicts."""
    log = drawn(ours.parts.before, ours.mined, ours.playing.seed, number)
    try:
        return ours.play(mine_scenario(log, name=f"resample {number}").scenario, number + 1)
    except UserError:
        return None


def _predicted(own: Figures, resampled: Sequence[Figures], name: str, actual: float, blocks: float) -> Prediction:
    """Return a figure with the interval of a single outcome, which has the sampling error of one episode.

    Times and numbers are compared by their logarithms, shares as they are.
    """
    is_share, is_change = name in SHARES, name == "change"

    def spread(figures: Figures, single: bool) -> Effect:
        values = figures[name] if is_share else np.log(np.maximum(figures[name], 1e-9))
        count = len(values)
        return Effect(float(values.mean()), float(values.var(ddof=1)) * (float(single) + 1.0 / count), count)

    error = log_error([spread(figures, False) for figures in resampled], blocks)
    found = interval(spread(own, True), error)
    ends = [found.value, max(found.low, 0.0), min(found.high, 1.0)]
    if not is_share:
        ends = [float(own[name].mean()), math.exp(found.low), math.exp(found.high)]
    if is_change:
        ends = [100.0 * (end - 1.0) for end in ends]
    return Prediction(predicted=ends[0], low=ends[1], high=ends[2], of_log=found.of_log, actual=actual)


def _times(hours: np.ndarray) -> tuple[float, float, float]:
    """Return mean, median and 90th percentile; of nothing, 0."""
    if not len(hours):
        return 0.0, 0.0, 0.0
    return float(hours.mean()), float(np.quantile(hours, 0.5)), float(np.quantile(hours, 0.9))
