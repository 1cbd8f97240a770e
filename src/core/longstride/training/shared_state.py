"""What the ranks of a run keep apart, joined for a checkpoint and taken apart again: by instances, in their order."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longstride.errors import UserError
from longstride.learning.distributed.ranks import Ranks, flattened
from longstride.learning.distributed.shares import Share
from longstride.policies.networks import ActorCritic
from longstride.rollout.collector import CollectorState

CRITIC_STATES = "critic_states"
"""Name of the states of a critic with memory in a checkpoint, one row for each instance."""


class PartState(NamedTuple):
    """State of a rank's instances: unfinished episodes, float64[instances] sums of rewards, states of the critic."""

    unfinished: CollectorState
    carried: np.ndarray
    critic_states: Tensor | None


def joined_state(part: PartState, ranks: Ranks) -> PartState:
    """Return the state of the instances of all ranks on the first one; elsewhere the part."""
    if ranks.size == 1:
        return part
    parts = ranks.gather_to_first(part)
    records: dict[str, np.ndarray] = {}
    for each in parts:
        records |= each.unfinished.records
    states = [each.critic_states for each in parts if each.critic_states is not None]
    return PartState(
        CollectorState(records, flattened([each.unfinished.metadata for each in parts])),
        np.concatenate([each.carried for each in parts]),
        torch.cat(states) if states else None,
    )


def own_state(whole: PartState, share: Share) -> PartState:
    """Return the part of a rank; a rollout's records keep their names."""
    states, rows = whole.critic_states, share.rows
    return PartState(
        CollectorState(whole.unfinished.records, whole.unfinished.metadata[rows]),
        whole.carried[rows],
        None if states is None else states[rows],
    )


def require_same_parameters(model: ActorCritic, iteration: int, ranks: Ranks) -> None:
    """Check after an update that all ranks hold the same parameters, to the bit.

    Raises:
        UserError: they do not.
    """
    if ranks.size == 1:
        return
    bits = model.flat.detach().cpu().numpy().view(np.uint32)
    sums = ranks.gather((int(bits.sum(dtype=np.uint64)), int(bits[::7].sum(dtype=np.uint64))))
    differing = [rank for rank, each in enumerate(sums) if each != sums[0]]
    if differing:
        raise UserError(
            f"Iteration {iteration}: the parameters of rank {differing[0]} are not those of rank 0, so that they train "
            "different policies; continue with --resume from the last checkpoint, with UPDATE_EXECUTION = 'eager' and "
            "on machines of one kind."
        )
