"""The event loop against episodes worked out by hand."""

import pytest
from oracles.process_play import FIFO, LAZY, RANDOM, SPT, clerk, play, play_of

from longstride.rollout.episode_loop import new_episode_arrays
from longstride.seeding import stream
from longstride.simulators.simulator import OK, new_state


@pytest.mark.parametrize("which", [FIFO, SPT, RANDOM])
def test_a_shift_that_ends_while_busy_is_worked_to_the_end_of_the_task(which):
    simulator = clerk([8.0, 10.0, 11.5, 16.0], ["Monday"])
    (episode,) = play(simulator, which, 1)
    # 9-11; 11-13, through the break; 13-15; 16-18, past the end of the day.
    assert episode.state.completion_time[:4].tolist() == [11.0, 13.0, 15.0, 18.0]
    assert episode.metrics["mean_cycle_time"] == pytest.approx((3 + 3 + 3.5 + 2) / 4)
    assert episode.metrics["median_cycle_time"] == pytest.approx(3.0)
    assert episode.metrics["p90_cycle_time"] == pytest.approx(3.0 + 0.7 * 0.5)  # position 0.9 * 3 = 2.7 of 2, 3, 3, 3.5
    assert episode.metrics["utilisation"] == pytest.approx([8 / 7])
    assert episode.metrics["cases_finished"] == 4
    assert episode.metrics["decisions"] == episode.steps == 4
    assert episode.total == pytest.approx(-11.5 / 4)


def test_work_waits_over_night_and_open_cases_count_with_their_age():
    simulator = clerk([15.0, 16.5, 17.0, 47.0], ["Monday", "Tuesday"], horizon=48.0)
    (episode,) = play(simulator, FIFO, 1)
    # 15-17. At 17:00 completion comes before the end of the shift, so the clerk may take the next: 17-19. Then 33-35.
    assert episode.state.completion_time[:4].tolist() == [17.0, 19.0, 35.0, -1.0]
    assert episode.metrics["mean_cycle_time"] == pytest.approx((2 + 2.5 + 18 + 1) / 4)
    assert episode.metrics["cases_open"] == 1
    assert episode.metrics["utilisation"] == pytest.approx([6 / 14])


def test_postponing_only_delays():
    simulator = clerk([8.0, 9.5, 13.5, 14.0], ["Monday"])
    prompt, lazy = play(simulator, FIFO, 20), play(simulator, LAZY, 20)
    assert all(a.total >= b.total for a, b in zip(prompt, lazy, strict=True))
    assert sum(b.total < a.total for a, b in zip(prompt, lazy, strict=True)) > 5


def test_an_episode_without_any_decision_can_be_played_by_every_heuristic():
    simulator = clerk([8.0, 9.5, 13.5, 14.0], ["Sunday"])  # nobody is on duty before the horizon
    for which in (RANDOM, SPT, FIFO):
        states, rngs = new_state(simulator), (stream(0, "s"), stream(0, "p"))
        given = states, simulator.parameters, which, *rngs, new_episode_arrays(simulator), simulator.max_steps, False
        steps, _, status = play_of(simulator)(*given)
        assert (status, steps) == (OK, 1)


def test_the_same_seed_gives_the_same_episode():
    simulator = clerk([8.0, 10.0, 11.5, 16.0], ["Monday"])
    first, second = play(simulator, LAZY, 3), play(simulator, LAZY, 3)
    assert [(e.steps, e.total) for e in first] == [(e.steps, e.total) for e in second]
