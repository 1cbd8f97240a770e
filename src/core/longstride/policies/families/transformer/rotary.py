"""Rotary positions (Su et al., "RoFormer", arXiv 2104.09864) that repeat exactly, as keys in a ring need."""

import numpy as np


def rotations(window: int, head_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cosines and sines of the angles by which queries and keys are turned, float64[2 W, head_size / 2] each.

    Row p is for all positions of an episode that leave the rest p on division by 2 W. A step turns pair i by a whole
    multiple of a 2 W-th of a turn. So turned keys can be kept for ever, and the product of a query and a key depends
    on their distance alone, however long the episode: no angle grows until float32 cannot hold it. The multiples fall
    from W / 2, a quarter of a turn a step, to 1, half a turn in the window, by equal factors.
    """
    pairs = head_size // 2
    multiples = np.maximum(np.rint((window / 2) ** np.linspace(1.0, 0.0, pairs)), 1.0)
    angles = np.pi / window * (np.outer(np.arange(2 * window), multiples) % (2 * window))
    return np.cos(angles), np.sin(angles)
