"""What error sentences are made of; a shell must find the command that they tell users to type."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from longstride import errors
from longstride.errors import one_line, suggestion, this_command

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A working folder with a virtual environment, a script whose path has a space, and a PATH of one other folder."""
    for folder in ("work/.venv/bin", "work/my scripts", "elsewhere", "bin"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("work/.venv/bin/python", "work/.venv/bin/longstride", "bin/python", "bin/longstride"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "work/my scripts/train.py").touch()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(errors, "_SCRIPT", tmp_path / "work/my scripts/train.py")
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


@pytest.mark.parametrize(
    ("executable", "folder", "command"),
    [
        ("work/.venv/bin/python", "work", ".venv/bin/python 'my scripts/train.py'"),
        ("bin/python", "work", "python 'my scripts/train.py'"),
        ("work/.venv/bin/python", "elsewhere", "{0}/work/.venv/bin/python '{0}/work/my scripts/train.py'"),
    ],
)
def test_the_interpreter_and_the_script_as_a_shell_finds_them(programs, monkeypatch, executable, folder, command):
    monkeypatch.setattr(sys, "executable", str(programs / executable))
    monkeypatch.chdir(programs / folder)
    assert this_command() == command.format(programs)


@pytest.mark.parametrize(
    ("started_as", "command"),
    [
        ("{0}/bin/longstride", "longstride"),
        ("longstride", "longstride"),
        ("{0}/work/.venv/bin/longstride", ".venv/bin/longstride"),
    ],
)
def test_the_installed_command(programs, monkeypatch, started_as, command):
    monkeypatch.setattr(sys, "argv", [started_as.format(programs)])
    assert this_command() == command


def test_a_package_without_scripts_is_the_installed_command(programs, monkeypatch):
    monkeypatch.setattr(errors, "_SCRIPT", programs / "no such script.py")
    assert this_command() == "longstride"


def test_the_command_of_these_tests_runs(tmp_path):
    command = f"{this_command()} --gama 0.9"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=os.getcwd())
    assert shlex.split(command)[-1] == "0.9"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: Unknown argument --gama; did you mean --gamma?\n"


def test_a_suggestion_ends_the_sentence():
    assert suggestion("carpole", ["cartpole", "pendulum"]) == "; did you mean cartpole?"
    assert suggestion("zzz", ["cartpole"], "there is cartpole") == "; there is cartpole."
    assert suggestion("zzz", iter(["cartpole"])) == "."


def test_the_text_of_an_error_becomes_one_line():
    assert one_line(ValueError("first\n  second.")) == "first second"
    assert len(one_line(ValueError("word " * 500))) == 300
