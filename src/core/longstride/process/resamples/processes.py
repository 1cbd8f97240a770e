"""Results from several processes. They import what their function needs, and of this package no more than this file."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

T = TypeVar("T")


def results(play: Callable[[int], T], numbers: Sequence[int], workers: int) -> Iterator[T]:
    """Yield the results of some numbers; several workers are processes, as threads would share Python's lock."""
    if workers == 1:
        yield from map(play, numbers)
        return
    context = multiprocessing.get_context("spawn")  # a forked process would hold locks of threads that it lacks
    pool, done = ProcessPoolExecutor(workers, context, _end_with_parent), 0
    try:
        for result in pool.map(play, numbers):
            yield result
            done += 1
    except BrokenProcessPool:  # one that was killed, or that a script without a guard of its main part cannot start
        yield from map(play, numbers[done:])
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """Leave Ctrl-C to the process that started this one, and end when that ends, in whatever way."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
