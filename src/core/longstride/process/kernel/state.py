"""The state record of the process simulator."""

import math

import numpy as np

from longstride.errors import UserError
from longstride.jit_cache.sized_records import sized_dtype
from longstride.process.kernel.aims.arrays import BEYOND
from longstride.process.kernel.parameters import Parameters
from longstride.process.kernel.record_sizes import Sizes

NONE = -1

CASES_FULL, OPEN_CASES_FULL, WAITING_FULL = 1, 2, 3
"""Values of ``overflow``; 0 if no capacity was reached."""

Rows = list[tuple[type, str, tuple[int, ...]]]
"""Fields of the record: their type, names and shape."""

_MOST_BYTES = 2**31 - 1
"""Most bytes of a record of NumPy."""


def state_dtype(parameters: Parameters, sizes: Sizes) -> np.dtype:
    """Return the dtype of the state record; times are in the scenario's unit, index -1 means none.

    ``stack_node`` and ``stack_stream`` are scratch of the event loop. ``done`` and ``asked`` are scratch of the action
    features and 0 at all other times. ``able`` counts the available resources of each activity. ``busy_heap`` holds the
    ``busy`` resources at work. With external delays (``has_delays``), ``active`` counts the tasks of a case that wait
    or are served, and ``served`` those that are served. ``resting`` is the number of open cases without active tasks,
    ``serving`` the number with served tasks, and ``resting_time`` and ``serving_time`` are their integrals. With
    batches (``queues.py``), ``slot_member`` is the next task of a batch, and ``gathered`` counts the tasks that gather.
    ``late_entries`` counts those of each queue that can no longer be in time, if they come last.
    ``waiting`` counts the entries of all queues, ``waiting_more`` the further tasks of batches among them.
    The last rows, from ``amounts`` on, are those of ``aims/quantities.py`` and ``aims/case_classes.py``.

    Raises:
        UserError: the record would be too large.
    """
    rows = _rows(parameters, sizes)
    size = sum(np.dtype(kind).itemsize * len(names.split()) * math.prod(shape) for kind, names, shape in rows)
    if size > _MOST_BYTES:
        raise UserError(
            f"An episode may have {sizes.cases:,} cases and {max(sizes.waiting, sizes.timers):,} waiting tasks, whose "
            f"state takes {size / 1e9:.3g} GB, more than 2.1 GB; shorten the horizon, or split cases of thousands of "
            "tasks."
        )
    return sized_dtype((name, kind, shape) for kind, names, shape in rows for name in names.split())


def _rows(parameters: Parameters, sizes: Sizes) -> Rows:
    """Return the fields of the record."""
    resources, pairs = len(parameters.on_duty_at_start), len(parameters.pair_mean)
    activities = len(parameters.activity_pairs) - 1
    joins, depth = len(parameters.join_size), sizes.depth
    return [
        (np.float64, "time next_arrival next_shift", ()),
        (np.int64, "shift", ()),
        (np.float64, "week_start area", ()),
        (np.uint64, "seed arrival_stream", ()),
        (np.int64, "arrived open waiting waiting_more decisions ended overflow free_slot", ()),
        (np.float64, "arrival_time completion_time", (sizes.cases,)),
        (np.int32, "joined", (sizes.cases, joins)),
        (np.uint8, "available on_duty", (resources,)),
        (np.int64, "busy_pair", (resources,)),
        (np.float64, "finish started busy_time change_at change_after", (resources,)),
        (np.int64, "work_case work_node", (resources,)),
        (np.uint64, "work_stream", (resources,)),
        (np.int64, "queue_head queue_tail queue_length", (activities,)),
        (np.int64, "slot_case slot_node", (sizes.waiting,)),
        (np.uint64, "slot_stream", (sizes.waiting,)),
        (np.float64, "slot_enabled", (sizes.waiting,)),
        (np.int64, "slot_next", (sizes.waiting,)),
        (np.int64, "stack_node", (depth,)),
        (np.uint64, "stack_stream", (depth,)),
        (np.float64, "done", (pairs,)),
        (np.uint8, "asked", (pairs,)),
        (np.int64, "able", (activities,)),
        (np.int64, "busy timers resting serving day change_hours", ()),
        (np.int64, "busy_heap duty_mask", (resources,)),
        (np.float64, "work duty_time", (resources,)),
        (np.float64, "resting_time serving_time", ()),
        (np.int32, "active served", (sizes.cases if parameters.has_delays else 1,)),
        (np.float64, "timer_time", (sizes.timers,)),
        (np.int64, "timer_case timer_node", (sizes.timers,)),
        (np.uint64, "timer_stream", (sizes.timers,)),
        (np.int64, "late_entries", (activities if parameters.late_last else 1,)),
        *_rows_of_batches(*((sizes.waiting, activities, resources) if parameters.has_batches else (1, 1, 1))),
        *_rows_of_quantities(resources, sizes.cases if parameters.counts else 1),
    ]


def _rows_of_batches(waiting: int, activities: int, resources: int) -> Rows:
    """Return the fields of ``queues.py``."""
    return [
        (np.int64, "slot_member", (waiting,)),
        (np.int64, "gathered gather_head gather_tail", (activities,)),
        (np.int64, "work_member", (resources,)),
    ]


def _rows_of_quantities(resources: int, cases: int) -> Rows:
    """Return the fields of ``aims/quantities.py``."""
    return [
        (np.float64, "amounts totals extra extra_totals", (BEYOND + 1,)),
        (np.float64, "paying", ()),
        (np.float64, "pays", (resources,)),
        (np.int64, "overworked due_count late_open aged", ()),
        (np.uint8, "works_over", (resources,)),
        (np.float64, "due_time", (cases,)),
        (np.int64, "due_heap last_person", (cases,)),
        (np.int32, "case_class", (cases,)),
        (np.float64, "heavy_open heavy_late heavy_waiting", ()),
    ]
