"""The state record of the process simulator."""

import numpy as np

from core.simulators.process.parameters import Parameters, Sizes

NONE = -1

CASES_FULL, OPEN_CASES_FULL, WAITING_FULL = 1, 2, 3
"""What ``overflow`` says; 0 where no capacity was reached."""


def state_dtype(parameters: Parameters, sizes: Sizes) -> np.dtype:
    """Return the dtype of the state record; times in the scenario's unit, indices -1 where there is none.

    ``stack_node`` and ``stack_stream`` are scratch of the event loop; ``done`` and ``asked`` are scratch of the look
    ahead and 0 but while it is made.
    """
    resources, pairs = len(parameters.on_duty_at_start), len(parameters.pair_mean)
    activities = len(parameters.activity_pairs) - 1
    joins, depth = len(parameters.join_size), len(parameters.node_kind) + 1
    scalars = [
        ("time", np.float64),
        ("next_arrival", np.float64),
        ("next_shift", np.float64),
        ("shift", np.int64),
        ("week_start", np.float64),
        ("area", np.float64),
        ("control", np.float64),
        ("seed", np.uint64),
        ("arrival_stream", np.uint64),
        ("arrived", np.int64),
        ("open", np.int64),
        ("busy", np.int64),
        ("waiting", np.int64),
        ("decisions", np.int64),
        ("ended", np.int64),
        ("overflow", np.int64),
        ("free_slot", np.int64),
    ]
    arrays = [
        ("arrival_time", np.float64, (sizes.cases,)),
        ("completion_time", np.float64, (sizes.cases,)),
        ("joined", np.int32, (sizes.cases, joins)),
        ("available", np.uint8, (resources,)),
        ("on_duty", np.uint8, (resources,)),
        ("busy_pair", np.int64, (resources,)),
        ("finish", np.float64, (resources,)),
        ("started", np.float64, (resources,)),
        ("busy_time", np.float64, (resources,)),
        ("change_at", np.float64, (resources,)),
        ("change_after", np.float64, (resources,)),
        ("work_case", np.int64, (resources,)),
        ("work_node", np.int64, (resources,)),
        ("work_stream", np.uint64, (resources,)),
        ("queue_head", np.int64, (activities,)),
        ("queue_tail", np.int64, (activities,)),
        ("queue_length", np.int64, (activities,)),
        ("slot_case", np.int64, (sizes.waiting,)),
        ("slot_node", np.int64, (sizes.waiting,)),
        ("slot_stream", np.uint64, (sizes.waiting,)),
        ("slot_enabled", np.float64, (sizes.waiting,)),
        ("slot_next", np.int64, (sizes.waiting,)),
        ("stack_node", np.int64, (depth,)),
        ("stack_stream", np.uint64, (depth,)),
        ("done", np.float64, (pairs,)),
        ("asked", np.uint8, (pairs,)),
    ]
    return np.dtype([*scalars, *arrays])
