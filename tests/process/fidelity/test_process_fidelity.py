import json
from dataclasses import asdict
from pathlib import Path

import pytest

pytest.importorskip("pydantic")


from longstride.errors import UserError
from longstride.process.event_logs.event_log import read_event_log
from longstride.process.fidelity.fidelity import fidelity_report, render_markdown
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.simulator import ProcessSimulator

SAMPLE = Path(__file__).resolve().parents[3] / "src/core/longstride/process/logs/loan_desk_sample.csv"


@pytest.fixture(scope="module")
def log():
    return read_event_log(SAMPLE)


@pytest.fixture(scope="module")
def scenario(log):
    return mine_scenario(log, name="loan desk").scenario


@pytest.fixture(scope="module")
def report(log, scenario):
    return fidelity_report(log, ProcessSimulator(scenario), episodes=10)


def test_the_sample_is_reproduced_by_what_is_learned_from_it(report):
    assert report.cases.logged == 300 and report.events.logged == 1174
    assert report.cases.simulated == pytest.approx(300, rel=0.12)
    for count in report.activities.values():
        # Unfinished cases count less, and those with longer cycles more.
        assert count.simulated / report.cases.simulated == pytest.approx(count.logged / 300, rel=0.05)
    assert report.hours_a_case.simulated == pytest.approx(report.hours_a_case.logged, rel=0.05)
    assert report.mean_cycle_time.simulated == pytest.approx(report.mean_cycle_time.logged, rel=0.3)
    assert report.cycle_time_ks < 0.2
    assert 0.5 < report.utilisation.logged < 0.95
    for hours in report.resources.values():
        assert hours.simulated == pytest.approx(hours.logged, rel=0.25)


def test_logged_figures_by_hand(report, log):
    first, last = log.case_times()
    assert report.mean_cycle_time.logged == pytest.approx((last - first).mean() / 3600)
    assert report.hours_worked.logged == pytest.approx(sum(c.logged for c in report.resources.values()))


def test_two_reports_of_one_seed_are_equal(report, log, scenario):
    assert fidelity_report(log, ProcessSimulator(scenario), episodes=10) == report


def test_renderings(report):
    data = json.loads(json.dumps(asdict(report)))
    assert data["cases"] == {"logged": 300.0, "simulated": report.cases.simulated}
    assert set(data["activities"]) == set(report.activities)
    markdown = render_markdown(report)
    assert "| Mean cycle time |" in markdown and "| Sign contract |" in markdown
    assert markdown.startswith("|  | Log | Simulation (mean of 10) |\n| --- | ---: | ---: |\n| Cases | 300 |")


def test_a_shorter_simulated_cycle_is_said_and_its_cause_only_supposed(log, scenario):
    # The same habits with eight times the staff's speed: the log then looks slow.
    fast = scenario.model_copy(deep=True)
    for service in fast.service:
        service.quantiles = [q / 8 for q in service.quantiles]
    sentence = next(
        s for s in fidelity_report(log, ProcessSimulator(fast), episodes=2).sentences if "mean cycle time" in s
    )
    assert sentence.startswith("The log's mean cycle time is 22 h 21 min, the simulation's ")
    assert "may be waiting" in sentence


def test_what_cannot_be_compared_is_refused(log, scenario):
    unknown = scenario.model_copy(deep=True)
    for service in unknown.service:
        service.observations = None
    with pytest.raises(UserError, match="no observations in service"):
        fidelity_report(log, ProcessSimulator(unknown))
