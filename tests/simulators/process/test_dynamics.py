"""The event loop against the slow reference, decision for decision, and against episodes worked out by hand."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from oracles.process_comparison import compare_episode
from oracles.process_play import FIFO, LAZY, RANDOM, SPT, clerk, office, play, play_of, rework

from core.seeding import stream
from core.simulators.process.simulator import ProcessSimulator
from core.simulators.simulator import OK, compile_functions, new_state


@pytest.mark.parametrize("make", [office, rework])
def test_compiled_agrees_with_the_reference(make):
    for seed in range(3):
        reference = compare_episode(make(), seed, postpone=0.3 * (seed > 0))
        assert len(reference.cases) > 100
        assert reference.decisions > 150


def test_uncompiled_agrees_with_the_reference_on_generated_scenarios():
    root = Path(__file__).parents[3]
    environment = {
        **os.environ,
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root / "tests")]),
    }
    command = [sys.executable, "-m", "oracles.process_comparison", "250"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    # The comparison is worth something only if most of what is generated can be played.
    assert "'scenarios': 250" in run.stdout


def test_no_two_tasks_of_a_case_share_their_luck():
    simulator = ProcessSimulator(office())
    functions, states = compile_functions(simulator), new_state(simulator)
    state, p, mask = states[0], simulator.parameters, np.ones(simulator.action_space.n, bool)
    functions.reset(state, p, stream(0, "simulator"))
    streams: dict[int, tuple[int, int]] = {}
    while not state.ended:
        for a in range(3):
            slot = state.queue_head[a]
            for _ in range(state.queue_length[a]):
                task = int(state.slot_case[slot]), int(state.slot_node[slot])
                assert streams.setdefault(int(state.slot_stream[slot]), task) == task
                slot = state.slot_next[slot]
        mask[:] = True
        functions.action_mask(state, p, mask)
        functions.step(state, p, int(mask.argmax()), None)
    assert len(streams) > 500


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
        steps, _, status = play_of(simulator)(states, simulator.parameters, which, *rngs)
        assert (status, steps) == (OK, 1)


def test_the_same_seed_gives_the_same_episode():
    simulator = clerk([8.0, 10.0, 11.5, 16.0], ["Monday"])
    first, second = play(simulator, LAZY, 3), play(simulator, LAZY, 3)
    assert [(e.steps, e.total) for e in first] == [(e.steps, e.total) for e in second]
