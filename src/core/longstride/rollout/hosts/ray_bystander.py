"""A small process that says why a run has ended if Ray ended it; it imports nothing of this package.

It reads a line from the guard: a sentence with a place for a name, and Ray's processes by their names. A second line
lets it go. If the input ends without one, the learner has ended. It then says the sentence if Ray ended with it.
"""

import json
import os
import select
import sys
from collections.abc import Mapping


def first_to_end(numbers: Mapping[str, int]) -> str:
    """Wait until the guard speaks, the learner ends or a process ends; return that process's name, else empty."""
    if not hasattr(os, "pidfd_open"):  # outside of Linux the guard's thread alone speaks
        return ""
    watched: dict[int, str] = {}
    for name, number in numbers.items():
        try:
            watched[os.pidfd_open(number)] = name
        except ProcessLookupError:
            return name
    ready = select.select([sys.stdin, *watched], [], [])[0]
    return next((watched[each] for each in ready if each in watched), "")


def stand_by() -> None:
    """Wait for the guard's word or for the end of the learner, and print the sentence if Ray ended with it."""
    sentence, numbers = json.loads(sys.stdin.readline())
    name = first_to_end(numbers)
    if not sys.stdin.readline() and name:
        print(f"error: {sentence.format(name)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    stand_by()
