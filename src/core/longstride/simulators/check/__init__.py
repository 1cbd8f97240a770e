"""check_simulator: plays a simulator as ordinary Python and reports in sentences what is wrong with it.

``check_simulator`` plays, replays and compiles; ``calls`` checks single calls; ``determinism`` compares repeated ones;
``advice`` gives hints about the results. ``instrumented_arrays`` and ``checked_helpers`` detect what NumPy and Numba do
not report, and ``source_location`` finds the user's line.
"""

from longstride.simulators.check.check_simulator import check_simulator
from longstride.simulators.check.random_action import random_action, split_mask

__all__ = ["check_simulator", "random_action", "split_mask"]
