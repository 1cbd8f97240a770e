"""What-ifs of a scenario with the figures of a log: a verdict where its base repeats them, none where it does not."""

import json

import pytest
from oracles.process_play import service

from longstride.cli import main
from longstride.process.fidelity.base import NOT_JUDGED, compare_base
from longstride.process.scenario_file import parse_scenario
from longstride.process.simulator import ProcessSimulator

DESK = {
    "schema": "resource-allocation-scenario/1",
    "name": "desk",
    "time_unit": "hours",
    "horizon": {"value": 60.0},
    "arrivals": {"process": "poisson", "rate": 0.7},
    "activities": ["Check"],
    "resources": ["clerk 1", "clerk 2"],
    "service": [service("Check", f"clerk {i}", "exponential", mean=2.0) for i in (1, 2)],
    "flow": {"task": "Check"},
}
ANY = {"mean": 1.0, "median": 1.0, "p90": 1.0, "work": 0.5, "people": 0.5, "external": 0.0}


def repeated():
    """Return the figures of a log that the base repeats."""
    base = compare_base(ProcessSimulator(parse_scenario({**DESK, "logged": ANY}, "test")))
    mean, median, p90 = base.times
    return {"mean": mean, "median": median, "p90": p90, **base.shares._asdict()}


def asked(folder, logged, *more):
    """Return the content of whatif.json."""
    (folder / "desk.json").write_text(json.dumps({**DESK, "logged": logged}))
    flags = [
        "--scenario",
        str(folder / "desk.json"),
        "--change",
        "people +1 clerk",
        "--run-directory",
        str(folder / "a"),
    ]
    flags += ["--evaluation-episodes", "2", "--simulation-threads", "1", "--policy", "fifo", "--no-report", *more]
    assert main(["--mode", "whatif", *flags]) == 0
    return json.loads((folder / "a" / "whatif.json").read_text())


def test_a_base_that_repeats_its_log_has_a_verdict(tmp_path):
    content = asked(tmp_path, repeated())
    assert content["base_against_log"]["misses"] == []
    assert content["scenarios"][1]["against_the_first"].keys() == {"fifo"}
    assert content["sentences"]["as it is"][0].startswith("Simulated base against the log")
    assert content["sentences"]["people +1 clerk"][1].startswith("fifo: ")
    assert NOT_JUDGED not in content["table"]["title"]


@pytest.mark.parametrize("factor", [0.25, 4.0])
def test_a_base_that_misses_its_log_has_none(tmp_path, capsys, factor):
    figures = repeated()
    times = {name: factor * figures[name] for name in ("mean", "median", "p90")}
    content = asked(tmp_path, figures | times)
    assert [miss.split()[0] for miss in content["base_against_log"]["misses"]] == ["mean", "median", "p90"]
    assert content["scenarios"][1]["against_the_first"] == {}
    assert content["sentences"]["people +1 clerk"][1:] == [NOT_JUDGED]
    assert content["table"]["title"].endswith(NOT_JUDGED)
    out = " ".join(capsys.readouterr().out.split())
    assert "Likely cause: " in out
    assert "better" not in out
    assert "worse" not in out


def test_the_tolerance_of_the_scenario_holds(tmp_path):
    figures = repeated()
    content = asked(tmp_path, {**figures, "mean": 1.2 * figures["mean"], "tolerance": 0.3})
    assert content["scenarios"][1]["against_the_first"].keys() == {"fifo"}


def test_the_tolerance_of_the_command_line_holds_instead(tmp_path):
    figures = repeated()
    logged = {**figures, "mean": 1.2 * figures["mean"], "tolerance": 0.3}
    assert asked(tmp_path, logged, "--log-tolerance", "0.1")["scenarios"][1]["against_the_first"] == {}
    assert asked(tmp_path, logged, "--log-tolerance", "0.5")["base_against_log"]["logged"]["tolerance"] == 0.5
