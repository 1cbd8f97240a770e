"""Arrivals that a log does not show, where the generator of the log knows them."""

from typing import NamedTuple

import numpy as np
import pytest
from helpers.generated_logs import log_of

from longstride.process.event_logs.event_log import EventLog
from longstride.process.mining.arrivals.unseen import unseen_waits
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.mining.working_hours import worked_time


class Desk(NamedTuple):
    """A log of an office with 40 weeks, and when its cases really arrive, float64[cases] hours."""

    log: EventLog
    arrival: np.ndarray


def desk(service: float, shows_arrivals: bool = False, leisure: float = 0.0, opens: float = 7.0) -> Desk:
    """Return an office of two clerks from 9 to 17, first come, first served; cases come from ``opens`` to 17.

    ``leisure`` are the mean hours from when a clerk and a case are there to the start.
    """
    rng, free, rows, arrival = np.random.default_rng(4), np.zeros(2), [], []
    for day in range(280):
        now = 24.0 * day + opens
        while day % 7 < 5 and (now := now + rng.exponential(0.6)) < 24.0 * day + 17.0:
            clerk = int(free.argmin())
            begin = on_duty(on_duty(max(now, free[clerk])) + leisure * rng.exponential())
            free[clerk] = begin + service * rng.exponential()
            if shows_arrivals:
                rows.append((len(arrival), 1, -1, now, now))
            rows.append((len(arrival), 0, clerk, begin, free[clerk]))
            arrival.append(now)
    return Desk(log_of(*np.array(sorted(rows, key=lambda row: row[3])).T), np.array(arrival))


def on_duty(hour: float) -> float:
    """Return the hour, or the next morning of a weekday."""
    day, of_day = divmod(hour, 24.0)
    if of_day >= 17.0:
        day, of_day = day + 1, 0.0
    if day % 7 >= 5:
        day, of_day = day + 7 - day % 7, 0.0
    return 24.0 * day + max(of_day, 9.0)


def open_hours(hours: np.ndarray) -> np.ndarray:
    """Return how many hours of duty lie before each moment."""
    day, of_day = np.divmod(hours, 24.0)
    week, weekday = np.divmod(day, 7.0)
    return 40.0 * week + np.where(weekday < 5, 8.0 * weekday + np.clip(of_day - 9.0, 0.0, 8.0), 40.0)


def waits_of(made: Desk):
    """Return the hours before each case's start that are found, those that are true, in the order of the cases."""
    found = unseen_waits(made.log, worked_time(made.log).own_hours)
    return found, made.log.case_times()[0] / 3600.0


@pytest.mark.parametrize("service", [0.6, 0.8])
def test_cases_that_have_waited_are_found_with_their_arrivals(service):
    made = desk(service)
    found, first = waits_of(made)
    waited = first - made.arrival > 1.0 / 3600.0
    assert ((found.waited > 0.0) == waited).mean() > 0.98
    true, mined = (open_hours(first) - open_hours(arrival) for arrival in (made.arrival, first - found.waited))
    assert mined.mean() == pytest.approx(true.mean(), rel=0.1)
    early = [np.bincount((a % 24 < 9.0).astype(int))[1] for a in (made.arrival, first - found.waited)]
    assert early[1] == pytest.approx(early[0], rel=0.1)
    arrived = first - found.waited
    in_order = np.diff(arrived[np.lexsort((arrived, first))]) > -1e-6
    assert in_order.mean() > 0.998  # arrivals in the order of the starts
    assert "No event tells when a case arrives" in found.notes[0]


def test_a_log_with_arrivals_has_no_unseen_ones():
    found, _ = waits_of(desk(0.8, shows_arrivals=True))
    assert not found.waited.any() and not found.notes


def test_people_who_begin_at_their_leisure_show_no_queue():
    found, _ = waits_of(desk(0.4, leisure=0.3))
    assert not found.waited.any() and not found.notes


def test_the_rates_of_a_scenario_are_those_of_the_arrivals_and_a_note_says_so():
    made = desk(0.8)
    mined = mine_scenario(made.log, name="desk", calibrate=False)
    rates = np.array(mined.scenario.arrivals.rates).reshape(7, 24)[:5].sum(0) / 5
    assert rates[8] == pytest.approx(2.0 / 0.6, rel=0.1)  # those from 7 to 9, in the hour before duty
    assert rates[10:16] == pytest.approx(np.full(6, 1.0 / 0.6), rel=0.15)
    assert any("No event tells when a case arrives" in note for note in mined.notes)
