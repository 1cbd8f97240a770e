"""--mode staff from nothing: it trains a policy, searches under it, retrains for a finalist, and continues."""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("optuna")

from longstride.cli import main

SMALL = {
    "schema": "resource-allocation-scenario/1",
    "name": "small",
    "horizon": {"value": 300.0},
    "arrivals": {"process": "poisson", "rate": 0.5},
    "activities": ["A"],
    "resources": ["r 1", "r 2"],
    "service": [{"activity": "A", "resource": f"r {i}", "distribution": "exponential", "mean": 2.0} for i in (1, 2)],
    "flow": {"task": "A"},
    "aims": {"costs": {"everyone": 1.0}},
}


@pytest.mark.slow  # compiles kernels of three sizes
def test_a_policy_is_trained_searched_under_and_retrained(tmp_path, capsys):
    file, folder = tmp_path / "small.json", tmp_path / "staff"
    file.write_text(json.dumps(SMALL))
    flags = ["staff", str(file), "--moves", "people", "--more", "1", "--fewer", "0", "--finalists", "1"]
    flags += ["--search-episodes", "1", "--evaluation-episodes", "3", "--total-steps", "2000"]
    flags += ["--simulation-threads", "1", "--run-directory", str(folder)]
    assert main(flags) == 0
    out, content = capsys.readouterr().out, json.loads((folder / "staff.json").read_text())
    assert [p["name"] for p in content["points"]] == ["policy: as it is", "policy: team 1", "retrained: team 1"]
    assert "Playing all 2 teams, 1 episode each." in out
    as_it_is, more, retrained = (p["metrics"]["mean_cycle_time"]["mean"] for p in content["points"])
    assert more < as_it_is
    assert retrained < as_it_is
    assert main(flags) == 0
    assert json.loads((folder / "staff.json").read_text())["points"] == content["points"]
    assert "Training for team 1" in capsys.readouterr().out
