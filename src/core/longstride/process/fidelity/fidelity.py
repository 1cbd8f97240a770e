"""Compares an event log with its mined scenario, under the log's own allocation habits."""

from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import ks_2samp, wasserstein_distance

from longstride.errors import UserError
from longstride.escaping import markdown_text
from longstride.process.event_logs.event_log import EventLog
from longstride.process.fidelity.log_distances import Events
from longstride.process.fidelity.verdict import (
    Shares,
    differing_activities,
    hours_by_activity,
    logged_shares,
    verdict,
)
from longstride.process.kernel.metrics import duty_so_far
from longstride.process.mining.delays.play_logged import as_logged_record, play_logged
from longstride.process.mining.machines import without_machines
from longstride.process.mining.working_hours import HOUR, worked_time
from longstride.process.scenario.scenario import Scenario
from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream
from longstride.text import format_duration

HEURISTIC = "logged"

_NOTABLE = 0.15
"""Relative difference from which a figure gets a sentence."""


@dataclass(frozen=True)
class Compared:
    """A figure of the log and of the simulation (the mean of its episodes)."""

    logged: float
    simulated: float


@dataclass(frozen=True)
class Fidelity:
    """Log compared with simulation; times in hours."""

    log: str  # file of the log
    scenario: str  # name of the scenario
    episodes: int  # number of simulated episodes
    seed: int  # seed of their random streams
    cases: Compared  # cases that began
    events: Compared  # events; in the simulation, arrived cases times the routing's expected number of activities
    # time from first start to last end of a case; in the simulation from arrival, of finished cases
    mean_cycle_time: Compared
    median_cycle_time: Compared  # median of the same
    p90_cycle_time: Compared  # 90th percentile of the same
    cycle_time_distance: float  # Wasserstein distance of the two distributions of cycle times
    cycle_time_ks: float  # Kolmogorov-Smirnov distance of the same, 0 (equal) to 1
    # work of people on a case; in the log within its working hours, shared by simultaneous records of a resource
    hours_a_case: Compared
    hours_worked: Compared  # all work; in the log, only that of the scenario's resources
    utilisation: Compared  # hours worked as a share of the hours on duty in the scenario
    activities: dict[str, Compared]  # events of each activity
    resources: dict[str, Compared]  # hours worked by each resource
    open_cases: float  # simulated cases that are open at the end
    sentences: tuple[str, ...] = ()  # differences of the two, as sentences


class _Episodes(NamedTuple):
    """Means of the simulated episodes, and all of their cycle times, float64[finished cases]; times in hours."""

    arrived: float
    open_cases: float
    cycle_times: np.ndarray
    busy: np.ndarray
    message: str | None
    on_duty: float
    shares: Shares
    by_activity: np.ndarray  # float64[A], hours a case of each activity and the wait before it


def fidelity_report(log: EventLog, simulator: ProcessSimulator, *, episodes: int = 5, seed: int = 0) -> Fidelity:
    """Simulate a process under the ``logged`` heuristic and compare it with the log from which it was mined.

    Raises:
        UserError: the scenario has no real time unit or no observations.
    """
    scenario = simulator.scenario
    if scenario.time_unit == "abstract":
        raise UserError(f"{scenario.name} has an abstract time_unit; a comparison with a log needs hours, days, ...")
    if HEURISTIC not in simulator.heuristics:
        raise UserError(
            f"{scenario.name} has no observations in service, so the log's allocation habits are not known."
        )
    log, _, _ = without_machines(log)
    played, work = _play(simulator, episodes, seed), worked_time(log).hours
    automatic = {delay.activity for delay in scenario.automatic}
    by_people = np.array([name not in automatic for name in log.activities])[log.activity]
    first, last = log.case_times()
    logged = (last - first) / HOUR
    simulated = played.cycle_times if len(played.cycle_times) else np.zeros(1)
    median, p90 = (Compared(float(np.quantile(logged, q)), float(np.quantile(simulated, q))) for q in (0.5, 0.9))
    activities = _compare_activities(log, simulator, played.arrived)
    resources = _compare_resources(log, work, scenario, played.busy)
    worked = _total(resources)
    figures = Fidelity(
        log=log.source,
        scenario=scenario.name,
        episodes=episodes,
        seed=seed,
        cases=Compared(len(log.cases), played.arrived),
        events=_total(activities),
        mean_cycle_time=Compared(float(logged.mean()), float(simulated.mean())),
        median_cycle_time=median,
        p90_cycle_time=p90,
        cycle_time_distance=float(wasserstein_distance(logged, simulated)),
        cycle_time_ks=float(ks_2samp(logged, simulated).statistic),
        hours_a_case=Compared(
            float(work[by_people].sum()) / len(log.cases), float(played.busy.sum()) / max(played.arrived, 1.0)
        ),
        hours_worked=worked,
        utilisation=Compared(worked.logged / played.on_duty, worked.simulated / played.on_duty),
        activities=activities,
        resources=resources,
        open_cases=played.open_cases,
    )
    shares = [] if not scenario.has_delays else _verdict(log, scenario, played, figures)
    return replace(figures, sentences=(*filter(None, [played.message]), *shares, *_sentences(figures)))


def _verdict(log: EventLog, scenario: Scenario, played: _Episodes, figures: Fidelity) -> list[str]:
    """Return sentences about the shares of the cycle time, and about activities that differ."""
    cycle = figures.mean_cycle_time.simulated * scenario.hour
    sentences = verdict(logged_shares(log), played.shares, scenario, cycle)
    number = np.array([scenario.activities.index(name) for name in log.activities])
    logged = hours_by_activity(Events(log.case, number[log.activity], log.start, log.end), len(scenario.activities))
    mean = figures.mean_cycle_time.logged
    differing = differing_activities(logged, played.by_activity, scenario.activities, mean)
    return [*sentences, *filter(None, [differing])]


def _play(simulator: ProcessSimulator, episodes: int, seed: int) -> _Episodes:
    """Play episodes under the logged habits."""
    hour, parameters = simulator.scenario.hour, simulator.arrays
    record = as_logged_record(parameters)
    arrived, still_open, busy, cycle_times, messages, on_duty = [], [], [], [], [], []
    shares, by_activity = [], []
    for episode in range(episodes):
        seed_of_episode = int(stream(seed, "fidelity", episode).integers(2**31))
        played = play_logged(record, parameters, simulator.sizes, seed_of_episode)
        state = played.state
        completed, began = state.completion_time[: state.arrived], state.arrival_time[: state.arrived]
        cycle_times.append((completed - began)[completed >= 0.0] / hour)
        arrived.append(int(state.arrived))
        still_open.append(int(state.open))
        working = np.where(state.busy_pair >= 0, np.minimum(state.time - state.started, state.work), 0.0)
        busy.append((state.busy_time + working) / hour)
        messages.append(simulator.message(state))
        on_duty.append(float(duty_so_far(state, simulator.parameters).sum()) / hour)
        shares.append(_shares(state))
        done = played.end <= state.time
        columns = played.case, parameters.node_target[played.node], played.start * HOUR / hour, played.end * HOUR / hour
        events = Events(*(column[done] for column in columns))
        by_activity.append(hours_by_activity(events, len(simulator.scenario.activities)) if done.any() else 0.0)
    message = next(filter(None, messages), None)
    return _Episodes(
        fmean(arrived),
        fmean(still_open),
        np.concatenate(cycle_times),
        sum(busy) / episodes,
        message,
        max(fmean(on_duty), 1e-9),
        Shares(*np.mean(shares, 0)),
        np.asarray(sum(by_activity) / episodes),
    )


def _shares(state: Any) -> Shares:
    """Return the shares of an episode's cycle times."""
    completed, began = state.completion_time[: state.arrived], state.arrival_time[: state.arrived]
    total = max(float((np.where(completed >= 0.0, completed, state.time) - began).sum()), 1e-12)
    external, work = float(state.resting_time) / total, float(state.serving_time) / total
    return Shares(work, max(1.0 - external - work, 0.0), external)


def _compare_activities(log: EventLog, simulator: ProcessSimulator, arrived: float) -> dict[str, Compared]:
    names = simulator.scenario.activities
    visits = simulator.routing.visits_by_activity(len(names))
    logged = dict(zip(log.activities, np.bincount(log.activity, minlength=len(log.activities)), strict=True))
    return {name: Compared(float(logged.get(name, 0)), float(visits[a]) * arrived) for a, name in enumerate(names)}


def _compare_resources(log: EventLog, work: np.ndarray, scenario: Scenario, busy: np.ndarray) -> dict[str, Compared]:
    named = log.resource >= 0
    hours = dict(zip(log.resources, np.bincount(log.resource[named], work[named], len(log.resources)), strict=True))
    return {name: Compared(float(hours.get(name, 0.0)), float(busy[r])) for r, name in enumerate(scenario.resources)}


def _total(compared: dict[str, Compared]) -> Compared:
    return Compared(sum(c.logged for c in compared.values()), sum(c.simulated for c in compared.values()))


def _differs(figure: Compared) -> bool:
    return abs(figure.simulated - figure.logged) > _NOTABLE * max(abs(figure.logged), 1e-9)


def _sentences(f: Fidelity) -> list[str]:
    """Return sentences about differences of the two. Figures are facts; causes are named as possible only."""
    sentences = []
    if _differs(f.cases):
        sentences.append(f"The log has {f.cases.logged:,.0f} cases, an episode {f.cases.simulated:,.0f}.")
    cycle, work = f.mean_cycle_time, f.hours_a_case
    if _differs(cycle):
        lead = f"The log's mean cycle time is {_hours(cycle.logged)}, the simulation's {_hours(cycle.simulated)}"
        if cycle.simulated < cycle.logged:
            sentences.append(
                f"{lead}: in the log a case is worked on for {_hours(work.logged)}. Cases may be waiting longer in the "
                "log by chance, and long ones that are open at the end of an episode are not in its mean."
            )
        else:
            sentences.append(
                f"{lead}. If people are nearly always busy, the length of queues depends on chance, and the log may "
                "have had shorter ones than usual; people may also be there when their records do not show it."
            )
    if _differs(f.hours_worked):
        sentences.append(
            f"The scenario's people work {f.hours_worked.logged:,.0f} hours in the log and "
            f"{f.hours_worked.simulated:,.0f} in the simulation; there they also do the events without a name."
        )
    if f.open_cases > 0.1 * f.cases.simulated:
        sentences.append(
            f"{f.open_cases:,.0f} of {f.cases.simulated:,.0f} simulated cases are open at the end, and their cycle "
            "times are not in these figures; the scenario's people may be too few for its arrivals."
        )
    return sentences


def _hours(hours: float) -> str:
    return format_duration(3600 * hours)


def render_markdown(f: Fidelity) -> str:
    """Return the report as Markdown."""
    counts = {"Cases": f.cases, "Events": f.events, **f.activities}
    times = {
        "Mean cycle time": f.mean_cycle_time,
        "Median cycle time": f.median_cycle_time,
        "90th percentile": f.p90_cycle_time,
        "Work on a case": f.hours_a_case,
    }
    rows = [("", "Log", f"Simulation (mean of {f.episodes})"), ("---", "---:", "---:")]
    rows += [(markdown_text(name), f"{c.logged:,.0f}", f"{c.simulated:,.0f}") for name, c in counts.items()]
    rows += [(name, _hours(c.logged), _hours(c.simulated)) for name, c in times.items()]
    rows += [
        ("Hours worked", f"{f.hours_worked.logged:,.0f}", f"{f.hours_worked.simulated:,.0f}"),
        ("Utilisation", f"{f.utilisation.logged:.1%}", f"{f.utilisation.simulated:.1%}"),
        ("Distance of cycle times", "", f"{_hours(f.cycle_time_distance)} (KS {f.cycle_time_ks:.2f})"),
    ]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", *(f"* {markdown_text(sentence)}" for sentence in f.sentences)]).rstrip() + "\n"
