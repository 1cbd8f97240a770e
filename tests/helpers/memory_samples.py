"""Samples of a policy with memory: random trajectories, cut into chunks, around the policy that learns from them."""

from collections.abc import Sequence

import numpy as np
import torch

from longstride.learning.algorithms.interface import Samples
from longstride.learning.memory.chunks import Chunks, chunk_rows
from longstride.policies.networks import ActorCritic
from longstride.policies.spec import CHUNK


def chunked_samples(model: ActorCritic, lengths: Sequence[int], seed: int = 1, chunk: int = CHUNK) -> Samples:
    """Return the samples of trajectories of one choice, with random states before each chunk.

    A twentieth of the steps begin episodes.
    """
    spec, count = model.spec, sum(lengths)
    generator, chunks = torch.Generator().manual_seed(seed), chunk_rows(lengths, chunk, spec.context)
    kept = int(chunks.starts.max()) + 1

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    masks = torch.rand(count, spec.action_space.outputs, generator=generator) < 0.7
    actions = torch.randint(0, spec.action_space.outputs, (count,), generator=generator)
    masks[torch.arange(count), actions] = True
    return Samples(
        observations=2.0 * normal(count, spec.observation_size),
        actions=actions,
        log_probs=-1.5 + 0.2 * normal(count),
        masks=masks,
        features=normal(count, spec.action_space.outputs, spec.action_features),
        advantages=normal(count),
        returns=normal(count),
        values=normal(count),
        chunks=Chunks(
            states=0.5 * normal(kept, spec.state_size),
            critic_states=0.5 * normal(kept, spec.critic_state_size),
            begins=torch.rand(count, 1, generator=generator) < 0.05,
            rows=torch.from_numpy(chunks.rows),
            valid=torch.from_numpy(chunks.valid.astype(np.float32)),
            starts=torch.from_numpy(chunks.starts),
        ),
    )
