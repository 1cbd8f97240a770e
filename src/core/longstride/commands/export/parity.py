"""Whether the forms of a policy compute the same on the same steps."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from longstride.commands.export.steps import Steps
from longstride.policies.export.contract import FORBIDDEN
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import Box

TOLERANCE = 1e-4
"""Largest difference of an output, as a share of the largest output where that is above 1. Sums of a few hundred
products in float32, in another order, differ by 1e-6; a memory adds over its steps."""

Played = tuple[np.ndarray, np.ndarray]
"""Outputs float32[T, outputs] and greedy actions float64[T, n]."""


class Difference(NamedTuple):
    """How a form differs from the reference over all steps.

    Attributes:
        outputs: largest difference of a logit of an allowed action, or of a mean.
        actions: steps with another greedy action; of a Box, where it differs by more than the tolerance.
        beyond_ties: those of them where the two actions are further apart in the reference than the tolerance.
        forbidden: logits of forbidden actions that are not -1e30, where the form has masks inside.
    """

    outputs: float
    actions: int
    beyond_ties: int
    forbidden: int

    def within(self, limit: float) -> bool:
        """Return whether it is no more than rounding."""
        return self.outputs <= limit and self.beyond_ties == 0 and self.forbidden == 0


def limit_of(reference: Played, steps: Steps) -> float:
    """Return the largest difference of an output that is allowed."""
    outputs = reference[0]
    allowed = outputs[steps.masks] if steps.masks.size else outputs
    return TOLERANCE * max(1.0, float(np.abs(allowed).max(initial=0.0)))


def differences(
    spec: PolicySpec, steps: Steps, reference: Played, forms: Mapping[str, Played], masked: tuple[str, ...]
) -> dict[str, Difference]:
    """Return the difference of each form; those in ``masked`` have masks inside."""
    limit = limit_of(reference, steps)
    return {name: _difference(spec, steps, reference, played, limit, name in masked) for name, played in forms.items()}


def _difference(
    spec: PolicySpec, steps: Steps, reference: Played, played: Played, limit: float, masked: bool
) -> Difference:
    outputs, actions = played
    gaps = np.abs(outputs.astype(np.float64) - reference[0])
    gaps = np.where(np.isfinite(outputs), gaps, np.inf)
    if isinstance(spec.action_space, Box):
        widths = np.maximum(1.0, spec.action_space.scales)
        other = (np.abs(actions - reference[1]) > limit * widths).any(axis=1)
        return Difference(float(gaps.max()), int(other.sum()), int(other.sum()), 0)
    forbidden = int((outputs[~steps.masks] != np.float32(FORBIDDEN)).sum()) if masked else 0
    other = (actions != reference[1]).any(axis=1)
    beyond = sum(_beyond_a_tie(spec, reference, actions, int(t), 2.0 * limit) for t in np.flatnonzero(other))
    return Difference(float(gaps[steps.masks].max()), int(other.sum()), int(beyond), forbidden)


def _beyond_a_tie(spec: PolicySpec, reference: Played, actions: np.ndarray, t: int, limit: float) -> bool:
    """Return whether an action of step t is worse in the reference, by more than the limit, or is none."""
    begin = 0
    for i, n in enumerate(spec.action_space.choices):
        logits, best, chosen = reference[0][t, begin : begin + n], int(reference[1][t, i]), int(actions[t, i])
        if not 0 <= chosen < n or abs(logits[best] - logits[chosen]) > limit:
            return True
        begin += n
    return False
