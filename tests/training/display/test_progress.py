"""What a person sees of a run: plain lines, and a display that changes on a terminal of 80 x 24."""

import io

import pytest
from rich.console import Console

from longstride.training.display.progress import Progress

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
        "3.14 mean cycle time",
        "0.36",
        "1.50",
        "left",
    ):
        assert part in line, part


def test_a_simulator_without_metrics():
    _, line = lines_of("return", record={**RECORD, "metrics": {}})
    assert line.count("return") == 1


def test_small_numbers_keep_their_digits():
    _, line = lines_of("cost", record={**RECORD, "return": -0.00001234, "metrics": {"cost": 0.0456}})
    assert "  -1.23e-05 return  0.0456 cost  " in line


def test_a_finished_run_has_no_time_left():
    assert "  0 s left" in lines_of("return", total=2)[1]


HOURS = {**RECORD, "metrics": {"mean_cycle_time": 5.2}, "units": {"mean_cycle_time": "hours"}}


def test_an_update_has_no_line_of_its_own_by_default():
    text = io.StringIO()
    with Progress(Console(file=text), 4, 0, "return") as progress:
        progress.update_complete(1.234)
        progress.iteration(RECORD)
    assert len(text.getvalue().splitlines()) == 1


def test_the_best_heuristic_stands_beside_the_main_metric_and_each_update_has_a_line():
    text = io.StringIO()
    with Progress(Console(file=text, width=200), 4, 0, "mean_cycle_time", update_lines=True) as progress:
        progress.compare_with("spt", 7.5)
        progress.update_complete(1.234)
        progress.iteration(HOURS)
    update, line = text.getvalue().splitlines()
    assert update == "Policy update complete - Total time: 1.23s"
    assert "  5.20 h mean cycle time (spt: 7.50 h)  " in line


UNFINISHED = {**HOURS, "metrics": {}, "return": None, "mean_reward": -0.25}


@pytest.mark.parametrize(
    ("compared", "shown"), [(True, "- h mean cycle time (spt: 7.50 h)"), (False, "- h mean cycle")]
)
def test_a_metric_that_no_episode_has_keeps_its_name_and_unit(compared, shown):
    text = io.StringIO()
    with Progress(Console(file=text), 4, 0, "mean_cycle_time") as progress:
        if compared:
            progress.compare_with("spt", 7.5)
        else:
            progress.remember([HOURS])
        progress.iteration(UNFINISHED)
    assert f"  -0.25 mean reward  {shown}" in text.getvalue()


def test_the_best_heuristic_stands_beside_no_other_figure():
    text = io.StringIO()
    with Progress(Console(file=text), 4, 0, "return") as progress:
        progress.compare_with("spt", 7.5)
        progress.iteration(UNFINISHED)
    assert "  -0.25 mean reward  " in text.getvalue() and "spt" not in text.getvalue()


@pytest.fixture
def screen():
    """Return a terminal of 80 x 24, a console that writes to it, and a function that feeds it what was written."""
    pyte = pytest.importorskip("pyte")
    terminal = pyte.Screen(80, 24)
    stream, text = pyte.Stream(terminal), io.StringIO()
    console = Console(file=text, force_terminal=True, width=80, height=24, color_system="standard")

    def rows():
        stream.feed(text.getvalue().replace("\n", "\r\n"))
        text.seek(0)
        text.truncate()
        return [row.rstrip() for row in terminal.display if row.strip()]

    return console, rows


def test_the_display_shows_each_figure_once_with_its_unit(screen):
    console, rows = screen
    with Progress(console, 400, 0, "mean_cycle_time") as progress:
        progress.compare_with("spt", 7.5)
        for number in range(1, 13):
            progress.phase("updating")
            progress.update_complete(number / 10)
            progress.iteration({**HOURS, "iteration": number, "metrics": {"mean_cycle_time": 13.0 - number}})
        progress.say("A sentence that stays, and is longer than the eighty columns that this terminal has for it.")
        progress._live.refresh()
        shown = rows()
    said, table = shown[:2], shown[2:]
    assert said == [
        "A sentence that stays, and is longer than the eighty columns that this terminal",
        "  has for it.",
    ]
    assert table[0] == "iteration        12/400 (6 episodes, 62,000 steps), updating"
    assert table[1] == "mean cycle time  60.00 min  ██▇▆▆▅▄▃▃▂▁▁  60.00 min to 12.00 h"
    assert table[2:6] == [
        "return           -12.35",
        "best heuristic   7.50 h, spt",
        "simulation       0.36 s, 171,234 steps/s",
        "update           1.50 s",
    ]
    assert table[6].startswith("time left        ")
    assert table[7:] == ["Policy update complete - Total time: 1.20s"]
    assert rows()[2:8] == [table[0].removesuffix(", updating"), *table[1:6]], "the last figures stay"


def test_the_display_keeps_the_row_of_a_metric_that_no_episode_has(screen):
    console, rows = screen
    with Progress(console, 9, 0, "mean_cycle_time") as progress:
        progress.compare_with("spt", 7.5)
        progress.iteration(UNFINISHED)
        progress._live.refresh()
        assert rows()[1:4] == ["mean cycle time  - h", "mean reward      -0.25", "best heuristic   7.50 h, spt"]


def test_earlier_iterations_are_in_the_curve_of_a_resumed_run(screen):
    console, rows = screen
    with Progress(console, 9, 7, "return") as progress:
        progress.remember([{"return": value, "metrics": {}} for value in (1.0, None, 2.0)])
        progress.iteration({**RECORD, "iteration": 8, "return": 3.0, "metrics": {}})
        progress._live.refresh()
        assert rows()[1] == "return      3.00  ▁▅█  1.00 to 3.00"
