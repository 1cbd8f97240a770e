"""Processes in which the fake card takes the place of a GPU: it must be there before torch is used."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
COMPILER = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
HEADERS = Path(find_spec("torch").origin).with_name("include") / "ATen"
needs_a_compiler = pytest.mark.skipif(
    COMPILER is None or not HEADERS.is_dir() or sys.platform != "linux",
    reason="compiling the fake card needs Linux, a C++ compiler and torch's headers",
)


def on_a_fake_card(module, folder):
    """Run a module with a freshly compiled guard in a folder; return the JSON that it printed."""
    library = folder / "guard.so"
    build = "import pathlib, sys; from helpers.fake_card.card import build_guard; "
    in_a_process("-c", build + "build_guard(pathlib.Path(sys.argv[1]), sys.argv[2])", library, COMPILER)
    return json.loads(in_a_process("-m", module, library))


def in_a_process(*arguments):
    """Run Python with the tests and the sources on its path; return what it printed."""
    paths = [str(TESTS), str(TESTS.parent / "src" / "core"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout
