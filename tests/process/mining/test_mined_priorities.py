"""Classes of cases from the order of service, where the generator of the log knows them."""

import heapq

import numpy as np
import pytest
from helpers.generated_logs import log_of

from longstride.process.mining.case_order import order_cases
from longstride.process.mining.delays.priorities import find_priorities
from longstride.process.mining.mine_scenario import mine_scenario

SHARE = 0.25


def shop(urgent_share=SHARE, rests=0.0, cases=1500, seed=5):
    """Return a log of cases that two people serve four times, around the clock, and bool[cases], the urgent ones.

    Urgent cases come first, then those that have waited longest. ``rests`` are the mean hours for which a case is away
    before it joins the queue of its last task.
    """
    rng = np.random.default_rng(seed)
    urgent = rng.random(cases) < urgent_share
    coming = [(t, 0, c) for c, t in enumerate(np.cumsum(rng.exponential(2.3, cases)))]
    free, waiting, rows = [0.0, 0.0], [], []
    heapq.heapify(coming)
    while coming or waiting:
        person = int(np.argmin(free))
        while coming and (not waiting or coming[0][0] <= free[person]):
            at, task, c = heapq.heappop(coming)
            free = [max(f, at) if not waiting else f for f in free]
            heapq.heappush(waiting, (not urgent[c], at, task, c))
        _, at, task, c = heapq.heappop(waiting)
        begin = max(free[person], at)
        free[person] = begin + rng.exponential(1.0)
        rows.append((c, task, person, begin, free[person]))
        if task < 3:
            heapq.heappush(coming, (free[person] + (rests * rng.exponential() if task == 2 else 0.0), task + 1, c))
    return log_of(*np.array(sorted(rows, key=lambda row: row[3])).T), urgent


@pytest.mark.parametrize("rests", [0.0, 30.0])
def test_urgent_cases_are_found_also_where_one_activity_begins_after_a_rest(rests):
    log, urgent = shop(rests=rests)
    found, notes = find_priorities(log, order_cases(log))
    assert ((found == 1) == urgent).mean() > (0.7 if rests else 0.82)  # 0.63 by chance; some meet no queue
    assert found.mean() == pytest.approx(SHARE, abs=0.05)
    assert "come before others that wait for longer" in notes[0]
    assert ("a3" in notes[0]) == (rests == 0.0)


@pytest.mark.parametrize("rests", [0.0, 30.0])
def test_first_come_first_served_shows_no_classes_also_where_cases_rest(rests):
    log, _ = shop(urgent_share=0.0, rests=rests)
    found, notes = find_priorities(log, order_cases(log))
    assert not found.any() and not notes


def test_choices_by_chance_show_no_classes():
    log, _ = shop(seed=6)
    shuffled = np.random.default_rng(0).permutation(len(log.cases))
    mixed = log_of(shuffled[log.case], log.activity, log.resource, log.start / 3600.0, log.end / 3600.0)
    rng = np.random.default_rng(1)
    start = np.repeat(np.arange(1500.0), 1) + rng.uniform(0, 0.1, 1500)
    lottery = log_of(*np.array([(c, 0, 0, t, t + 0.9) for c, t in zip(rng.permutation(1500), start, strict=True)]).T)
    assert find_priorities(mixed, order_cases(mixed))[0].any()  # names of cases do not matter
    assert not find_priorities(lottery, order_cases(lottery))[0].any()


def test_a_mined_scenario_has_the_priorities():
    log, urgent = shop(cases=600)
    mined = mine_scenario(log, name="shop", calibrate=False)
    priorities = np.array([case.get("priority", 0) for case in mined.scenario.flow["cases"]])
    assert priorities.mean() == pytest.approx(urgent.mean(), abs=0.08)
    assert any("Order of service" in note for note in mined.notes)
