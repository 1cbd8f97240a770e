"""Runs the tests whose many small scenarios would each take seconds to compile, uncompiled, in one process.

Compiled, the same functions play against the reference and the literature in the other files of this folder.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(map(str, Path(__file__).parent.rglob("uncompiled_*.py")))


@pytest.mark.parametrize("part", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_uncompiled(part):
    environment = {
        **os.environ,
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src" / "core"), str(ROOT / "tests")]),
    }
    options = ["-q", "--noconftest", "-W", "ignore::RuntimeWarning"]
    options += [*("-p", "no:xdist"), *("-p", "no:cacheprovider"), *("-p", "helpers.short_runs")]
    command = [sys.executable, "-m", "pytest", *options, "-m", part, *FILES]
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
