"""Policies that score each feasible action by its description, for any number of actions, in torch.

Multilayer perceptrons turn the observation, a summary of fixed size, into an encoding e of D numbers. One network with
the same parameters for all actions then scores an action with the description f, F figures:

    score = v . g(W2 g(e + W1 n(f)) + b) + w . f

where g is the policy's activation and n shifts, scales and clips as observations are. The linear term w . f is where a
policy starts that a rule of the simulator initialises. Probabilities are the softmax of the scores of the feasible
actions (pointer networks: Vinyals et al., 2015). No parameter depends on how many actions there are.

Lists of feasible actions differ in length, so those of all observations lie one after another, without padding.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from longstride.policies.parameter_layout import (
    ACTION_MEAN,
    ACTION_SCALE,
    DESCRIBE,
    FEATURE_WEIGHTS,
    MIX,
    MIX_BIAS,
    SCORE,
    USUAL_LIMIT,
)

_HEAD_GAIN = 0.01
"""Gain of the initial scores, as of other heads: an untrained policy is its linear term."""


class ActionList(NamedTuple):
    """The A feasible actions of B observations, those of the first observation first.

    Attributes:
        descriptions: float32[A, F], as the simulator wrote them.
        rows: int64[A], the observation that each belongs to, 0 .. B - 1, ascending.
    """

    descriptions: Tensor
    rows: Tensor


def scores(
    encodings: Tensor, actions: ActionList, tensors: Mapping[str, Tensor], activation: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return float32[A], the scores of actions, for float32[B, D] encodings of the observations; in float32."""
    described = (actions.descriptions - tensors[ACTION_MEAN]) * tensors[ACTION_SCALE]
    described = described.clamp(-USUAL_LIMIT, USUAL_LIMIT)
    hidden = activation(torch.addmm(encodings.index_select(0, actions.rows), described, tensors[DESCRIBE]))
    hidden = activation(torch.addmm(tensors[MIX_BIAS], hidden, tensors[MIX]))
    return torch.mv(hidden, tensors[SCORE]) + torch.mv(actions.descriptions, tensors[FEATURE_WEIGHTS])


def one_of_each_list(scored: Tensor, log_std: Tensor, rows: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Evaluate the choice of one action of each list; see :data:`longstride.policies.distributions.Distribution`.

    Args:
        scored: float32[A], scores of the actions of all lists.
        log_std: not used.
        rows: int64[A], the list that each action belongs to.
        places: int64[B], places of the chosen actions among all A.

    Returns:
        Log-probabilities of the chosen actions and entropies, float32[B] each.
    """
    count = len(places)
    with torch.no_grad():
        highest = scored.new_full((count,), -torch.inf).scatter_reduce(0, rows, scored, "amax")
    below = scored - highest.index_select(0, rows)
    total = below.new_zeros(count).index_add(0, rows, below.exp())
    log_probabilities = below - total.log().index_select(0, rows)
    products = log_probabilities.exp() * log_probabilities
    entropies = -products.new_zeros(count).index_add(0, rows, products)
    return log_probabilities.index_select(0, places), entropies


@torch.no_grad()
def initialise_scores(
    tensors: Mapping[str, Tensor],
    encoding: Tensor,
    draw: Callable[..., None],
    generator: torch.Generator,
) -> None:
    """Draw the initial parameters of the scores, and the matrix of the encodings as that of a hidden layer.

    ``draw(matrix, generator=..., head_gain=...)`` fills a matrix, with a gain for heads.
    """
    draw(encoding, generator=generator)
    for name in (DESCRIBE, MIX):
        draw(tensors[name], generator=generator)
    draw(tensors[SCORE].unsqueeze(1), generator=generator, head_gain=_HEAD_GAIN)
    tensors[MIX_BIAS].zero_()
