"""Compares the simulated base of a mined scenario, under the logged habits, with the figures of its log.

Where they differ much, a change of the scenario tells nothing about the process.
"""

import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.grouping import rows_by
from longstride.process.fidelity.external_share import format_time
from longstride.process.fidelity.log_distances import HOUR, Events
from longstride.process.fidelity.verdict import Shares, logged_shares
from longstride.process.kernel.metrics import duty_so_far
from longstride.process.mining.delays.play_logged import PlayedEvents, as_logged_record, play_logged
from longstride.process.mining.machines import without_machines
from longstride.process.mining.mine_services import some
from longstride.process.mining.rosters import several_after_duty
from longstride.process.mining.working_hours import worked_time
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario.schema import Logged
from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream

NOT_JUDGED = "No verdict: the simulation does not repeat the log well enough."
NO_FIGURES = (
    "This scenario was mined, but has no figures of a log, as a changed one: its simulation is compared with no log."
)

_NAMES, _LEVELS = ("mean", "median", "p90"), {"median": 0.5, "p90": 0.9}
_OF_CASES = 1 / 3
"""Share of cases, as a multiple of the tolerance, by which a quantile may be off before it counts as missed.

Where nights and weekends separate cases, quantiles jump by hours from log to log: of the same process, the p90 was 29,
40 and 65 hours in three logs of 2,000 cases, but lay between their 88 and 92 % quantiles.
"""

_AT_ONCE = re.compile(r"several records open at once, on average: (.+)\. Such a name")
"""Finds in a warning of ``data_warnings`` who has several records open at once."""

_LATE = 0.03
"""Time with several open records after duty, as a share of duty, from which a change of the load is not trusted."""

_EPISODES = 5
_OVERLOADED = 0.9
"""Utilisation above which the length of queues depends on small errors of the times and hours on duty."""


def logged_figures(log: EventLog, scenario: Scenario, warnings: list[str]) -> Logged:
    """Return the figures of a log in the unit of the scenario mined from it."""
    log, _, _ = without_machines(log)
    first, last = log.case_times()
    mean, median, p90 = _times((last - first) / HOUR * scenario.hour)
    shares = {name: min(max(value, 0.0), 1.0) for name, value in logged_shares(log)._asdict().items()}
    doubts = _doubts(log, scenario)
    return Logged(mean=mean, median=median, p90=p90, **shares, warnings=warnings, doubts=doubts)


def _doubts(log: EventLog, scenario: Scenario) -> list[str]:
    """Return why changes of a scenario are not trusted even if its base agrees with the log."""
    if scenario.at_end_of_duty == "pause":
        return []
    work, own = log.stretches(), worked_time(log)
    late = [
        name
        for r, (name, mine) in enumerate(zip(log.resources, rows_by(work.resource, len(log.resources)), strict=True))
        if own.at_once[r] == 1
        and len(mine)
        and several_after_duty(work.clock_start[mine], work.clock_end[mine], own.own_hours[r]) > _LATE
    ]
    if not late:
        return []
    return [
        f"{some(late)} shared the time between several open tasks and finished them after hours, so more was done on "
        "busy days, which the simulation does not repeat"
    ]


@dataclass(frozen=True)
class Base:
    """A scenario's log and its simulation; times in the scenario's unit, shares of the cycle time."""

    scenario: Scenario
    logged: Logged
    cycles: np.ndarray  # float64[cases], cycle times of the simulated cases
    shares: Shares  # of the simulated cycle time
    utilisation: float  # of the people with the most work: the highest of any person

    @property
    def times(self) -> tuple[float, float, float]:
        """Mean, median and 90th percentile of the simulated cycle times."""
        return _times(self.cycles)

    @property
    def misses(self) -> list[str]:
        """Why no verdict is given: figures that differ, and doubts about what the scenario repeats."""
        return [*self._missed, *self.logged.doubts]

    @property
    def _missed(self) -> list[str]:
        """Figures whose difference forbids a verdict, with the difference, such as ``mean +462 %``."""
        tolerance = self.logged.tolerance
        found = [f"{name} {difference:+,.0f} %" for name, difference in self._differing if self._counts(name)]
        # Unexplained waiting of a log may be external, so a larger external share contradicts nothing.
        work, people = self.shares.work - self.logged.work, self.shares.people - self.logged.people
        external = min(self.shares.external - self.logged.external, 0.0)
        for name, points in (("work", work), ("people", max(people, 0.0)), ("external", external)):
            if abs(points) > tolerance:
                found.append(f"{name} {100.0 * points:+.0f} points")
        return found

    @property
    def _differing(self) -> list[tuple[str, float]]:
        """Mean, median and 90th percentile that differ by more than the tolerance, with the difference in per cent."""
        logged = self.logged.mean, self.logged.median, self.logged.p90
        return [
            (name, 100.0 * (simulated / max(log, 1e-9) - 1.0))
            for name, simulated, log in zip(_NAMES, self.times, logged, strict=True)
            if abs(simulated - log) > self.logged.tolerance * max(log, 1e-9)
        ]

    def _counts(self, name: str) -> bool:
        """Return whether a difference of a time counts: of a quantile, if its share of cases differs as well."""
        level, allowed = _LEVELS.get(name), _OF_CASES * self.logged.tolerance
        if level is None or not len(self.cycles):
            return True
        low, high = np.quantile(self.cycles, np.clip([level - allowed, level + allowed], 0.0, 1.0))
        return not low <= getattr(self.logged, name) <= high

    @property
    def sentences(self) -> list[str]:
        """The comparison, and where it fails that no verdict is given, with the likely cause."""
        pairs = zip(_NAMES, self.times, strict=True)
        times = ", ".join(
            f"{name} {format_time(simulated, self.scenario)} against "
            f"{format_time(getattr(self.logged, name), self.scenario)}"
            for name, simulated in pairs
        )
        logged = Shares(self.logged.work, self.logged.people, self.logged.external)
        lines = [
            f"Simulated base against the log, cycle time under the logged habits: {times}; work / people / external "
            f"{_shown(self.shares)} against {_shown(logged)}."
        ]
        missed, doubts = self._missed, "; ".join(self.logged.doubts)
        if missed:
            lines.append(
                f"The base misses the log by more than {self.logged.tolerance:.0%} ({', '.join(missed)}), so no "
                f"verdict and no advice is given (LOG_TOLERANCE). Likely cause: {self._cause}."
            )
        if doubts:
            beside = "Besides" if missed else "The base agrees, but no verdict and no advice is given"
            lines.append(f"{beside}: {doubts}.")
        return lines

    @property
    def _cause(self) -> str:
        """The likeliest reason for a miss."""
        slower = self.times[0] > self.logged.mean
        if self.shares.people - self.logged.people > self.logged.tolerance or (
            slower and self.utilisation > _OVERLOADED
        ):
            return (
                f"people are too busy in the simulation (up to {self.utilisation:.0%} of their time on duty), because "
                "their hours on duty are mined too short or their service times too long, for example because tasks "
                "rest overnight"
            )
        if abs(self.shares.work - self.logged.work) > self.logged.tolerance and not self._at_once:
            return "service times are mined wrong, for example because tasks rest overnight or several are done at once"
        if slower:
            return "external delays are mined too long"
        if self._at_once:
            return (
                "work is done in batches, or several tasks at once, and the simulation does one after the other "
                f"(records open at once, on average: {self._at_once})"
            )
        return "the log has waiting that the simulation lacks, such as batches, priorities or people who were away"

    @property
    def _at_once(self) -> str:
        """The people with several records open at once, by the warning about them; empty if there is none."""
        found = [_AT_ONCE.search(warning) for warning in self.logged.warnings]
        return next((match[1] for match in found if match), "")

    def as_json(self) -> dict[str, Any]:
        """Return the JSON values."""
        simulated = dict(zip(_NAMES, self.times, strict=True)) | self.shares._asdict()
        logged = self.logged.model_dump(exclude={"warnings", "doubts"})
        return {"logged": logged, "simulated": simulated, "misses": self.misses}


def base_sentences(base: Base | None, scenario: Scenario) -> list[str]:
    """Return how the base compares with the log; of a mined scenario without figures of a log, that it has none."""
    if base is not None:
        return base.sentences
    return [NO_FIGURES] if scenario.waiting is not None else []


def compare_base(simulator: ProcessSimulator, seed: int = 0) -> Base | None:
    """Simulate a mined scenario under the logged habits; None for one without figures of a log."""
    scenario, parameters = simulator.scenario, simulator.arrays
    if scenario.logged is None:
        return None
    record = as_logged_record(parameters)
    cycles, shares, utilisation = [], [], []
    for episode in range(_EPISODES):
        played = play_logged(record, parameters, simulator.sizes, int(stream(seed, "base", episode).integers(2**31)))
        state = played.state
        cycle, share = logged_episode(played)
        cycles.append(cycle)
        shares.append(share)
        working = np.where(state.busy_pair >= 0, np.minimum(state.time - state.started, state.work), 0.0)
        utilisation.append((state.busy_time + working) / np.maximum(duty_so_far(state, parameters), 1e-9))
    busiest = min(float(np.mean(utilisation, 0).max()), 1.0)
    return Base(scenario, scenario.logged, np.concatenate(cycles), Shares(*map(float, np.mean(shares, 0))), busiest)


class LoggedEpisode(NamedTuple):
    """What a log of an episode would show."""

    cycles: np.ndarray  # float64[cases], first start to last end, of the events that ended
    shares: Shares


def logged_episode(played: PlayedEvents, since: float = -math.inf) -> LoggedEpisode:
    """Return what a log of an episode would show; waiting before the first start of a case is in none.

    The cycle times are those of the cases that start from ``since`` on, the shares those of the whole episode.
    """
    state = played.state
    done = played.end <= state.time
    events = Events(*(column[done] for column in (played.case, played.node, played.start, played.end)))
    if not done.any():
        return LoggedEpisode(np.zeros(0), Shares(0.0, 0.0, 0.0))
    first, last = events.first_and_last()
    cases = np.unique(events.case)
    ends = np.where(state.completion_time >= 0.0, state.completion_time, state.time)[cases]
    total = max(float((ends - first).sum()), 1e-12)
    external, work = (min(float(t) / total, 1.0) for t in (state.resting_time, state.serving_time))
    return LoggedEpisode((last - first)[first >= since], Shares(work, max(1.0 - external - work, 0.0), external))


def _times(cycles: np.ndarray) -> tuple[float, float, float]:
    if not len(cycles):
        return 0.0, 0.0, 0.0
    return float(cycles.mean()), float(np.quantile(cycles, 0.5)), float(np.quantile(cycles, 0.9))


def _shown(shares: Shares) -> str:
    return " / ".join(f"{100.0 * share:.0f}" for share in shares) + " %"
