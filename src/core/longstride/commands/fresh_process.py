"""Commands in fresh processes: each starts as a user's would, with nothing left from the one before."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from longstride.import_path import child_environment
from longstride.own_files.opening import open_own

_ENDS_WITH_PARENT = """\
import os, sys, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(130)), daemon=True).start()
"""
"""Ends a process whose standard input ends, as it does when the process that started it dies in whatever way."""

_COMMAND = f"{_ENDS_WITH_PARENT}from longstride.cli import main\nsys.exit(main())"

_POLL = 1.0
"""Seconds between two looks at a process that is watched."""


def run_fresh(arguments: Sequence[str], log: Path, stop: Callable[[], bool] | None = None) -> tuple[int, float]:
    """Run a command in a process of its own, its output in ``log``; return its exit code and its seconds.

    If this process is interrupted, terminated or killed, so is that one. ``stop`` is asked once a second whether to
    kill it; the exit code is negative then.
    """
    begin = time.perf_counter()
    with _terminated_by_exception(), open_own(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _COMMAND, *arguments],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=child_environment(),
            start_new_session=True,  # Ctrl-C comes to us alone: a run that is measured is not finished gently
        )
        try:
            return _wait(process, stop), time.perf_counter() - begin
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()


def last_words(code: int, log: Path) -> str:
    """Return why a command failed: its error, else its signal (a negative code), or its exit code and last line."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if errors:
        return errors[-1]
    if code < 0:
        return f"signal {-code} ended it."
    return f"exit code {code}{f', {lines[-1]}' if lines else ''}."


def _wait(process: "subprocess.Popen[bytes]", stop: Callable[[], bool] | None) -> int:
    """Return the exit code of a process, which is killed as soon as ``stop`` says so."""
    while stop is not None:
        try:
            return process.wait(_POLL)
        except subprocess.TimeoutExpired:
            if stop():
                process.kill()
                break
    return process.wait()


@contextmanager
def _terminated_by_exception() -> Iterator[None]:
    """Let SIGTERM and a closed terminal do what Ctrl-C does, so that no child process stays behind."""
    names = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    previous = {n: signal.getsignal(n) for n in numbers if signal.getsignal(n) is not signal.SIG_IGN}  # nohup
    for number in previous:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
