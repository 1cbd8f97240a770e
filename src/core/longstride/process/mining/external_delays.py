"""Mines the parts of a scenario that allocation cannot change: cases, external delays and rosters."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.mining.batches import Batches
from longstride.process.mining.case_flow import case_flow, choose_cases, events_of_tasks, in_classes
from longstride.process.mining.case_order import CaseOrder, order_cases
from longstride.process.mining.delays.calibration import MIN_CASES, DelayCalibration, LoggedTimes
from longstride.process.mining.delays.clock import delay_clock
from longstride.process.mining.delays.free_moments import FreeMoments, blend, is_noisy
from longstride.process.mining.delays.priorities import find_priorities
from longstride.process.mining.delays.queue_order import find_queue_order
from longstride.process.mining.delays.waits import Waits, find_waits, ready_times
from longstride.process.mining.mine_services import some
from longstride.process.mining.rosters import Rosters, mine_rosters
from longstride.process.mining.weights import case_weights
from longstride.process.mining.working_hours import HOUR, WorkedTime, open_time
from longstride.process.scenario_file import parse_scenario
from longstride.slow_steps import SlowSteps
from longstride.text import percent

_PAUSED = 1.25
"""Ratio of logged hours to logged open hours from which tasks rest outside of duty."""

_DIGITS = 6

_NO_WAITING = 1e-6
"""Open hours of waiting a case that only rounding makes differ from 0."""

EXTERNAL_STEPS = 5
"""Steps reported by :func:`mine_external_delays`."""


def mine_external_delays(
    log: EventLog,
    work: WorkedTime,
    batches: Batches,
    data: dict[str, Any],
    source: str,
    calibrate: bool,
    steps: SlowSteps,
) -> tuple[dict[str, Any], list[str]]:
    """Return the keys of a scenario about cases, delays and rosters, and notes.

    Args:
        log: event log.
        work: its working time; that of an event done in a batch is the whole batch's.
        batches: its batches, from which on tasks wait for people.
        data: the other keys of the scenario.
        source: name of the scenario in messages.
        calibrate: whether simulations calibrate the delays if the log has enough cases.
        steps: notified of each of the ``EXTERNAL_STEPS`` steps.
    """
    steps.next("order of the events of each case")
    cases, weights, pause = batches.ready(log, order_cases(log)), delay_clock(log), _pauses(log, work)
    steps.next("delays")
    waits, (of_case, cut_off) = find_waits(log, cases, weights, work.open_hours), case_weights(log, cases)
    kept = in_classes(log, choose_cases(log, cases, of_case))
    priorities, order, order_notes = _order_of_service(log, cases, data.get("case_values", {}).get("activities", ()))
    more = np.maximum(waits.span - work.hours[cases.order], 0.0)
    first, last = log.case_times()
    times = LoggedTimes(
        activity=log.activity[cases.order],
        least=waits.external,
        room=waits.waiting - waits.external + more,
        total=waits.waiting + waits.span,
        cycle=((last - first) / HOUR)[log.case[cases.order]],
    )
    steps.next("rosters")
    rosters = mine_rosters(log, work, pause, batches.begun(log), ready_times(log, cases))

    def keys(share: np.ndarray) -> dict[str, Any]:
        return {
            **order,
            "flow": case_flow(log, cases, kept, of_case, priorities, times.delays(share)),
            **rosters.of_scenario(data["resources"]),
            "at_end_of_duty": "pause" if pause else "finish",
            "delay_clock": [float(f"{w:.{_DIGITS}g}") for w in weights],
        }

    share, are_noisy = np.ones(len(log.activities)), np.zeros(len(log.activities), np.bool_)
    if calibrate and len(log.cases) >= MIN_CASES:
        steps.next("simulations that tell external delays from waiting for people")
        draft = parse_scenario(data | keys(share), source)
        calibration = DelayCalibration(draft, times, events_of_tasks(cases, kept), weights)
        share = calibration.fit(len(log.cases))
        steps.next("moments with a free person")
        if not log.only_dates:
            moments = FreeMoments(log, cases, weights, work.open_hours)
            share, are_noisy = _blended(moments, times, share, calibration.sampling_error(share, len(log.cases)))
    found = keys(share) | {"waiting": _waiting(log, waits, times, share)}
    notes = _notes(log, waits, times, share) + _duty_notes(rosters, data["resources"], pause)
    return found, cut_off + order_notes + notes + _noise_notes([log.activities[a] for a in np.flatnonzero(are_noisy)])


def _order_of_service(
    log: EventLog, cases: CaseOrder, by_column: Sequence[str]
) -> tuple[np.ndarray, dict[str, str], list[str]]:
    """Return int64[cases], the priorities of cases, the keys of a scenario about the order by age, and notes.

    ``by_column`` are the activities that have the order of a column, which leaves no priorities.
    """
    priorities, notes = np.zeros(len(log.cases), np.int64), list[str]()
    if log.column is None:
        priorities, notes = find_priorities(log, cases)
    order, more = find_queue_order(log, cases, priorities, by_column)
    return priorities, order, notes + more


def _blended(
    moments: FreeMoments, times: LoggedTimes, share: np.ndarray, error: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return shares that use free moments for noisy activities, float64[A], and bool[A], the changed activities.

    ``error``, float64[A], is the sampling error of the activities' delays, in open hours.
    """
    least, room = (np.bincount(times.activity, hours, len(share)) for hours in (times.least, times.room))
    noisy = is_noisy(error, least, room)
    found = [moments.total_delay(a) if noisy[a] else None for a in range(len(share))]
    return blend(share, error, least, room, found)


def _noise_notes(activities: list[str]) -> list[str]:
    """Return a sentence about activities with noisy delays, if there are any."""
    if not activities:
        return []
    some = ", ".join(activities[:5]) + (f" and {len(activities) - 5} more" if len(activities) > 5 else "")
    return [
        f"How long cases queue for {some} depends on chance in a log of this length, because people are nearly always "
        "busy or events are few. So their delays are also estimated from the moments in which a person was free."
    ]


def _pauses(log: EventLog, work: WorkedTime) -> bool:
    """Return whether logged events span much more than open hours, so that tasks rest when people leave.

    In a log without hours they always rest, because no overtime is known.
    """
    if log.only_dates:
        return True
    stretches = log.stretches()
    logged = float((stretches.end - stretches.start).sum()) / HOUR
    opened = open_time(work.open_hours, stretches.clock_end) - open_time(work.open_hours, stretches.clock_start)
    return logged > _PAUSED * float(opened.sum())


def _waiting(log: EventLog, waits: Waits, times: LoggedTimes, share: np.ndarray) -> dict[str, float]:
    first, last = log.case_times()
    cases = len(log.cases)
    figures = {
        "cycle": float((last - first).mean()) / HOUR,
        "waiting": float(waits.waiting.sum()) / cases,
        "world_at_least": float(waits.external.sum()) / cases,
        "world": float(times.delays(share).sum()) / cases,
    }
    return {name: float(f"{value:.{_DIGITS}g}") for name, value in figures.items()}


def _notes(log: EventLog, waits: Waits, times: LoggedTimes, share: np.ndarray) -> list[str]:
    waiting, proven = float(waits.waiting.sum()), float(waits.external.sum())
    # The delays also contain time of simultaneous records beyond their work, which is no waiting.
    unexplained = min(max(float(times.delays(share).sum()) - proven, 0.0), waiting - proven)
    return [
        f"Waiting: {waiting / len(log.cases):,.3g} open hours a case. For {percent(proven, waiting)} of it the "
        "person was free and on duty, so the delay is external: customers, other systems, other work. "
        f"{percent(unexplained, waiting)} is unexplained and counted as external."
        if waiting > _NO_WAITING * len(log.cases)
        else "Waiting: none. Each task begins as soon as its case and its person allow."
    ]


def _duty_notes(rosters: Rosters, names: list[str], pause: bool) -> list[str]:
    notes = [
        "Rosters: each resource has the days of the log, as often as they occur there, with all hours at which it "
        "is usually seen on the weekday."
    ]
    if in_turn := [name for name in rosters.in_turn if name in names]:
        notes.append(
            f"Changing shifts, early on some days and late on others: {some(in_turn)}. On each day they have the hours "
            "of one shift."
        )
    if rotas := [name for name in rosters.rotas if name in names]:
        weeks = sorted({rosters.rotas[name] for name in rotas})
        notes.append(
            f"Rota: the hours of {some(rotas)} repeat after {' or '.join(map(str, weeks))} weeks, so each week of the "
            "rota has its own."
        )
    if away := [name for name in rosters.absences if name in names]:
        notes.append(
            f"Long absences: {some(away)}. Weeks without a record, such as before being hired or after leaving, are "
            "absences in the scenario. An episode has them too, as long as they are not edited."
        )
    if pause:
        notes.append("Logged times span nights and weekends, so tasks rest while their resource is off duty.")
    return notes
