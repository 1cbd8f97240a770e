"""Changes on logs that are drawn and mined again: the spread between independent logs, and what whatif says of it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.ending import only_here
from helpers.generated_logs import desk_log, shifts_of_eight_hours, written

from longstride.cli import main
from longstride.errors import UserError
from longstride.process.changes.apply import apply_changes
from longstride.process.event_logs.event_log import read_event_log
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.mining.working_hours import tasks_at_once
from longstride.process.resamples import play
from longstride.process.resamples.play import Resampling, mean_cycle_times, play_resample, play_resamples
from longstride.process.resamples.processes import results
from longstride.process.scenario.routing import build_routing
from longstride.process.scenario_file import parse_scenario, scenario_content
from longstride.process.whatif.log_errors import log_of_run
from longstride.settings import load_settings


@pytest.fixture(scope="module")
def resampling():
    log = desk_log(0)
    scenario = mine_scenario(log, name="desk").scenario
    return Resampling(log, scenario, "weekly", ("arrivals +10%", "people +1 nobody", "times -10% a1"), 6, 4, 0)


def test_a_change_that_the_resamples_do_not_have_is_left_out(resampling):
    found = play_resamples(resampling, 1, lambda line: None)
    assert found.keys() == {"arrivals +10%", "times -10% a1"}
    assert all(error.resamples == 6 and error.variance >= 0.0 for error in found.values())


def test_resamples_do_not_depend_on_the_processes(resampling, monkeypatch):
    monkeypatch.setattr(play, "_WORTH_PROCESSES", 0.0)
    lines = []
    two = play_resamples(resampling, 2, lines.append)
    assert two == play_resamples(resampling, 1, lambda line: None)
    assert "Resampling 9 logs" in lines[0] and "--resamples 0 leaves it out" in lines[0]


def test_the_common_routing_changes_nothing(resampling):
    scenario = mine_scenario(resampling.log, name="desk").scenario
    routing = build_routing(scenario.flow, scenario.activities)
    np.testing.assert_array_equal(mean_cycle_times(scenario, range(2), routing), mean_cycle_times(scenario, range(2)))


def test_each_resample_has_its_own_stream(resampling):
    first, again, second = (play_resample(resampling, number)["arrivals +10%"] for number in (0, 0, 1))
    assert first == again
    assert first.value != second.value


def test_people_of_a_resample_do_as_many_tasks_at_once_as_in_the_log():
    """Weeks that are drawn overlap, so people have open tasks of both; one of them does not become a second server."""
    log = shifts_of_eight_hours(0.95, 600, 1).log
    scenario = mine_scenario(log, name="shifts").scenario
    resampled = play.drawn(log, scenario, 0, 0)
    assert scenario.at_once == {}
    assert tasks_at_once(replace(resampled, at_once=None)).max() == 2  # what the overlap looks like
    mined = mine_scenario(resampled, name="resample", calibrate=False).scenario
    assert mined.at_once == {}
    three = play.drawn(log, scenario.model_copy(update={"at_once": {"b0": 3}}), 0, 0)
    assert tasks_at_once(three).tolist() == [3 if name == "b0" else 1 for name in three.resources]


def test_processes_that_end_are_replaced_by_this_one():
    assert list(results(only_here, range(1, 5), 2)) == [1, 2, 3, 4]


def asked(folder, log, *flags):
    """Return the content of whatif.json."""
    flags = ["--event-log", log, "--log-tolerance", "10", "--policy", "logged", "--no-report", *flags]
    flags += ["--evaluation-episodes", "4", "--simulation-threads", "1", "--run-directory", str(folder / "a")]
    assert main(["whatif", "--change", "arrivals +10%", *flags]) == 0
    return json.loads((folder / "a" / "whatif.json").read_text())


def test_the_interval_of_a_what_if_holds_the_size_of_the_log(tmp_path, capsys):
    log = written(tmp_path, desk_log(0))
    alone, both = (
        asked(tmp_path, log, "--resamples", number)["scenarios"][1]["against_the_first"]["logged"]
        for number in ("0", "8")
    )
    assert both["difference"] == alone["difference"]
    assert sum(both["parts"].values()) == pytest.approx((both["high"] - both["low"]) / 2)
    assert "parts" not in alone
    out = " ".join(capsys.readouterr().out.split())
    assert "from the size of the log, " in out and "from its mining" in out


def test_too_few_weeks_and_too_few_resamples_are_said(tmp_path, capsys):
    log = written(tmp_path, desk_log(0, 2))
    assert "parts" not in asked(tmp_path, log)["scenarios"][1]["against_the_first"]["logged"]
    out = " ".join(capsys.readouterr().out.split())
    assert "error of the episodes, not that of the log: the log has arrivals of 1 whole week" in out
    assert main(["whatif", "--event-log", log, "--change", "arrivals +10%", "--resamples", "3"]) == 2
    assert "--resamples is 3; expected 0, or 5 or more." in " ".join(capsys.readouterr().err.split())


def test_the_log_of_a_run_is_named_and_checked(tmp_path):
    """The log is read by the settings of the run, and has to give its process."""
    path = written(tmp_path, desk_log(0, 3))
    (tmp_path / "config.json").write_text(json.dumps({"values": {"log_arrivals": "replay", "seed": 3}}))
    settings = load_settings(None, {"event_log": path})
    mined = mine_scenario(read_event_log(Path(path)), name="a run", arrivals="replay").scenario
    scenario = parse_scenario(json.loads(json.dumps(scenario_content(mined))), "test")
    assert log_of_run(settings, tmp_path, scenario, lambda line: None).arrivals == "replay"
    with pytest.raises(UserError, match="was mined from another log, by other settings or by another version"):
        log_of_run(settings, tmp_path, apply_changes(scenario, "times +1% a1").scenario, lambda line: None)
    assert log_of_run(load_settings(None, {}), tmp_path, scenario, lambda line: None) is None
