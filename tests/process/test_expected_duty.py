"""Who is expected on shift: against the simulator's own shifts, and rosters by hand."""

import math

import numpy as np
import pytest
from oracles.process_play import WEEKDAYS, office, scenario, service

from longstride.process.kernel.parameters import build_parameters
from longstride.process.snapshots.expected_duty import ExpectedDuty


def shifts_by_the_hour(parameters, time, r):
    """Return whether a resource is on duty at a time, by playing the changes of the parameters one after another."""
    on, weeks = parameters.on_duty_at_start[r], math.ceil(time / parameters.week) + 1
    moments = [
        (week * parameters.week + parameters.shift_times[i], parameters.shift_on[i])
        for week in range(weeks + 2)
        for i in range(parameters.shift_count)
        if parameters.shift_resource[i] == r
    ]
    later = [moment for moment in moments if moment[0] > time]
    for moment, change in moments:
        on = change if moment <= time and moment > 0 else on
    return bool(on), [moment for moment, _ in later[:2]]


def test_working_hours_are_those_of_the_simulator():
    shop = office()
    parameters, _ = build_parameters(shop)
    duty, rng = ExpectedDuty(shop), np.random.default_rng(0)
    edges = [8 * 60.0, 1440.0, 12.25 * 60, 6 * 1440.0 + 5, 10080.0, 3 * 1440 + 5.5 * 60, 0.0]
    for time in [*edges, *rng.uniform(0, 3 * 10080, 200)]:
        on = duty.on_duty(time)
        first, then = duty.next_changes(time, on)
        for r in range(2):
            expected, later = shifts_by_the_hour(parameters, time, r)
            assert (bool(on[r]), [first[r], then[r]]) == (expected, pytest.approx(later)), (time, r)
        assert (on[2], first[2], then[2]) == (1, math.inf, math.inf)


def test_who_is_there_against_the_hours_leaves_with_the_next_end():
    duty = ExpectedDuty(office())
    evening = 18 * 60.0
    first, then = duty.next_changes(evening, np.array([1, 0, 0], np.uint8))
    assert (first[0], then[0]) == (1440 + 12.25 * 60, 1440 + 13 * 60)
    assert (first[1], then[1]) == (20 * 60, 1440 + 5.5 * 60)
    assert (first[2], then[2]) == (math.inf, math.inf)


def test_everybody_is_always_there_without_hours():
    duty = ExpectedDuty(scenario(time_unit="abstract"))
    assert duty.on_duty(17.0).tolist() == [1]
    assert [each.tolist() for each in duty.next_changes(17.0, np.ones(1, np.uint8))] == [[math.inf], [math.inf]]


def test_rosters_count_by_their_likeliest_plans():
    plans = [
        {"days": WEEKDAYS, "p": 0.5, "hours": ["08:00-16:00"]},
        {"days": WEEKDAYS, "p": 0.3, "hours": ["12:00-20:00"]},
    ]
    shop = scenario(
        resources=["often", "seldom", "never", "through"],
        service=[service("A", name, "constant", mean=1.0) for name in ("often", "seldom", "never", "through")],
        rosters={"often": plans, "seldom": [{**plans[0], "p": 0.2}], "never": []},
        working_hours={"through": [{"days": [*WEEKDAYS, "Saturday", "Sunday"], "from": "00:00", "to": "24:00"}]},
    )
    duty = ExpectedDuty(shop)
    expected = {
        7.0: [0, 0, 0, 1],
        9.0: [1, 0, 0, 1],
        13.0: [1, 0, 0, 1],
        17.0: [0, 0, 0, 1],
        5 * 24 + 9.0: [0, 0, 0, 1],
    }
    assert {time: duty.on_duty(time).tolist() for time in expected} == expected
    on = np.array([1, 1, 0, 1], np.uint8)
    first, then = duty.next_changes(4 * 24 + 9.0, on)
    assert first.tolist() == [4 * 24 + 16, 4 * 24 + 16, math.inf, math.inf]
    assert then.tolist() == [7 * 24 + 8, 7 * 24 + 8, math.inf, math.inf]
