"""check_simulator: plays a simulator as ordinary Python and says, in sentences, what is wrong with it.

``places`` finds the user's line, ``helpers`` and ``watch`` make visible what NumPy and Numba pass in silence, ``calls``
checks single calls, ``repeat`` plays again, ``play`` puts them together, ``hints`` looks at what came out.
"""

from core.simulators.check.actions import random_action, split_mask
from core.simulators.check.play import check_simulator

__all__ = ["check_simulator", "random_action", "split_mask"]
