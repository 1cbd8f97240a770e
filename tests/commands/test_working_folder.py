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


SEVERAL = """
import os, runpy, sys  # what else is imported here could be a planted module
folder, program, commands = os.getcwd(), *eval(sys.argv[1])
for words in commands:
    sys.argv = ["longstride", *words]
    print("next command", file=sys.stderr, flush=True)
    print("next command", flush=True)
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit:
        pass
    print(f"path: {any(os.path.realpath(entry) == os.path.realpath(folder) for entry in sys.path)}")
    print(f"ran: {sorted(name for name in os.listdir() if name.startswith('ran-'))}", flush=True)
"""
"""Runs commands one after another: a module is imported once a process, but the path may not change either."""


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


def several(program, folder, *commands):
    """Run commands in one process, which saves the starts of others; return what each printed: output, errors."""
    (folder.parent / f"{folder.name}-runs.py").write_text(SEVERAL)
    words = [str(folder.parent / f"{folder.name}-runs.py"), repr([str(program), commands])]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src' / 'core'}{os.pathsep}"}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)
    output, errors = (text.split("next command\n")[1:] for text in (done.stdout, done.stderr))
    assert len(output) == len(errors) == len(commands), done.stderr
    assert all("path: False\n" in text for text in output)
    return list(zip(output, errors, strict=True))


def test_a_planted_module_runs_in_no_mode(folder):
    commands = [
        ["export", "--checkpoint", "run", "--format", "safetensors"],
        ["evaluate", "--policy", "random", "--simulator", "gymnasium:CartPole-v1", "--evaluation-episodes", "2"],
        ["recommend", "--run-directory", "run", "--state", "x.json"],
        ["whatif", "--checkpoint", "run"],
        ["track", "--run-directory", "run", "--to", "mlflow"],
        ["replay", "--run-directory", "run", "--iteration", "9"],
        ["plan", "--simulator", "cartpole"],
    ]
    found = several(ROOT / "scripts" / "train.py", folder, *(["--mode", *words] for words in commands))
    for words, (output, errors) in zip(commands, found, strict=True):
        assert ("ran: []" in output, "Traceback" in errors) == (True, False), (words, errors)


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
    modes = (["report", "--run-directory", "run"], ["export", "--checkpoint", "run", "--format", "c"])
    program = ROOT / "src" / "core" / "longstride" / "__main__.py"
    commands = [["--mode", *words] for words in (*modes, ["plan", "--simulator", "cartpole"])]
    *others, (planned, _) = several(program, folder, *commands)
    for output, _ in others:
        assert ("ran: []" in output, "hyperparameters.py of this folder" in output) == (True, False)
    assert "Settings from hyperparameters.py of this folder." in planned
    assert ran(folder) == ["ran-hyperparameters"]
