"""The page "Install": its table of extras, and its script for SLURM."""

import os
import shutil
import signal
import subprocess
import time
from configparser import ConfigParser

import pytest
from helpers.documentation import ROOT, blocks, names, page, rows, section

PROGRAM = """#!/bin/bash
echo "$@" >> runs.log
mkdir -p runs/loan_desk/checkpoints/last
trap 'sleep 0.3; exit {code}' TERM
while :; do sleep 0.05; done
"""
"""Stands for the installed command: it takes a moment at SIGTERM, as a run that finishes its iteration."""


def test_every_extra_is_in_the_table():
    setup = ConfigParser(interpolation=None)
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    listed = [
        name for cells in rows(section(page("how-to/install.md"), "Optional packages")) for name in names(cells[:1])
    ]
    assert sorted(listed) == sorted(setup["options.extras_require"])


@pytest.fixture
def job(tmp_path):
    """Return a function that runs the page's script, signals it, and returns exit code, runs and requeues."""
    (script,) = blocks(page("how-to/install.md"), 'sh title="run.sbatch"')
    (tmp_path / "run.sbatch").write_text(script)

    def command(name, text):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    def lines(name):
        return (tmp_path / name).read_text().splitlines() if (tmp_path / name).exists() else []

    def run(number, code):
        command("longstride", PROGRAM.format(code=code))
        command("scontrol", '#!/bin/sh\necho "$@" >> requeued.log\n')
        environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
        begun = len(lines("runs.log"))
        process = subprocess.Popen(["bash", "run.sbatch"], cwd=tmp_path, env=environment, start_new_session=True)
        end = time.monotonic() + 60
        while len(lines("runs.log")) == begun:
            assert time.monotonic() < end
            time.sleep(0.05)
        time.sleep(0.3)  # the program sets its trap
        # The limit signals the script alone, a cancelled job all of its processes.
        (os.kill if number == signal.SIGUSR1 else os.killpg)(process.pid, number)
        return process.wait(60), lines("runs.log")[begun:], lines("requeued.log")

    return run


@pytest.mark.skipif(os.name != "posix" or not shutil.which("bash"), reason="a script of bash")
def test_the_job_is_queued_again_only_after_its_time_limit_and_then_resumes(job):
    arguments = "--run-directory runs/loan_desk --training-episodes 500"
    assert job(signal.SIGUSR1, 130) == (0, [f"--mode train {arguments}"], ["requeue 7"])
    resumed = [f"--mode train --resume {arguments}"]
    assert job(signal.SIGTERM, 130) == (130, resumed, ["requeue 7"]), "a cancelled job"
    assert job(signal.SIGUSR1, 2) == (2, resumed, ["requeue 7"]), "a run that has failed"


DOCKER = """#!/bin/sh
echo "$@" >> "$LOG"
case "$*" in *--mode*) exit 1 ;; *"-u"*) echo 1000 ;; esac
"""


def test_the_check_of_the_image_leaves_no_volume_after_a_failure(tmp_path):
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(tmp_path / "log")}
    done = subprocess.run([ROOT / ".ci" / "docker"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert (tmp_path / "log").read_text().splitlines()[-1] == "volume rm -f longstride-ci-kernels"
