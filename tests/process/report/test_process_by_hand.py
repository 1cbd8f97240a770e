"""The figures of a process from an episode that is small enough to count by hand."""

import numpy as np
import pytest

pytest.importorskip("pydantic")
pytest.importorskip("scipy")
pytest.importorskip("html5lib")

from helpers.pages import ReportPage

from longstride.process.report.people import work_by_activity
from longstride.process.report.section import cycle_times, day_of, mean_waiting, process_section, waiting_tasks
from longstride.process.report.trace import Trace, shifts_until, stretches_of_work
from longstride.process.scenario_file import parse_scenario
from longstride.process.simulator import ProcessSimulator
from longstride.report.page import Page, render

SCENARIO = {
    **{"schema": "resource-allocation-scenario/1", "name": "desks", "time_unit": "abstract"},
    **{"horizon": {"stop": "time", "value": 10}, "arrivals": {"process": "poisson", "rate": 1}},
    **{"activities": ["Check", "Decide"], "resources": ["Ann", "Bob"]},
    "service": [
        {"activity": "Check", "resource": "Ann", "distribution": "constant", "mean": 2},
        {"activity": "Check", "resource": "Bob", "distribution": "constant", "mean": 3},
        {"activity": "Decide", "resource": "Bob", "distribution": "constant", "mean": 4},
    ],
    "flow": {"seq": [{"task": "Check"}, {"task": "Decide"}]},
}


def table(values, **kinds):
    return np.array(values, np.dtype(list(kinds.items())))


@pytest.fixture
def desks():
    """Ann checks two cases, 0 .. 2 and 2 .. 4; Bob decides on the first, 2 .. 6, and then on the second until the end.

    A third case waits from 5 on: the policy postpones it at 6, where Bob is free to check it, with two tasks waiting.
    """
    index, time = np.int64, np.float64
    times = {"enabled": time, "start": time, "finish": time}
    tasks = [(0, 0, 0, 0.0, 0.0, 2.0), (0, 0, 1, 1.0, 2.0, 4.0), (1, 1, 0, 2.0, 2.0, 6.0), (1, 1, 1, 4.0, 7.0, 11.0)]
    decisions = [(0.0, 0, 1, 2), (2.0, 0, 2, 2), (2.0, 2, 1, 1), (6.0, -1, 2, 1), (7.0, 2, 2, 1)]
    simulator = ProcessSimulator(parse_scenario(SCENARIO, "the test"))
    begun = table(tasks, activity=index, resource=index, case=index, **times)
    trace = Trace(
        end=10.0,
        tasks=begun,
        work=stretches_of_work(begun, None, 10.0),
        waiting=table([(0, 5.0)], activity=index, enabled=time),
        decisions=table(decisions, time=time, pair=index, waiting=index, free=index),
        arrivals=np.array([0.0, 1.0, 5.0]),
        completions=np.array([6.0, np.nan, np.nan]),
        on_duty=shifts_until(simulator, 10.0),
        metrics={},
    )
    return simulator, trace


def test_queues_and_cycle_times(desks):
    _, trace = desks
    assert waiting_tasks(trace, np.array([0.5, 1.5, 3.0, 5.5, 8.0])).tolist() == [0, 1, 0, 2, 1]
    assert mean_waiting(trace, 0) == (1 + 5) / 10  # the second check waits 1, the third until the end
    assert mean_waiting(trace, 1) == 3 / 10
    assert cycle_times(trace, 0.0).tolist() == [6.0, 9.0, 5.0]
    assert cycle_times(trace, 0.5).tolist() == [9.0, 5.0]


def test_who_does_what_is_cut_at_the_end(desks):
    assert work_by_activity(*desks).tolist() == [[0.4, 0.0], [0.0, 0.7]]


def test_the_page_of_a_process_without_a_clock(desks, tmp_path):
    simulator, trace = desks
    other = trace._replace(tasks=trace.tasks[:3], work=trace.work[:3])
    path = tmp_path / "page.html"
    sections = [process_section(simulator, {"trained": trace, "spt": other})]
    path.write_text(render(Page("desks", "", "", "", [], [], [], sections)))
    page = ReportPage(path)
    assert page.table("Utilisation by person") == [
        ["person", "trained", "spt"],
        ["Ann", "40", "40"],
        ["Bob", "70", "40"],
        ["all together", "55", "40"],
    ]
    assert page.table("Mean number of waiting tasks by activity")[1:] == [
        ["Check", "0.60", "0.60"],
        ["Decide", "0.30", "0.00"],
    ]
    assert page.table("Who does what under trained")[1:] == [["Ann", "40.00", ""], ["Bob", "0.00", "70.0+30.0"]]
    postponing = page.table("When the policy postpones")
    assert postponing[1][-1] == "0 %2" and postponing[2][1:3] == ["50 %2", "0 %1"]
    assert "postpones 20.0 % of its 5 decisions" in page.section("process")
    assert day_of(simulator, trace) == (5.0, 10.0, "A stretch of time")
