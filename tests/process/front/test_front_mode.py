"""--mode front: trained policies, rules and a checkpoint on one front, on the command line; and what it refuses."""

import json
import shlex

import pytest

pytest.importorskip("torch")

from commands.test_cli import refused  # noqa: F401
from helpers.fresh_here import run_here
from helpers.pages import ReportPage

from longstride.cli import main

TWO_SERVERS = {
    "schema": "resource-allocation-scenario/1",
    "name": "two_servers",
    "horizon": {"value": 500.0},
    "arrivals": {"process": "poisson", "rate": 0.3},
    "activities": ["A"],
    "resources": ["<i>fast</i>", "slow"],
    "service": [
        {"activity": "A", "resource": "<i>fast</i>", "distribution": "exponential", "mean": 1.0},
        {"activity": "A", "resource": "slow", "distribution": "exponential", "mean": 2.5},
    ],
    "flow": {"task": "A"},
    "aims": {"costs": {"per_hour": {"<i>fast</i>": 14.0, "slow": 0.4}}},
}
SHORT = ["--total-steps", "4000", "--evaluation-episodes", "5", "--simulation-threads", "1"]
SHORT += ["--actor-hidden-size", "8", "--critic-hidden-size", "8"]


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    file = tmp_path_factory.mktemp("front") / "two.json"
    file.write_text(json.dumps(TWO_SERVERS))
    return file


def front(scenario, folder, *flags):
    return main(["front", str(scenario), *SHORT, "--run-directory", str(folder), *map(str, flags)])


def test_policies_and_rules_are_on_one_front(scenario, tmp_path, capsys, monkeypatch):
    folder, trainings = tmp_path / "front", run_here(monkeypatch, real=1)
    assert front(scenario, folder, "--weights", "1,50") == 0
    out, content = capsys.readouterr().out, json.loads((folder / "front.json").read_text())
    assert [point["name"] for point in content["points"]] == [
        *("cost=1 cycle_time=1", "cost=1 cycle_time=50", "random", "fifo", "spt", "cheapest"),
    ]
    cheap, quick = content["points"][:2]
    assert cheap["metrics"]["cost_per_case"]["mean"] < quick["metrics"]["cost_per_case"]["mean"]
    assert cheap["metrics"]["mean_cycle_time"]["mean"] > quick["metrics"]["mean_cycle_time"]["mean"]
    assert all(len(point["per_episode"]["cost_per_case"]) == 5 for point in content["points"])
    page = ReportPage(folder / "front.html")
    assert len(page.table("Points")) == 7
    command = next(line.strip() for line in out.splitlines() if "--mode evaluate" in line)
    words = shlex.split(command)
    assert main([*words[words.index("--mode") :], "--evaluation-episodes", "2", "--no-report"]) == 0
    capsys.readouterr()
    assert front(scenario, folder, "--weights", "1,50", "--checkpoint", folder / "weight-1") == 0
    assert len(trainings) == 2
    again = json.loads((folder / "front.json").read_text())
    assert again["points"][:6] == content["points"], "trained once; the same episodes"
    assert again["points"][6]["name"] == "checkpoint weight-1"
    assert again["points"][6]["per_episode"] == cheap["per_episode"]
    assert front(scenario, folder, "--weights", "1,60") == 2
    assert "front.json is of another search" in capsys.readouterr().err


def test_what_cannot_be_a_front_is_refused(scenario, tmp_path, refused):  # noqa: F811
    def says(*flags):
        return refused("front", *flags, "--run-directory", tmp_path / "none")

    assert "cost_per_case needs costs of the process" in says("loan_desk")
    assert "There is no scenario loan_dsk" in says("loan_dsk")
    assert "The process is named twice" in says(scenario, "--scenario", "loan_desk")
    assert "sets the objective by --metrics" in says(scenario, "--objective", "cost=1")
    assert "--points is -1" in says(scenario, "--points", "-1")
    assert "no heuristic oracle" in says(scenario, "--policy", "oracle")
    assert "--minutes is 0" in says(scenario, "--minutes", "0")
    assert not (tmp_path / "none").exists()
