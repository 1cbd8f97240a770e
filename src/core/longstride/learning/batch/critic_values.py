"""The critic's values of a rollout's observations."""

from collections import deque
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longstride.learning.algorithms.interface import RolloutBatch
from longstride.learning.batch.upload import Uploaded
from longstride.learning.device_transfer import DeviceBuffers
from longstride.learning.memory.chunks import ChunkRows
from longstride.learning.memory.values import ValuesInOrder, values_in_order
from longstride.learning.normalization import ValueScale
from longstride.learning.oom_recovery import Chunk
from longstride.learning.step_costs.update_memory import value_rows
from longstride.learning.steps.interface import Stepper
from longstride.policies.networks import ActorCritic


def critic_values(
    stepper: Stepper, rollout: RolloutBatch, uploaded: Uploaded, chunks: ChunkRows | None, carried: Tensor
) -> ValuesInOrder:
    """Return the values of a rollout, zeros without a critic.

    If memory runs out, fewer trajectories go through a critic with memory at once.
    """
    model, memory, samples = stepper.model, stepper.memory, uploaded.samples
    observations, part = (samples.observations, uploaded.final_observations), samples.chunks
    if part is None or chunks is None or not stepper.algorithm.needs_critic:
        value = partial(values_of, stepper) if stepper.algorithm.needs_critic else _zeros
        states = carried.new_zeros(0 if part is None else len(part.states), carried.shape[1])
        values, final_values = map(value, observations)
        return ValuesInOrder(values, final_values, states, carried)
    fixed = model, rollout.trajectories, chunks.starts, observations, part.begins, carried
    most = model.spec.chunk
    return memory.run("values", rollout.steps, lambda: values_in_order(*fixed, max(memory.microbatch // most, 1)))


def _zeros(observations: Tensor) -> Tensor:
    return observations.new_zeros(len(observations))


def values_of(stepper: Stepper, observations: Tensor) -> Tensor:
    """Return float32[rows], the critic's values in units of the value normalisation."""
    model = stepper.model
    normalised = torch.empty(len(observations), device=observations.device)

    @torch.no_grad()
    def evaluate(chunk: Chunk) -> None:
        rows, values = chunk
        values.copy_(model.values(model.normalised(rows)))

    # Each result is written to its place at once. Thousands of small tensors that stay between the large activations
    # that are freed would keep malloc from using that memory again, a kilobyte for each observation.
    def evaluate_all(least: int = 0) -> None:
        deque(stepper.memory.map_microbatches(evaluate, observations, normalised, least=least), maxlen=0)

    rows = value_rows(model.spec, len(observations))
    if not (observations.is_cuda and stepper.memory.fits(lambda: evaluate_all(rows))):
        stepper.memory.run("values", len(observations), evaluate_all)
    return normalised


class ValuesRead(NamedTuple):
    """What the host reads of a critic's values at once: float32[N] and float32[rows], in units of the reward."""

    values: np.ndarray
    final_values: np.ndarray
    scale: ValueScale


def read_values(model: ActorCritic, valued: ValuesInOrder, buffers: DeviceBuffers) -> ValuesRead:
    """Return values, final values and the value normalisation on the host, by one copy to pinned memory."""
    parts = valued.values, valued.final_values, model.tensors["value_mean"], model.tensors["value_std"]
    sizes = [len(part) for part in parts]
    read = buffers.host("values_read", sum(sizes))
    torch.from_numpy(read).copy_(torch.cat(parts))
    values, final_values, (mean,), (std,) = np.split(read, np.cumsum(sizes)[:-1])
    return ValuesRead(values * std + mean, final_values * std + mean, ValueScale(float(mean), float(std)))
