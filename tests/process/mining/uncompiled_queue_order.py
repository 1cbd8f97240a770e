"""Order of service by the age of the task or of the case, where the generator of the log knows it."""

import heapq

import numpy as np
import pytest
from helpers.generated_logs import log_of

from longstride.process.mining.case_order import order_cases
from longstride.process.mining.delays.queue_order import find_queue_order
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.resamples.simulated_log import simulated_log

WITHIN, BETWEEN = "queue_discipline_within_activity", "queue_discipline_between_activities"
OLDEST_TASK, OLDEST_CASE = {BETWEEN: "earliest enabled first"}, {WITHIN: "oldest case first"}
CASES = 600


def shop(key, cases=CASES, seed=5):
    """Return a log of cases of two to seven tasks, of three activities, that two people serve, the least key first.

    Each case has an event at its arrival (a0), by nobody. ``key`` returns the key of a case, an activity and the time
    from which its task waits. Work takes an hour on average, and people work around the clock.
    """
    rng = np.random.default_rng(seed)
    paths = [[1, *rng.integers(1, 4, rng.integers(1, 7)).tolist()] for _ in range(cases)]
    coming = [(t, 0, c) for c, t in enumerate(np.cumsum(rng.exponential(2.5, cases)))]
    rows, free, waiting = [(c, 0, -1, t, t) for t, _, c in coming], [(0.0, 0), (0.0, 1)], []
    while coming or waiting:
        now, person = free[0]
        now = now if waiting else max(now, coming[0][0])
        while coming and coming[0][0] <= now:
            at, task, c = heapq.heappop(coming)
            heapq.heappush(waiting, (key(c, paths[c][task], at), at, task, c))
        _, _, task, c = heapq.heappop(waiting)
        end = now + rng.exponential(1.0)
        heapq.heapreplace(free, (end, person))
        rows.append((c, paths[c][task], person, now, end))
        if task + 1 < len(paths[c]):
            heapq.heappush(coming, (end, task + 1, c))
    return log_of(*np.array(sorted(rows, key=lambda row: row[3])).T)


def by_task(c, activity, at):
    return at


def by_case(c, activity, at):
    return c


def by_chance(c, activity, at):
    return np.random.default_rng([c, int(1e6 * at)]).random()


def found(log, priority=None, without=()):
    priority = np.zeros(len(log.cases), np.int64) if priority is None else priority
    return find_queue_order(log, order_cases(log), priority, without)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("key", "expected", "words"),
    [
        (by_task, OLDEST_TASK, "of different activities, the task that has waited longest comes first"),
        (by_case, OLDEST_CASE, "of the waiting tasks of an activity, that of the oldest case comes first"),
        (by_chance, {}, ""),
        (lambda c, activity, at: -at, {}, ""),
    ],
)
def test_the_order_is_that_of_the_generator(key, expected, words, seed):
    keys, notes = found(shop(key, seed=seed))
    assert keys == expected
    assert len(notes) == len(expected)
    if words:
        assert f"Order of service: {words}. People chose so 100% of " in notes[0]


@pytest.mark.parametrize("key", [by_task, by_case])
def test_too_few_choices_decide_nothing(key):
    assert found(shop(key, cases=15)) == ({}, [])


def test_a_log_of_the_usual_rules_tells_nothing():
    """The queue of the oldest case comes first, and its oldest task: the usual rules, so nothing is told."""
    scenario = mine_scenario(shop(by_task), name="shop", calibrate=False).scenario
    usual = scenario.model_copy(update={BETWEEN: "oldest case first"})
    assert found(simulated_log(without_delays(usual), shop(by_task), 1)) == ({}, [])


def test_cases_of_different_priorities_and_activities_of_another_order_are_not_compared():
    urgent = np.random.default_rng(6).random(CASES) < 0.4
    log = shop(lambda c, activity, at: (not urgent[c], at))
    assert found(log)[0] == {}
    assert found(log, urgent.astype(np.int64))[0] == OLDEST_TASK
    log = shop(lambda c, activity, at: at if activity < 3 else 1e9 + c)  # a3 is always last
    assert found(log)[0] == {}
    assert found(log, without=["a3"])[0] == OLDEST_TASK


@pytest.mark.parametrize(("key", "expected"), [(by_task, OLDEST_TASK), (by_case, OLDEST_CASE), (by_chance, {})])
def test_a_mined_scenario_has_the_order_and_a_log_that_it_writes_shows_it_again(key, expected):
    log = shop(key)
    mined = mine_scenario(log, name="shop", calibrate=False)
    usual = {WITHIN: "earliest enabled first", BETWEEN: "oldest case first"}
    assert {name: getattr(mined.scenario, name) for name in usual} == usual | expected
    assert sum(note.startswith("Order of service") for note in mined.notes) == len(expected)
    assert not set(mined.scenario.model_dump(exclude_defaults=True)) & (set(usual) - set(expected))
    if expected:
        assert found(simulated_log(without_delays(mined.scenario), log, 1))[0] == expected


def without_delays(scenario):
    """Return a scenario in which all waiting is for people; without calibration none is."""
    cases = [case | {"tasks": [{**task, "delay": 0.0} for task in case["tasks"]]} for case in scenario.flow["cases"]]
    return scenario.model_copy(update={"flow": {"cases": cases}})
