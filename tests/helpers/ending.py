"""A function for other processes, which import no more than this file for it."""

import multiprocessing
import os


def only_here(number):
    """Return a number; in a process that was started for it, end that."""
    if multiprocessing.parent_process() is not None:
        os._exit(1)
    return number
