"""Tables about people: time at work as a share of time on duty, by hour and by activity."""

from collections.abc import Mapping

import numpy as np

from longstride.process.report.trace import Trace
from longstride.process.simulator import ProcessSimulator
from longstride.report.page import Cell, Table

_DAY = 24


def hours_of_day(resource: np.ndarray, start: np.ndarray, end: np.ndarray, people: int) -> np.ndarray:
    """Return float64[people, 24], the hours of stretches of time in each hour of the day.

    Args:
        resource: int64[n], person of each stretch.
        start: float64[n], begin of each stretch in hours since a midnight.
        end: float64[n], its end.
        people: number of people.
    """
    total = np.zeros((people, _DAY))
    for hour in range(_DAY):
        np.add.at(total[:, hour], resource, _until(end, hour) - _until(start, hour))
    return total


def _until(time: np.ndarray, hour: int) -> np.ndarray:
    """Return the hours, from time 0 to some times, that lie in one hour of the day."""
    days, rest = np.divmod(time, _DAY)
    return np.asarray(days + np.clip(rest - hour, 0.0, 1.0))


def utilisation_by_hour(simulator: ProcessSimulator, trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Return hours at work and hours on duty, float64[people, 24] each, by hour of the day."""
    hour, people = simulator.scenario.hour, len(simulator.scenario.resources)
    work, shifts = trace.work, trace.on_duty
    at_work = hours_of_day(work["resource"], work["start"] / hour, work["end"] / hour, people)
    return at_work, hours_of_day(shifts["resource"], shifts["start"] / hour, shifts["end"] / hour, people)


def work_by_activity(simulator: ProcessSimulator, trace: Trace) -> np.ndarray:
    """Return float64[people, activities], time at work on each activity as a share of the person's time on duty."""
    scenario, work = simulator.scenario, trace.work
    spent = np.zeros((len(scenario.resources), len(scenario.activities)))
    np.add.at(spent, (work["resource"], work["activity"]), work["end"] - work["start"])
    return np.asarray(spent / np.maximum(time_on_duty(trace, len(scenario.resources)), 1e-9)[:, None])


def time_on_duty(trace: Trace, people: int) -> np.ndarray:
    """Return float64[people], the time on duty of each person."""
    shifts = trace.on_duty
    return np.asarray(np.bincount(shifts["resource"], shifts["end"] - shifts["start"], people))


def hours_table(simulator: ProcessSimulator, traces: Mapping[str, Trace]) -> Table:
    """Return the utilisation by person and hour of the day under the first policy, and of each person under all."""
    people, policies = simulator.scenario.resources, list(traces)
    whole = {name: work_by_activity(simulator, trace).sum(axis=1) for name, trace in traces.items()}
    trained = traces[policies[0]]
    title, caption = "Utilisation by person", "Time at work as a share of time on duty."
    hours: list[int] = []
    work = on_duty = np.zeros((len(people), _DAY))
    if simulator.scenario.time_unit != "abstract":
        work, on_duty = utilisation_by_hour(simulator, trained)
        hours = [h for h in range(_DAY) if on_duty[:, h].any()]
        title = "Utilisation by person and hour of the day, %"
        caption = (
            f"Time at work as a share of time on duty: by the hour under {policies[0]}, and over the whole episode "
            "under each policy."
        )
        if simulator.scenario.at_end_of_duty == "finish":
            caption += " More than 100 % is work that was finished after the end of a shift."
    rows = []
    for r, person in enumerate(people):
        shares = [work[r, h] / on_duty[r, h] if on_duty[r, h] > 1e-9 else None for h in hours]
        cells = [Cell("") if s is None else Cell(f"{100 * s:.0f}", heat=min(s, 1.0)) for s in shares]
        rows.append(
            [Cell(person), *(Cell(f"{100 * of[r]:.0f}", heat=min(of[r], 1.0)) for of in whole.values()), *cells]
        )
    team = [_team(simulator, trace) for trace in traces.values()]
    there = on_duty > 1e-9  # an hour's team is the people on duty then; people who work late have no cell either
    last = [work[there[:, h], h].sum() / on_duty[:, h].sum() for h in hours]
    shown = [Cell(f"{100 * share:.0f}", heat=min(share, 1.0)) for share in (*team, *last)]
    rows.append([Cell("all together"), *shown])
    return Table(title, ["person", *policies, *(f"{h}h" for h in hours)], rows, caption)


def _team(simulator: ProcessSimulator, trace: Trace) -> float:
    """Return time at work of all people as a share of their time on duty."""
    on_duty = time_on_duty(trace, len(simulator.scenario.resources))
    return float((trace.work["end"] - trace.work["start"]).sum() / max(on_duty.sum(), 1e-9))


def work_table(simulator: ProcessSimulator, traces: Mapping[str, Trace]) -> Table:
    """Return the table of people's work by activity under the first policy, with the difference to the second."""
    scenario, policies = simulator.scenario, list(traces)
    shares = work_by_activity(simulator, traces[policies[0]])
    others = work_by_activity(simulator, traces[policies[1]]) if len(policies) > 1 else shares
    able = {(entry.resource, entry.activity) for entry in scenario.service}
    most = max(float(shares.max()), 1e-9)
    rows = [
        [
            Cell(person),
            *(
                _work_cell(shares[r, a], others[r, a], most) if (person, activity) in able else Cell("")
                for a, activity in enumerate(scenario.activities)
            ),
        ]
        for r, person in enumerate(scenario.resources)
    ]
    against = f"; below it the difference to {policies[1]} in points" if len(policies) > 1 else ""
    caption = (
        f"Share of each person's time on duty that goes to an activity, in per cent{against}. Empty: cannot do it."
    )
    return Table(f"Who does what under {policies[0]}", ["person", *scenario.activities], rows, caption)


def _work_cell(share: float, other: float, most: float) -> Cell:
    change = 100.0 * (share - other)
    return Cell(f"{100 * share:.1f}", heat=share / most, note="0" if abs(change) < 0.05 else f"{change:+.1f}")
