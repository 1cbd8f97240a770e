"""check_simulator: plays a simulator as ordinary Python and says, in sentences, what is wrong with it.

``places`` finds the user's line, ``helpers`` and ``watch`` make visible what NumPy and Numba pass in silence, ``calls``
checks single calls, ``repeat`` plays again, ``play`` puts them together, ``hints`` looks at what came out.
"""

from core.simulators.check.check_simulator import check_simulator
from core.simulators.check.random_action import random_action, split_mask

__all__ = ["check_simulator", "random_action", "split_mask"]
