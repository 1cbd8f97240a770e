"""The name that the package had before: in checkpoints, and in files of users."""

import json

import pytest

pytest.importorskip("pydantic")

from longstride.cli import main
from longstride.errors import UserError
from longstride.simulators.loading import load_simulator
from longstride.simulators.makers import present_name
from longstride.training.run_directory.checkpoint import load_run, seal, unseal

SMALL = ["--simulator", "cartpole", "--num-envs", "2", "--rollout-steps", "64"]
SMALL += ["--device", "cpu", "--no-report"]


@pytest.mark.parametrize(
    ("name", "now"),
    [
        (
            "core.simulators.process.simulator:ProcessSimulator",
            "longstride.process.simulator:ProcessSimulator",
        ),
        ("core.text:A", "core.text:A"),
        ("my.core.simulators:A", "my.core.simulators:A"),
        ("cartpole", "cartpole"),
    ],
)
def test_only_simulators_of_this_package_have_another_name(name, now):
    assert present_name(name) == now


def test_a_run_of_the_version_before_goes_on(tmp_path):
    def train(iterations, name, *flags):
        words = ["--training-episodes", str(iterations), "--run-directory", str(tmp_path / name), *flags]
        assert main(["--mode", "train", *SMALL, *words]) == 0

    def learned(name):
        return [json.loads(line)["trajectory_sha256"] for line in (tmp_path / name / "metrics.jsonl").open()]

    for name in ("before", "now"):
        train(2, name)
    for path in (tmp_path / "before" / "checkpoints").rglob("*.json"):
        facts = unseal(path.read_bytes())
        facts["simulator"]["simulator"] = facts["simulator"]["simulator"].replace("longstride.", "core.", 1)
        path.write_bytes(seal(facts))
        assert b"core.simulators.classic_control" in path.read_bytes()
    for name in ("before", "now"):
        train(4, name, "--resume")
    assert learned("before") == learned("now") and len(learned("now")) == 4
    assert load_run(tmp_path / "before", print)[1]["simulator"]["simulator"].startswith("longstride.simulators.")


def test_a_file_that_imports_the_name_before_is_told_the_new_one(tmp_path, capsys):
    (tmp_path / "old.py").write_text("from core.simulators.simulator import Simulator\n")
    assert main(["--mode", "plan", "--simulator", f"{tmp_path / 'old.py'}:Shop"]) == 2
    assert "The package core is called longstride now" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "remedy"),
    [
        ("gymnasium.no_such_part", "Install it: pip install 'longstride[gymnasium]'."),
        ("no_such_package.part", "Install what no_such_package belongs to, or correct the name."),
    ],
)
def test_a_missing_package_of_a_simulator_has_a_remedy(module, remedy, tmp_path):
    (tmp_path / "mine.py").write_text(f"import {module}\n")
    with pytest.raises(UserError) as caught:
        load_simulator(f"{tmp_path / 'mine.py'}:Mine")
    assert str(caught.value).endswith(remedy)
