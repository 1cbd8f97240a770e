"""How much of the actor's gradient is noise: the measure that decides how much the next iteration collects."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longstride.learning.advantages import Total


class GradientNoise(NamedTuple):
    """Squared length of the actor's gradient, and the variance of its estimate from a rollout.

    Both are unbiased estimates, so that a signal far below the noise may come out negative.
    """

    signal: float  # |G|^2
    noise: float  # E |g - G|^2 of g, the mean over the rollout


def gradient_noise(gradients: Iterable[Tensor], total_of: Total | None = None) -> GradientNoise | None:
    """Return the noise in the mean of some gradients, float[parameters], each from an independent part of one size.

    The parts are trajectories of different environment instances. Samples of one trajectory share their luck, and parts
    that shared it would call it signal. Noise over signal is the simple noise scale of McCandlish et al., "An empirical
    model of large-batch training" (2018), appendix A, in units of the rollout. None of a single part. With a function
    that adds up numbers over several processes, which have parts each, it is that of all parts.
    """
    count, total, squares = 0, None, 0.0
    for gradient in gradients:
        each = gradient.double()
        total = each if total is None else total.add_(each)
        count, squares = count + 1, squares + float(each.square().sum())
    if total is not None and total_of is not None:
        added = total_of(np.concatenate([[count, squares], total.cpu().numpy()]))
        count, squares, total = round(added[0]), float(added[1]), torch.from_numpy(added[2:])
    if total is None or count < 2:
        return None
    squared_mean = float((total / count).square().sum())
    noise = (squares / count - squared_mean) / (count - 1)
    return GradientNoise(squared_mean - noise, noise)
