"""The forward pass of a half-batch as CUDA would run it, on a card that is not there (helpers/fake_card)."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.memory_models import memory_spec
from helpers.toy_runs import toy_model

from core.hardware.planning.roofline import forward_operations

COMPILER = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
HEADERS = Path(find_spec("torch").origin).with_name("include") / "ATen"
pytestmark = pytest.mark.skipif(
    COMPILER is None or not HEADERS.is_dir() or sys.platform != "linux",
    reason="compiling the fake card needs Linux, a C++ compiler and torch's headers",
)
SPECS = {"mlp": toy_model("shop").spec, "mingru": memory_spec(), "mingru of one layer": memory_spec(actor=(16,))}
CASES = [*SPECS, *(f"{name} captured" for name in SPECS)]


def in_a_process(*arguments):
    """Run Python with the tests and the sources on its path; return what it printed."""
    tests = Path(__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent / "src")])}
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def forwards(tmp_path_factory):
    """Return what the third forward pass of each case did."""
    library = tmp_path_factory.mktemp("fake_card") / "guard.so"
    build = "import pathlib, sys; from helpers.fake_card.card import build_guard; "
    in_a_process("-c", build + "build_guard(pathlib.Path(sys.argv[1]), sys.argv[2])", library, COMPILER)
    return json.loads(in_a_process("-m", "helpers.fake_card.forwards", library))


@pytest.mark.parametrize("case", CASES)
def test_the_card_computes_what_the_cpu_does(forwards, case):
    assert forwards[case]["difference"] < 1e-5
    assert forwards[case]["largest"] > 0.1
    assert forwards[case]["note"] == ""


@pytest.mark.parametrize("case", CASES)
def test_the_host_waits_for_the_outputs_alone(forwards, case):
    """Observations go up, for memory with the beginnings of episodes; the copy of the outputs is the one way down."""
    assert forwards[case]["mixed"] == []
    assert forwards[case]["uploads"] == (2 if case.startswith("mingru") else 1)
    assert forwards[case]["reads"] == ["copy_"]


@pytest.mark.parametrize("case", SPECS)
def test_the_plan_counts_the_launches(forwards, case):
    traffic = forwards[case]
    operations = sum(traffic["launches"].values()) + traffic["uploads"] + len(traffic["reads"])
    assert operations == forward_operations(SPECS[case])
