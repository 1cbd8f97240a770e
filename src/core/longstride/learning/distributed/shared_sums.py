"""Sums over the processes of one host, in memory that they share. Messages over the loopback take five times as long.

Each process writes its numbers into a row of its own, counts up, and waits until all have counted as far. Then it adds
up the rows of all in their order, so that every process has the same bits. Two rooms are used in turns: whoever writes
into one again has seen that all have left it.

A processor must show the writes of one process to the others in their order, as those of the x86 family do.
"""

import mmap
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

FOLDER = Path("/dev/shm")
"""Where Linux keeps files in memory."""

_ROOMS, _COUNTER_BYTES = 2, 64
_LOOK_AFTER = 0.1
"""Seconds of waiting after which the other processes are looked at, again and again."""

make_way: Callable[[], None] = getattr(os, "sched_yield", lambda: None)  # which Windows does not have


def can_share_memory() -> bool:
    """Return whether processes of this host can add up in shared memory."""
    return sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64") and os.access(FOLDER, os.W_OK)


class SharedSums:
    """Adds up to ``numbers`` float32 numbers of ``size`` processes, of which this is number ``rank``.

    The file is to be mapped by all, and can be removed then.
    """

    def __init__(self, path: Path, rank: int, size: int, numbers: int) -> None:
        self.numbers, self._rank, self._round = numbers, rank, 0
        with open(path, "r+b") as file:
            memory = mmap.mmap(file.fileno(), _bytes(size, numbers))
        counters = np.frombuffer(memory, np.int64, size * _COUNTER_BYTES // 8)
        self._counts = counters[:: _COUNTER_BYTES // 8]  # int64[size], each in a cache line of its own
        rooms = np.frombuffer(memory, np.float32, offset=counters.nbytes)
        self._rooms = rooms.reshape(_ROOMS, size, -1)  # float32[2, size, numbers and padding]

    def add(self, parts: Sequence[np.ndarray], look: Callable[[], None]) -> None:
        """Replace arrays, float32[*] each, by their sums over all; ``look`` raises where another process has ended."""
        self._round += 1
        rows = self._rooms[self._round % _ROOMS]
        ends = np.cumsum([len(part) for part in parts]).tolist()
        places = [slice(end - len(part), end) for part, end in zip(parts, ends, strict=True)]
        for part, place in zip(parts, places, strict=True):
            rows[self._rank, place] = part
        self._counts[self._rank] = self._round
        self._wait(look)
        for part, place in zip(parts, places, strict=True):
            np.add(rows[0, place], rows[1, place], out=part)
            for row in rows[2:]:
                part += row[place]

    def _wait(self, look: Callable[[], None]) -> None:
        """Wait until all processes have written this round, with the core awake: they meet for a moment."""
        looked = time.monotonic()
        while self._counts.min() < self._round:
            make_way()
            if time.monotonic() - looked > _LOOK_AFTER:
                look()
                looked = time.monotonic()


def make_file(size: int, numbers: int) -> Path | None:
    """Return a new file in memory for :class:`SharedSums`; None where there is too little room for it."""
    try:
        descriptor, name = tempfile.mkstemp(prefix="longstride-", dir=FOLDER)
    except OSError:
        return None
    try:
        os.posix_fallocate(descriptor, 0, _bytes(size, numbers))
        return Path(name)
    except OSError:
        os.unlink(name)
        return None
    finally:
        os.close(descriptor)


def _bytes(size: int, numbers: int) -> int:
    """Return the bytes of the counters and of the rooms; a row is a whole number of cache lines."""
    return size * (_COUNTER_BYTES + _ROOMS * -(-numbers * 4 // _COUNTER_BYTES) * _COUNTER_BYTES)
