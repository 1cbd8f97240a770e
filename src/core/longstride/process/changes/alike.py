"""Simulators of scenarios with the same people and pairs, in arrays of the same sizes: one kernel serves all of them.

Compiling a kernel takes seconds, and the kernel fits one layout of parameters and state. A table that comes with a
count or with first indices may be longer than its used part, and a state may hold more cases than arrive. The kernel
also contains a number of steps that no episode reaches.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from longstride.process.kernel.record_sizes import Sizes
from longstride.process.kernel.state import state_dtype
from longstride.process.simulator import ProcessSimulator

_LONGER = {
    *("shift_times", "shift_resource", "shift_on", "shift_until", "shift_after", "duty_intervals"),
    *("roster_cumulative", "roster_mask", "leave_begin", "leave_end"),
}
"""Fields of the parameters whose rows after the last used one are never read."""


def same_sizes(simulators: Sequence[ProcessSimulator]) -> list[ProcessSimulator]:
    """Return simulators of the same episodes, with the same dtypes if people and pairs are the same."""
    found = list(simulators)
    kinds: dict[tuple[Any, ...], list[int]] = {}
    for i, simulator in enumerate(simulators):
        kinds.setdefault(_kind(simulator), []).append(i)
    for members in kinds.values():
        if len(members) > 1:
            for i, simulator in zip(members, _alike([simulators[i] for i in members]), strict=True):
                found[i] = simulator
    return found


def _kind(simulator: ProcessSimulator) -> tuple[Any, ...]:
    """Return the values that must be equal: labels, a capacity, shapes of fields that cannot be longer, counting."""
    dtype = simulator.parameters.dtype
    shapes = tuple((name, dtype[name]) for name in dtype.names if name not in _LONGER)
    most = simulator.scenario.capacity.waiting_tasks
    counts = int(simulator.parameters["counts"])
    return shapes, tuple(map(tuple, simulator.labels.values())), simulator.metrics_dtype, most, counts


def _alike(simulators: Sequence[ProcessSimulator]) -> list[ProcessSimulator]:
    dtypes = [simulator.parameters.dtype for simulator in simulators]
    fields = []
    for name in dtypes[0].names:
        longest = max((dtype[name] for dtype in dtypes), key=lambda field: field.shape[:1])
        fields.append((name, longest.base, longest.shape))
    sizes = Sizes(*map(max, zip(*(simulator.sizes for simulator in simulators), strict=True)))
    return [_padded(simulator, np.dtype(fields), sizes) for simulator in simulators]


def _padded(simulator: ProcessSimulator, dtype: np.dtype, sizes: Sizes) -> ProcessSimulator:
    changed, record = copy.copy(simulator), np.zeros(1, dtype).view(np.recarray)
    for name in dtype.names or ():
        value = simulator.parameters[name]
        if np.ndim(value):
            record[name][0][: len(value)] = value
        else:
            record[name][0] = value
    changed.parameters = record[0]
    changed.state_dtype = state_dtype(simulator.parameters, sizes)
    changed.max_steps = sizes.max_steps  # a kernel that serves all of them ends no episode too early
    return changed
