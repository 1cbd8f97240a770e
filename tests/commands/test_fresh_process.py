"""Fresh processes: they end with the one that started them, and say why they failed."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from longstride.commands import fresh_process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_child_dies_with_its_parent(number, tmp_path, monkeypatch):
    monkeypatch.setattr(fresh_process, "_COMMAND", "import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    log, inherited = tmp_path / "log", signal.signal(number, signal.default_int_handler)  # nohup ignores SIGHUP

    def terminate():
        while not (log.exists() and log.read_text().endswith("\n")):
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=terminate)
    before = signal.getsignal(number)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        fresh_process.run_fresh([], log)
    thread.join()
    assert signal.getsignal(number) is before
    signal.signal(number, inherited)
    with pytest.raises(ProcessLookupError):
        os.kill(int(log.read_text()), 0)


def test_a_child_dies_with_a_parent_that_is_killed(tmp_path):
    log = tmp_path / "log"
    child = "print(os.getpid(), flush=True); import time; time.sleep(600)"
    parent = (
        "from pathlib import Path; from longstride.commands import fresh_process as f; "
        f"f._COMMAND = f._ENDS_WITH_PARENT + {child!r}; f.run_fresh([], Path({str(log)!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", parent]) as process:
        assert eventually(lambda: log.exists() and log.read_text().endswith("\n"))
        process.kill()
    assert eventually(lambda: not running(int(log.read_text())))


def eventually(condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def running(number):
    """Return whether a process is there; one that nobody waits for stays as a zombie."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{number}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


def test_a_watched_child_is_ended_or_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(fresh_process, "_POLL", 0.05)
    monkeypatch.setattr(fresh_process, "_COMMAND", "import sys, time; time.sleep(float(sys.argv[1])); sys.exit(3)")
    asked = []
    code, seconds = fresh_process.run_fresh(["600"], tmp_path / "log", lambda: asked.append(1) or len(asked) > 2)
    assert (code < 0, len(asked), seconds < 60) == (True, 3, True)
    assert fresh_process.run_fresh(["0.2"], tmp_path / "log", lambda: False)[0] == 3


def test_last_words(tmp_path):
    log = tmp_path / "log"
    log.write_text("Plan:\nerror: No GPU.\nmore\n")
    assert fresh_process.last_words(2, log) == "No GPU."
    log.write_text("Traceback\nValueError: x\n")
    assert fresh_process.last_words(1, log) == "exit code 1, ValueError: x."
    assert fresh_process.last_words(-9, log) == "signal 9 ended it."
