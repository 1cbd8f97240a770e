"""A small process that says why a run has ended if Ray ended it; it imports nothing of this package.

It reads a line from the guard: a sentence with a place for a name, and Ray's processes by their names. A second line
lets it go. If the input ends without one, the learner has ended. It then says the sentence if Ray ended before.
"""

import json
import select
import sys
from collections.abc import Mapping

import psutil

INTERVAL = 0.1
"""Seconds between two looks at Ray's processes."""


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process is gone, or would be if its parent had looked."""
    try:
        return not process.is_running() or bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def first_ended(processes: Mapping[str, psutil.Process]) -> str:
    """Return the name of a process that has ended; empty while all live."""
    return next((name for name, process in processes.items() if has_ended(process)), "")


def stand_by() -> None:
    """Wait for the guard's word or for the end of the learner, and print the sentence if Ray ended it."""
    sentence, numbers = json.loads(sys.stdin.readline())
    processes = {name: psutil.Process(number) for name, number in numbers.items() if psutil.pid_exists(number)}
    ended = ""
    while not select.select([sys.stdin], [], [], INTERVAL)[0]:
        ended = ended or first_ended(processes)
    if not sys.stdin.readline() and (name := ended or first_ended(processes)):
        print(f"error: {sentence.format(name)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    stand_by()
