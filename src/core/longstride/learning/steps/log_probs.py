"""Log-probabilities of a rollout's actions under any policy of the run's kind."""

from collections import deque

import torch
from torch import Tensor

from longstride.learning.algorithms.interface import Samples
from longstride.learning.oom_recovery import Chunk, OomRetry
from longstride.policies.networks import ActorCritic


@torch.no_grad()
def log_probs_under(model: ActorCritic, samples: Samples, memory: OomRetry, phase: str) -> Tensor:
    """Return float32[N], log-probabilities of the actions of a rollout's steps; ``phase`` is for the record.

    A policy with memory begins each chunk with the state that the policy had there that collected the rollout.
    """
    found = torch.empty_like(samples.log_probs)
    indices = torch.arange(samples.size, device=found.device)

    @torch.no_grad()
    def evaluate(chunk: Chunk) -> None:
        some = samples.at(chunk[0])
        logits = model.logits(model.normalised(some.observations), some.described, memory=some.actor_memory)
        log_probs, _ = model.distribution(logits, model.log_std, *some.choices)
        if some.chunks is None:
            found[chunk[0]] = log_probs
        else:
            valid = some.chunks.valid > 0.0
            found[some.chunks.rows[valid]] = log_probs[valid.flatten()]

    def evaluate_all() -> None:
        deque(memory.map_microbatches(evaluate, indices, unit=samples.chunk), maxlen=0)

    memory.run(phase, len(found), evaluate_all)
    return found
