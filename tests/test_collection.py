"""The tests for a GPU can be collected where only torch, Numba and pytest's own packages are installed."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MISSING = ("pydantic", "pydantic_settings", "gymnasium", "ciw", "simpy", "stable_baselines3", "pm4py")


@pytest.mark.slow
def test_the_gpu_tests_need_no_package_of_the_command_line():
    """One file that cannot be imported stops all of pytest, the GPU's tests with it."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({MISSING})); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "-m", "gpu", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]
    for file in ("hardware/test_gpu_machine.py", "learning/step_costs/test_gpu_memory.py", "learning/test_gpu.py"):
        assert f"tests/{file}::" in done.stdout
