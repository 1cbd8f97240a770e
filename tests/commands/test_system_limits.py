"""Limits of the system: a process that gets no more threads or memory ends with a sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pydantic")

import longstride
from longstride.cli import sentence_of_limits

SOURCES = str(Path(longstride.__file__).parents[1])


def run_limited(work):
    """Return exit code and errors of a command line whose mode does some work under a limit."""
    program = (
        "import resource, sys, threading\nfrom longstride import cli\n"
        f"def work(*_):\n    {work}\n    return 0\ncli._run_mode = work\nsys.exit(cli.main([]))"
    )
    environment = {**os.environ, "PYTHONPATH": SOURCES}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=120)
    return done.returncode, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is Linux'")
def test_no_memory_is_a_sentence():
    limit = "resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30)); bytearray(2**33)"
    code, error = run_limited(limit)
    assert code == 2
    assert error.startswith("error: There is not enough memory")
    assert error.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is Linux'")
def test_no_threads_is_a_sentence():
    limit = (
        "import psutil; now = psutil.Process().memory_info().vms; threading.stack_size(2**28); "
        "resource.setrlimit(resource.RLIMIT_AS, (now + 2**27,) * 2); threading.Thread(target=print).start()"
    )
    code, error = run_limited(limit)
    assert (code, error.count("\n")) == (2, 1)
    assert error.startswith("error: The system allows this process no more threads. Raise its limits")


def test_other_errors_have_no_such_sentence():
    assert sentence_of_limits(RuntimeError("a bug")) is None
    assert sentence_of_limits(ImportError("No module named 'x'")) is None
