"""Runs the tests of ``world/``, whose many small scenarios would each take seconds to compile, uncompiled."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDER = Path(__file__).parent / "world"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("uncompiled_*.py")))
def test_uncompiled(name):
    environment = {
        **os.environ,
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
    }
    options = ["-q", "-p", "no:xdist", "--noconftest", "-p", "no:cacheprovider", "-W", "ignore::RuntimeWarning"]
    command = [sys.executable, "-m", "pytest", *options, str(FOLDER / f"{name}.py")]
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
