"""Nothing in the working folder runs because of its name: not as a module of a library, not as settings."""

import os
import subprocess
import sys

import pytest
from helpers.documentation import ROOT
from test_foreign_runs import write_run

pytest.importorskip("pydantic")

from longstride.commands import fresh_process

PLANTED = ("json", "rich", "matplotlib", "numpy", "torch", "pydantic", "html", "jinja2", "safetensors", "numba")
STARTS = {
    "script": [str(ROOT / "scripts" / "train.py")],
    "module": ["-m", "longstride"],
    "installed": ["-c", "import sys; sys.path.pop(0); from longstride.__main__ import run; sys.exit(run())"],
}


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a run and modules that would tell that they ran."""
    write_run(tmp_path / "run", {"simulator": "cartpole", "options": {}})
    for name in PLANTED:
        (tmp_path / f"{name}.py").write_text(f"open('ran-{name}', 'w').close()\n")
    return tmp_path


def ran(folder):
    return sorted(path.name for path in folder.glob("ran-*"))


def command(start, folder, *arguments):
    path = f"{ROOT / 'src' / 'core'}{os.pathsep}"  # the empty entry is the working folder
    environment = {**os.environ, "PYTHONPATH": path}
    words = [sys.executable, *STARTS[start], *arguments]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("start", STARTS)
def test_a_planted_module_does_not_run_however_the_command_starts(start, folder):
    done = command(start, folder, "--mode", "report", "--run-directory", "run")
    assert (ran(folder), done.returncode, done.stderr) == ([], 0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "--checkpoint", "run", "--format", "safetensors"],
        ["evaluate", "--policy", "random", "--simulator", "gymnasium:CartPole-v1", "--evaluation-episodes", "2"],
        ["recommend", "--run-directory", "run", "--state", "x.json"],
        ["whatif", "--checkpoint", "run"],
        ["track", "--run-directory", "run", "--to", "mlflow"],
        ["replay", "--run-directory", "run", "--iteration", "9"],
        ["plan", "--simulator", "cartpole"],
    ],
)
def test_a_planted_module_runs_in_no_mode(arguments, folder):
    done = command("script", folder, "--mode", *arguments)
    assert (ran(folder), "Traceback" in done.stderr) == ([], False), done.stderr


@pytest.mark.slow
def test_a_planted_module_does_not_run_in_the_players_of_ray(folder):
    """Ray puts the folder in which it is begun first on the path of its workers; a simulator's helper comes last."""
    pytest.importorskip("ray")
    (folder / "walk.py").write_text("from beside_it import Shop\n")
    (folder / "beside_it.py").write_text((ROOT / "tests" / "oracles" / "toy_simulators.py").read_text())
    small = ["--num-envs", "4", "--training-episodes", "4", "--device", "cpu"]
    words = ["--mode", "train", "--simulator", "walk.py:Shop", "--rollout-hosts", "local:1", *small]
    done = command("script", folder, *words)
    assert (ran(folder), done.returncode) == ([], 0), done.stderr


def test_a_planted_module_does_not_run_in_the_processes_of_sweep_and_ab(folder, monkeypatch):
    monkeypatch.chdir(folder)
    code, _ = fresh_process.run_fresh(["--mode", "plan", "--simulator", "cartpole"], folder / "log")
    assert (ran(folder), code) == ([], 0), (folder / "log").read_text()


def test_the_settings_of_the_folder_are_read_where_they_are_needed_and_said(folder):
    (folder / "hyperparameters.py").write_text("open('ran-hyperparameters', 'w').close()\n")
    for arguments in (["report", "--run-directory", "run"], ["export", "--checkpoint", "run", "--format", "c"]):
        done = command("module", folder, "--mode", *arguments)
        assert (ran(folder), "hyperparameters.py of this folder" in done.stdout) == ([], False)
    done = command("module", folder, "--mode", "plan", "--simulator", "cartpole")
    assert "Settings from hyperparameters.py of this folder." in done.stdout
    assert ran(folder) == ["ran-hyperparameters"]
