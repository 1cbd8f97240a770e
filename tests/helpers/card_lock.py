"""One test file at a time on the GPU, however many workers pytest-xdist has."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

LOCK = Path(tempfile.gettempdir()) / "longstride_tests_of_the_gpu.lock"


def wants_card(items, path):
    """Return whether any of pytest's items in a file is marked as needing a GPU."""
    return any(item.path == path and item.get_closest_marker("gpu") for item in items)


@contextmanager
def card_lock(path=LOCK, wait=True):
    """Hold the card; without waiting, raise BlockingIOError where it is held already.

    The file may be that of another user of the machine, who may only be read from: that is enough for a lock.
    """
    import fcntl  # Windows has none, where no such test runs

    descriptor = _opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield descriptor
    finally:
        os.close(descriptor)


def _opened(path):
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)


def gpu_file(items, path, has_card, lock=LOCK):
    """Yield, and meanwhile hold the card where there is one and a file's tests want it."""
    if not (wants_card(items, path) and has_card()):
        yield
        return
    with card_lock(lock):
        yield
