"""Plain lines of a run whose output is no terminal."""

import io

from rich.console import Console

from core.training.display.progress import Progress

RECORD = {
    "iteration": 2,
    "simulated_episodes": 6,
    "steps": 62000,
    "steps_per_second": 171234.5,
    "return": -12.345,
    "simulation_seconds": 0.362,
    "update_seconds": 1.5,
    "metrics": {"mean_cycle_time": 3.14159},
}


def lines_of(metric, total=4, record=RECORD):
    text = io.StringIO()
    with Progress(Console(file=text, width=40), total, 0, metric) as progress:
        progress.phase("simulating")
        progress.say("a [bracketed] sentence that is far longer than the forty columns of this console")
        progress.iteration(record)
    return text.getvalue().splitlines()


def test_an_iteration_is_one_line_however_narrow_the_console():
    said, line = lines_of("mean_cycle_time")
    assert said == "a [bracketed] sentence that is far longer than the forty columns of this console"
    for part in (
        "iteration 2/4 (6 episodes, 62,000 steps)",
        "171,234",
        "-12.35",
        "3.14 mean_cycle_time",
        "0.36",
        "1.50",
        "left",
    ):
        assert part in line, part


def test_a_simulator_without_metrics():
    _, line = lines_of("return", record={**RECORD, "metrics": {}})
    assert line.count("return") == 1


def test_a_finished_run_has_no_time_left():
    assert "  0 s left" in lines_of("return", total=2)[1]
