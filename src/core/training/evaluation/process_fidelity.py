"""How near a scenario comes to the event log it was learned from, under the log's own allocation habits."""

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import ks_2samp, wasserstein_distance

from core.errors import UserError
from core.jit_cache.cache import cached
from core.rollout.episode_loop import build_heuristic_chooser, build_play
from core.seeding import stream
from core.simulators.process.event_logs.event_log import EventLog
from core.simulators.process.event_logs.working_hours import HOUR, worked_time
from core.simulators.process.metrics import time_on_duty
from core.simulators.process.routing import TASK, build_routing
from core.simulators.process.scenario import Scenario
from core.simulators.process.simulator import ProcessSimulator
from core.simulators.simulator import OK, describe_fault, new_state
from core.text import format_duration

HEURISTIC = "logged"

_WORTH_A_SENTENCE = 0.15
"""Relative difference from which a figure gets a sentence."""


class Compared(NamedTuple):
    """A figure of the log and of the simulation (the mean of its episodes)."""

    logged: float
    simulated: float


@dataclass(frozen=True)
class Fidelity:
    """Log beside simulation; times in hours.

    Attributes:
        log: the log's file.
        scenario: the scenario's name.
        episodes: how many episodes were simulated.
        seed: seed of their random streams.
        cases: cases that began.
        events: events; in the simulation, arrived cases times the routing's expected number of activities.
        mean_cycle_time: from first start to last end of a case; in the simulation from arrival, finished cases only.
        median_cycle_time: its median.
        p90_cycle_time: its 90th percentile.
        cycle_time_distance: Wasserstein distance of the two distributions of cycle times.
        cycle_time_ks: Kolmogorov-Smirnov distance of the same, 0 (equal) to 1.
        hours_a_case: work on a case; log: within its working hours, records of one resource at once share the time.
        hours_worked: all work; in the log, only that of the scenario's resources.
        utilisation: hours worked as a share of the hours on duty in the scenario.
        activities: events of each activity.
        resources: hours worked by each resource.
        open_cases: simulated cases that are open at the end.
        sentences: where the two differ, in words.
    """

    log: str
    scenario: str
    episodes: int
    seed: int
    cases: Compared
    events: Compared
    mean_cycle_time: Compared
    median_cycle_time: Compared
    p90_cycle_time: Compared
    cycle_time_distance: float
    cycle_time_ks: float
    hours_a_case: Compared
    hours_worked: Compared
    utilisation: Compared
    activities: dict[str, Compared]
    resources: dict[str, Compared]
    open_cases: float
    sentences: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values; a compared figure is {"logged": .., "simulated": ..}."""

        def plain(value: Any) -> Any:
            if isinstance(value, Compared):
                return value._asdict()
            if isinstance(value, dict):
                return {name: plain(entry) for name, entry in value.items()}
            return list(value) if isinstance(value, tuple) else value

        return {field.name: plain(getattr(self, field.name)) for field in fields(self)}


class _Episodes(NamedTuple):
    """What the episodes gave; times in hours."""

    episodes: int
    arrived: float
    open_cases: float
    cycle_times: np.ndarray
    busy: np.ndarray
    messages: list[str]


def fidelity_report(log: EventLog, scenario: Scenario, *, episodes: int = 5, seed: int = 0) -> Fidelity:
    """Simulate a scenario under the ``logged`` heuristic and set it beside the log.

    Args:
        log: the log that the scenario was learned from.
        scenario: the scenario, in a real time unit and with observations of its pairs.
        episodes: how many to simulate, at least 1.
        seed: seed of their random streams.

    Raises:
        UserError: the scenario has no real time unit or no observations.
    """
    simulator = ProcessSimulator(scenario)
    if scenario.time_unit == "abstract":
        raise UserError(f"{scenario.name} has an abstract time_unit; a comparison with a log needs hours, days, ...")
    if HEURISTIC not in simulator.heuristics:
        raise UserError(
            f"{scenario.name} has no observations in service, so the log's allocation habits are not known."
        )
    played = _play(simulator, episodes, seed)
    figures = _figures(log, simulator, played, seed)
    return replace(figures, sentences=(*played.messages, *_sentences(figures)))


def _figures(log: EventLog, simulator: ProcessSimulator, played: _Episodes, seed: int) -> Fidelity:
    scenario, work = simulator.scenario, worked_time(log).hours
    first, last = log.case_times()
    logged = (last - first) / HOUR
    simulated = played.cycle_times if len(played.cycle_times) else np.zeros(1)
    median, p90 = (Compared(float(np.quantile(logged, q)), float(np.quantile(simulated, q))) for q in (0.5, 0.9))
    activities = _compare_activities(log, scenario, played.arrived)
    resources = _compare_resources(log, work, scenario, played.busy)
    worked = _total(resources)
    on_duty = float(time_on_duty(simulator.parameters, scenario.horizon.value).sum()) / scenario.hour
    return Fidelity(
        log=log.source,
        scenario=scenario.name,
        episodes=played.episodes,
        seed=seed,
        cases=Compared(len(log.cases), played.arrived),
        events=_total(activities),
        mean_cycle_time=Compared(float(logged.mean()), float(simulated.mean())),
        median_cycle_time=median,
        p90_cycle_time=p90,
        cycle_time_distance=float(wasserstein_distance(logged, simulated)),
        cycle_time_ks=float(ks_2samp(logged, simulated).statistic),
        hours_a_case=Compared(float(work.sum()) / len(log.cases), float(played.busy.sum()) / max(played.arrived, 1.0)),
        hours_worked=worked,
        utilisation=Compared(worked.logged / on_duty, worked.simulated / on_duty),
        activities=activities,
        resources=resources,
        open_cases=played.open_cases,
    )


def _play(simulator: ProcessSimulator, episodes: int, seed: int) -> _Episodes:
    """Play episodes of the ``logged`` heuristic."""
    chooser = build_heuristic_chooser(simulator.action_space, simulator.heuristics[HEURISTIC])
    play = cached(build_play(simulator, chooser))
    states = new_state(simulator)
    hour = simulator.scenario.hour
    arrived, still_open, cycle_times = 0, 0, []
    messages: list[str] = []
    busy = np.zeros(len(simulator.scenario.resources))
    for episode in range(episodes):
        rng, policy_rng = stream(seed, "fidelity", episode), stream(seed, "fidelity policy", episode)
        steps, _, status = play(states, simulator.parameters, None, rng, policy_rng)
        if status != OK:
            raise describe_fault(status, simulator, str(episode), steps)
        state = states[0]
        finished = state.completion_time[: state.arrived] >= 0.0
        times = state.completion_time[: state.arrived] - state.arrival_time[: state.arrived]
        cycle_times.append(times[finished] / hour)
        arrived += int(state.arrived)
        still_open += int(state.open)
        busy += (state.busy_time + np.where(state.busy_pair >= 0, state.time - state.started, 0.0)) / hour
        message = simulator.message(state)
        messages += [message] if message and not messages else []
    mean_arrived, mean_open = arrived / episodes, still_open / episodes
    return _Episodes(episodes, mean_arrived, mean_open, np.concatenate(cycle_times), busy / episodes, messages)


def _compare_activities(log: EventLog, scenario: Scenario, arrived: float) -> dict[str, Compared]:
    routing = build_routing(scenario.flow, scenario.activities)
    task = np.array(routing.kind) == TASK
    visits = np.bincount(np.array(routing.target)[task], routing.expected_visits()[task], len(scenario.activities))
    logged = dict(zip(log.activities, np.bincount(log.activity, minlength=len(log.activities)), strict=True))
    return {
        name: Compared(float(logged.get(name, 0)), float(visits[a]) * arrived)
        for a, name in enumerate(scenario.activities)
    }


def _compare_resources(log: EventLog, work: np.ndarray, scenario: Scenario, busy: np.ndarray) -> dict[str, Compared]:
    named = log.resource >= 0
    hours = dict(zip(log.resources, np.bincount(log.resource[named], work[named], len(log.resources)), strict=True))
    return {name: Compared(float(hours.get(name, 0.0)), float(busy[r])) for r, name in enumerate(scenario.resources)}


def _total(compared: dict[str, Compared]) -> Compared:
    return Compared(sum(c.logged for c in compared.values()), sum(c.simulated for c in compared.values()))


def _differs(figure: Compared) -> bool:
    return abs(figure.simulated - figure.logged) > _WORTH_A_SENTENCE * max(abs(figure.logged), 1e-9)


def _sentences(f: Fidelity) -> list[str]:
    """Say where the two differ. Figures are facts; a cause is only ever offered as a possible one."""
    sentences = []
    if _differs(f.cases):
        sentences.append(f"The log has {f.cases.logged:,.0f} cases, an episode {f.cases.simulated:,.0f}.")
    cycle, work = f.mean_cycle_time, f.hours_a_case
    if _differs(cycle):
        lead = f"The log's mean cycle time is {_hours(cycle.logged)}, the simulation's {_hours(cycle.simulated)}"
        if cycle.simulated < cycle.logged:
            sentences.append(
                f"{lead}: in the log a case is worked on for {_hours(work.logged)}. The rest may be waiting for "
                "customers or others outside the log, or people busy with other work, which the "
                "scenario does not model."
            )
        else:
            sentences.append(
                f"{lead}. The scenario does the activities of a case one after another, by probabilities that look at "
                "the last activity only; a log in which they overlap can be faster."
            )
    if _differs(f.hours_worked):
        logged, simulated = f.hours_worked
        sentences.append(
            f"The scenario's people work {logged:,.0f} hours in the log and {simulated:,.0f} in the simulation; "
            "there they also do what the log leaves without a name."
        )
    if f.open_cases > 0.1 * f.cases.simulated:
        sentences.append(
            f"{f.open_cases:,.0f} of {f.cases.simulated:,.0f} simulated cases are open at the end, and their cycle "
            "times are not in these figures; the scenario's people may be too few for its arrivals."
        )
    return sentences


def _hours(hours: float) -> str:
    return format_duration(3600 * hours)


def _rows(f: Fidelity) -> list[tuple[str, str, str]]:
    rows = [(name, f"{c.logged:,.0f}", f"{c.simulated:,.0f}") for name, c in (("Cases", f.cases), ("Events", f.events))]
    rows += [(f"  {name}", f"{c.logged:,.0f}", f"{c.simulated:,.0f}") for name, c in f.activities.items()]
    times = {
        "Mean cycle time": f.mean_cycle_time,
        "Median cycle time": f.median_cycle_time,
        "90th percentile": f.p90_cycle_time,
        "Work on a case": f.hours_a_case,
    }
    rows += [(name, _hours(c.logged), _hours(c.simulated)) for name, c in times.items()]
    rows.append(("Hours worked", f"{f.hours_worked.logged:,.0f}", f"{f.hours_worked.simulated:,.0f}"))
    rows.append(("Utilisation", f"{f.utilisation.logged:.1%}", f"{f.utilisation.simulated:.1%}"))
    rows.append(("Distance of cycle times", "", f"{_hours(f.cycle_time_distance)} (KS {f.cycle_time_ks:.2f})"))
    return rows


def render_markdown(fidelity: Fidelity) -> str:
    """Return the report as Markdown."""
    rows = [("", "Log", f"Simulation (mean of {fidelity.episodes})"), ("---", "---:", "---:")]
    rows += [(name.strip().replace("|", "\\|"), logged, simulated) for name, logged, simulated in _rows(fidelity)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, "", *(f"* {sentence}" for sentence in fidelity.sentences)]).rstrip() + "\n"
