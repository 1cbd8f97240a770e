"""A process with a time limit, which ends with everything that it started."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import psutil

ROOT = Path(__file__).resolve().parents[2]

GRACE_SECONDS = 5.0
"""Time for a process to end by itself, and to end those that it measures, before it is killed."""


class Ended(NamedTuple):
    """How a process ended: its exit code, None where the time limit ended it, and its seconds."""

    code: int | None
    seconds: float


def run(command: Sequence[str], log: Path, limit: float, more: Mapping[str, str] = MappingProxyType({})) -> Ended:
    """Run a command in the project's folder, its output in a file, for at most so many seconds.

    Environment variables may be added.
    """
    begin = time.perf_counter()
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**environment(), **more},
            start_new_session=True,  # Ctrl-C comes to the report alone, which ends the part and keeps the others
        )
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
    return Ended(code, time.perf_counter() - begin)


def environment() -> dict[str, str]:
    """Return the environment of this process, with the project's sources in front and a crash that shows its stack."""
    paths = [str(ROOT), str(ROOT / "src" / "core"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONFAULTHANDLER": "1"}


def last_words(code: int | None, log: Path, limit: float) -> str:
    """Return why a process ended as it did, in words: its last line of output, and a signal's name."""
    if code is None:
        return f"took more than {limit:.0f} s"
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    words = lines[-1] if lines else "it said nothing"
    if code >= 0:
        return words
    return f"ended by {signal.Signals(-code).name if -code in set(signal.Signals) else f'signal {-code}'}; {words}"


def python(*arguments: str) -> list[str]:
    """Return a command of this interpreter."""
    return [sys.executable, *arguments]


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a process and all that it started, also in sessions of their own: politely, then not."""
    family = _descendants(process.pid)
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    family += _descendants(process.pid)
    for each in family:
        with contextlib.suppress(psutil.Error):
            each.kill()
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # those whose parent has ended before them
    process.wait()
    psutil.wait_procs(family, GRACE_SECONDS)  # whoever comes next finds the card as free as it was


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
