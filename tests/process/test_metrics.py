"""Bound, time on duty, capacities, masks, observations and heuristics."""

import math
from typing import Any

import numpy as np
import pytest
from oracles.process_play import FIFO, LAZY, RANDOM, SPT, bound_of, clerk, play, pool, scenario
from scipy import stats

from longstride.process.kernel import heuristics
from longstride.process.kernel.metrics import first_on_duty, time_on_duty
from longstride.process.kernel.parameters import build_parameters
from longstride.process.scenario.scenario import Scenario
from longstride.process.simulator import ProcessSimulator
from longstride.simulators.simulator import compile_functions, new_state

# The bound


@pytest.mark.slow
@pytest.mark.parametrize("which", [FIFO, SPT, RANDOM, LAZY])
def test_no_policy_completes_any_case_before_the_bound(which):
    simulator = pool()
    for i, episode in enumerate(play(simulator, which, 5)):
        best, metrics = bound_of(simulator, i)
        n = int(episode.state.arrived)
        assert n == best.arrived > 100
        assert np.array_equal(best.arrival_time[:n], episode.state.arrival_time[:n])
        completions = np.stack([best.completion_time[:n], episode.state.completion_time[:n]])
        completions = np.where(completions >= 0, completions, math.inf)
        assert np.all(completions[0] <= completions[1] + 1e-9)
        assert metrics["mean_cycle_time"] < episode.metrics["mean_cycle_time"]
        # Close enough to be of use: someone who never waits is sometimes met.
        assert which == LAZY or np.isclose(completions[0], completions[1]).sum() > 3


def test_the_bound_of_a_day_worked_out_by_hand():
    simulator = clerk([8.0, 10.0, 11.5, 16.0], ["Monday"])
    state, metrics = bound_of(simulator, 0)
    # The first waits for the clerk to come at nine; nobody else waits.
    assert state.completion_time[:4].tolist() == [11.0, 12.0, 13.5, 18.0]
    assert metrics["mean_cycle_time"] == pytest.approx((3 + 2 + 2 + 2) / 4)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (0.0, 9.0),
        (9.0, 9.0),
        (11.9, 11.9),
        (12.5, 13.0),
        (17.5, 168 + 9.0),
        (167.0, 168 + 9.0),
        (170.0, 177.0),
        (179.0, 179.0),
    ],
)
def test_first_moment_on_duty(time, expected):
    assert first_on_duty(clerk([0.0], ["Monday"]).parameters, 0, time) == pytest.approx(expected)


def test_the_bound_knows_that_a_shift_ends_after_the_completions_of_its_last_moment():
    # The clerk of test_dynamics: 15-17, and at 17:00 the next task still starts, before the shift's end is processed.
    assert first_on_duty(clerk([0.0], ["Monday"]).parameters, 0, 17.0) == 17.0


def test_the_last_moment_of_a_shift_that_ends_with_the_week_is_on_duty():
    sunday = {"days": ["Sunday"], "from": "12:00", "to": "24:00"}
    parameters = ProcessSimulator(scenario(working_hours={"R": [sunday]})).parameters
    assert [first_on_duty(parameters, 0, t) for t in (0.0, 168.0, 168.5)] == [156.0, 168.0, 168.0 + 156.0]


# Time on duty


def duty(*shifts: tuple[list[str], str, str], end: float) -> float:
    """Return the hours on duty from Monday, 00:00 to a time."""
    hours = [{"days": days, "from": a, "to": b} for days, a, b in shifts]
    parameters, _ = build_parameters(scenario(working_hours={"R": hours}))
    return float(time_on_duty(parameters, end)[0])


@pytest.mark.parametrize(
    ("end", "expected"), [(8.0, 0), (10.0, 2), (24.0, 8), (40.0, 16), (168.0, 16), (168 + 15.0, 16 + 7), (336.0, 32)]
)
def test_time_on_duty_of_two_days_a_week(end, expected):
    assert duty((["Monday", "Tuesday"], "08:00", "16:00"), end=end) == expected
    halves = [(["Tuesday", "Monday"], "08:00", "12:00"), (["Monday", "Tuesday"], "11:00", "16:00")]
    assert duty(*halves, end=end) == expected


def test_time_on_duty_over_night():
    night = [(["Monday"], "22:00", "24:00"), (["Tuesday"], "00:00", "06:00")]
    assert duty(*night, end=30.0) == 8.0
    assert duty(*night, end=24.0) == 2.0


@pytest.mark.parametrize(
    ("shift", "expected"),
    [((["Monday"], "00:00", "08:00"), 8.0), ((["Sunday"], "12:00", "24:00"), 12.0)],
    ids=["from Monday midnight", "to Sunday midnight"],
)
def test_time_on_duty_of_a_week_that_begins_or_ends_on_duty(shift, expected):
    assert duty(shift, end=168.0) == expected
    assert duty(shift, end=336.0) == 2 * expected


def test_time_on_duty_through_the_end_of_the_week():
    through = [(["Sunday"], "12:00", "24:00"), (["Monday"], "00:00", "08:00")]
    assert duty(*through, end=336.0) == 40.0


def test_nobody_goes_who_works_through_the_end_of_the_week():
    days = [{"days": ["Sunday"], "from": "12:00", "to": "24:00"}, {"days": ["Monday"], "from": "00:00", "to": "08:00"}]
    parameters, _ = build_parameters(scenario(working_hours={"R": days}))
    assert parameters.shift_times.tolist() == [8.0, 156.0]


def test_around_the_clock_is_always_on_duty():
    days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    assert duty((days, "00:00", "24:00"), end=100.0) == 100.0


# Capacities: reached in uncompiled/


def test_an_episode_within_its_capacities_has_no_message():
    simulator = pool()
    assert simulator.message(new_state(simulator)[0]) is None


# Masks, observations and heuristics of a state made by hand


def by_hand(simulator: ProcessSimulator, queues: list[list[int]], free: list[int]) -> Any:
    """Return a state of the pool in which the cases of each queue wait and some resources are free."""
    states = new_state(simulator)
    state = states[0]
    state.queue_length[:] = [len(queue) for queue in queues]
    state.waiting = sum(map(len, queues))
    state.available[:] = free
    state.on_duty[:] = 1
    state.busy_pair[:] = -1
    state.finish[:] = math.inf
    slot = 0
    for a, queue in enumerate(queues):
        state.queue_head[a] = slot
        for case in queue:
            state.slot_case[slot], state.slot_next[slot] = case, slot + 1
            slot += 1
    return state


def mask_of(simulator: ProcessSimulator, state: Any) -> np.ndarray:
    mask = np.ones(simulator.action_space.n, bool)
    compile_functions(simulator).action_mask(state, simulator.parameters, mask)
    return mask


@pytest.mark.parametrize(
    ("queues", "free", "mask"),
    [
        ([[], []], [1, 1], [0, 0, 0, 0, 1]),
        ([[0], [0]], [0, 0], [0, 0, 0, 0, 1]),
        ([[0], []], [1, 1], [1, 1, 0, 0, 1]),
        ([[], [0]], [0, 1], [0, 0, 0, 1, 1]),
        ([[1, 2], [0]], [1, 0], [1, 0, 1, 0, 1]),
        ([[0], [0]], [1, 1], [1, 1, 1, 1, 1]),
    ],
)
def test_the_mask_allows_waiting_work_by_free_people_and_postponing(queues, free, mask):
    simulator = pool()
    assert mask_of(simulator, by_hand(simulator, queues, free)).tolist() == [bool(x) for x in mask]


def shares(name: str, queues: list[list[int]], free: list[int], draws: int = 4000) -> list[int]:
    """Return how often a heuristic chooses each action in a state made by hand."""
    simulator = pool()
    state, rng = by_hand(simulator, queues, free), np.random.default_rng(1)
    mask, choose = mask_of(simulator, state), simulator.heuristics[name]
    return np.bincount([choose(state, simulator.parameters, mask, rng) for _ in range(draws)], minlength=5).tolist()


@pytest.mark.parametrize(
    ("name", "queues", "free", "chosen"),
    [
        ("random", [[0], [0]], [1, 1], [0, 1, 2, 3]),
        ("random", [[], [0]], [1, 1], [2, 3]),
        ("spt", [[0], [1]], [1, 1], [2, 3]),  # 1.6 is less than 1.8
        ("spt", [[0], []], [1, 1], [0, 1]),
        ("fifo", [[1], [0]], [1, 1], [2, 3]),
        ("fifo", [[5, 2], [3]], [1, 1], [0, 1]),  # case 2 is the oldest, though not the head of its queue
        ("fifo", [[0], [1]], [0, 1], [1]),
        ("fifo", [[0], [0]], [1, 1], [0, 1, 2, 3]),  # a case that waits in two activities
        ("random", [[], []], [1, 1], [4]),
        ("spt", [[0], [1]], [0, 0], [4]),
        ("fifo", [[0], [1]], [0, 0], [4]),
        ("fifo", [[], []], [1, 1], [4]),
    ],
)
def test_a_heuristic_is_uniform_among_what_it_may_choose(name, queues, free, chosen):
    counts = shares(name, queues, free)
    assert sum(counts[i] for i in chosen) == 4000
    if len(chosen) > 1:
        assert stats.chisquare([counts[i] for i in chosen]).pvalue > 1e-3


def logged_shares(queues: list[list[int]]) -> list[int]:
    """Return how often the logged heuristic chooses each pair; the log shows the first two once and three times."""
    observed = [
        {**s, "observations": n} for s, n in zip(pool().scenario.model_dump()["service"], (1, 3, 0, 0), strict=True)
    ]
    data = {**pool().scenario.model_dump(by_alias=True), "service": observed}
    simulator = ProcessSimulator(Scenario.model_validate(data))
    assert simulator.heuristics["logged"] is heuristics.logged
    state, rng = by_hand(simulator, queues, [1, 1]), np.random.default_rng(1)
    mask = mask_of(simulator, state)
    chosen = [simulator.heuristics["logged"](state, simulator.parameters, mask, rng) for _ in range(4000)]
    return np.bincount(chosen, minlength=5).tolist()


def test_the_logged_heuristic_chooses_in_the_proportion_of_the_log():
    counts = logged_shares([[0], [1]])
    assert sum(counts[:2]) == 4000
    assert stats.chisquare(counts[:2], [1000, 3000]).pvalue > 1e-3
    assert "logged" not in pool().heuristics


def test_the_logged_heuristic_is_uniform_where_the_log_shows_nobody_feasible():
    counts = logged_shares([[1], [0]])  # nobody was logged on the activity of the oldest case
    assert sum(counts[2:4]) == 4000
    assert stats.chisquare(counts[2:4]).pvalue > 1e-3


def test_the_logged_heuristic_postpones_where_nothing_is_feasible():
    assert logged_shares([[], []])[4] == 4000


def test_the_observation_of_a_state_made_by_hand():
    simulator = pool()
    state = by_hand(simulator, [[3, 4], []], [1, 0])
    state.time, state.open, state.busy_pair[1], state.started[1] = 10.0, 3, 3, 8.0
    state.slot_enabled[0] = 4.9
    observation = np.full(simulator.observation_size, np.nan, np.float32)
    compile_functions(simulator).observe(state, simulator.parameters, observation)
    assert observation.tolist() == pytest.approx(
        [
            *(0, 0, 0, 1),  # s works on L
            *(1, 0),  # r is available
            *(0, 2 / 3.6),  # since 2, of 1.6 on average
            *(math.log(3), 0),  # two wait at K
            *(math.log(1 + 5.1 / 1.7), 0),  # the first of them since 5.1; a service takes 1.7 on average
            *(2, 0),
            *(math.log(4), 3),
        ],
        abs=1e-6,
    )


def test_the_observation_of_working_hours():
    simulator = clerk([0.0], ["Monday"])
    assert simulator.observation_size == 1 + 2 + 3 + 2 + 1 + 4
    state = new_state(simulator)[0]
    state.busy_pair[0], state.on_duty[0], state.time = -1, 1, 168.0 + 24 + 6  # Tuesday, 6:00
    observation = np.full(simulator.observation_size, np.nan, np.float32)
    compile_functions(simulator).observe(state, simulator.parameters, observation)
    angle = 2 * math.pi * 30 / 168
    assert observation[8:].tolist() == pytest.approx([1, 1, 0, math.sin(angle), math.cos(angle)], abs=1e-5)
