"""The part of a scenario that no allocation can change, learned from a log: cases, delays and rosters."""

from typing import Any

import numpy as np

from longstride.process.event_logs.event_log import EventLog
from longstride.process.mining.case_flow import case_flow, choose_cases, events_of_tasks
from longstride.process.mining.case_order import order_cases
from longstride.process.mining.delays.clock import delay_clock
from longstride.process.mining.delays.closure import MIN_CASES, LoggedTimes, Rehearsal
from longstride.process.mining.delays.free_moments import FreeMoments, is_luck, settle_luck
from longstride.process.mining.delays.waits import Waits, find_waits
from longstride.process.mining.rosters import mine_rosters
from longstride.process.mining.weights import case_weights
from longstride.process.mining.working_hours import HOUR, WorkedTime, open_time
from longstride.process.scenario_file import parse_scenario
from longstride.slow_steps import SlowSteps

_PAUSED = 1.25
"""Logged hours over those within open hours, from which tasks rest outside of them."""

_DIGITS = 6

WORLD_STEPS = 5
"""Steps that are told apart here."""


def mine_world(
    log: EventLog, work: WorkedTime, data: dict[str, Any], source: str, close: bool, steps: SlowSteps
) -> tuple[dict[str, Any], list[str]]:
    """Return the keys of a scenario about cases, delays and rosters, and notes.

    Args:
        log: event log.
        work: its working time.
        data: the other keys of the scenario.
        source: name of the scenario in messages.
        close: whether simulations decide what the log leaves open, where it has enough cases.
        steps: hears of each of the ``WORLD_STEPS`` steps.
    """
    steps.next("order of the events of each case")
    cases, weights = order_cases(log), delay_clock(log)
    steps.next("delays")
    waits, of_case = find_waits(log, cases, weights, work.open_hours), case_weights(log, cases)
    kept = choose_cases(log, cases, of_case)
    pause = _pauses(log, work)
    more = np.maximum(waits.span - work.hours[cases.order], 0.0)
    first, last = log.case_times()
    times = LoggedTimes(
        activity=log.activity[cases.order],
        least=waits.world,
        room=waits.waiting - waits.world + more,
        total=waits.waiting + waits.span,
        cycle=((last - first) / HOUR)[log.case[cases.order]],
    )
    steps.next("rosters")
    plans, in_turn = mine_rosters(log, work.open_hours, pause)
    rosters = {name: plans[name] for name in data["resources"]}

    def keys(beta: np.ndarray) -> dict[str, Any]:
        return {
            "flow": case_flow(log, cases, kept, of_case, times.delays(beta)),
            "rosters": rosters,
            "at_end_of_duty": "pause" if pause else "finish",
            "delay_clock": [float(f"{w:.{_DIGITS}g}") for w in weights],
        }

    beta, by_luck = np.ones(len(log.activities)), np.zeros(len(log.activities), np.bool_)
    if close and len(log.cases) >= MIN_CASES:
        steps.next("simulations that tell external delays from waiting for people")
        draft = parse_scenario(data | keys(beta), source)
        rehearsal = Rehearsal(draft, times, events_of_tasks(cases, kept), weights)
        beta = rehearsal.close(len(log.cases))
        steps.next("moments in which somebody was free")
        moments = FreeMoments(log, cases, weights, work.open_hours)
        beta, by_luck = _without_luck(moments, times, beta, rehearsal.luck(beta, len(log.cases)))
    world = keys(beta) | {"waiting": _waiting(log, waits, times, beta)}
    in_turn = [name for name in in_turn if name in rosters]
    unsure = [name for name, unsure_of_it in zip(log.activities, by_luck, strict=True) if unsure_of_it]
    return world, _notes(log, waits, times, beta, pause, in_turn) + _luck_notes(unsure)


def _without_luck(
    moments: FreeMoments, times: LoggedTimes, beta: np.ndarray, luck: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return shares of what is unexplained that do not follow the luck of queues, and the activities they differ for.

    ``luck``, float64[A], is what it makes of their delays, in open hours.
    """
    least, room = (np.bincount(times.activity, hours, len(beta)) for hours in (times.least, times.room))
    doubtful = is_luck(luck, least, room)
    found = [moments.total_delay(a) if doubtful[a] else None for a in range(len(beta))]
    return settle_luck(beta, luck, least, room, found)


def _luck_notes(activities: list[str]) -> list[str]:
    """Return a sentence about activities whose queues a log of this length leaves to luck."""
    if not activities:
        return []
    some = ", ".join(activities[:5]) + (f" and {len(activities) - 5} more" if len(activities) > 5 else "")
    return [
        f"How long cases queue for {some} is luck in a log of this length, because people are nearly always busy or "
        "events are few. So their delays are also taken from the moments in which somebody was free."
    ]


def _pauses(log: EventLog, work: WorkedTime) -> bool:
    """Whether logged events span much more than open hours: people put tasks down when they leave."""
    logged = float((log.end - log.start).sum()) / HOUR
    opened = open_time(work.open_hours, log.clock_end) - open_time(work.open_hours, log.clock_start)
    return logged > _PAUSED * float(opened.sum())


def _waiting(log: EventLog, waits: Waits, times: LoggedTimes, beta: np.ndarray) -> dict[str, float]:
    first, last = log.case_times()
    cases = len(log.cases)
    figures = {
        "cycle": float((last - first).mean()) / HOUR,
        "waiting": float(waits.waiting.sum()) / cases,
        "world_at_least": float(waits.world.sum()) / cases,
        "world": float(times.delays(beta).sum()) / cases,
    }
    return {name: float(f"{value:.{_DIGITS}g}") for name, value in figures.items()}


def _notes(
    log: EventLog, waits: Waits, times: LoggedTimes, beta: np.ndarray, pause: bool, in_turn: list[str]
) -> list[str]:
    waiting, proven = float(waits.waiting.sum()), float(waits.world.sum())
    delays = float(times.delays(beta).sum())
    notes = [
        f"Waiting: {waiting / len(log.cases):,.3g} open hours a case. In {proven / max(waiting, 1e-9):.0%} of it the "
        "person was free and on duty, so it is the world's: customers, other systems, other work. "
        f"{max(delays - proven, 0.0) / max(waiting, 1e-9):.0%} is unexplained and counted as the world's."
    ]
    notes.append(
        "Rosters: each resource has the days that the log shows, as often as it shows them, with all hours at which it "
        "is usually seen on the weekday."
    )
    if in_turn:
        notes.append(
            f"Changing shifts, early on some days and late on others: {', '.join(in_turn[:5])}"
            + (f" and {len(in_turn) - 5} more" if len(in_turn) > 5 else "")
            + ". On each day they have the hours of one shift."
        )
    if pause:
        notes.append("Logged times span nights and weekends, so tasks rest while their resource is off duty.")
    return notes
