"""From a rollout to its samples on the device: observations up, values of the critic, advantages, the rest up."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longstride.learning.advantages import Total, mean_and_deviation, next_values_of
from longstride.learning.algorithms.interface import AnySamples, RolloutBatch, Samples
from longstride.learning.device_transfer import DeviceBuffers
from longstride.learning.distributed.ranks import any_of
from longstride.learning.listed.samples import list_places, with_lists
from longstride.learning.memory.chunks import ChunkedSamples, ChunkRows
from longstride.learning.memory.values import ValuesInOrder, values_in_order
from longstride.learning.normalization import renormalise_values
from longstride.learning.oom_recovery import Chunk
from longstride.learning.reference_penalty import Penalty
from longstride.learning.step_costs.update_memory import value_rows
from longstride.learning.steps.interface import Stepper
from longstride.policies.networks import ActorCritic
from longstride.rollout.trajectory import Trajectory


class Uploaded(NamedTuple):
    """A rollout on the device.

    Attributes:
        samples: the columns that trajectories hold; the others are empty.
        final_observations: float32[rows, O], observations after the last step and the cuts of each trajectory.
        begins: bool[N, 1], whether a step is the first of an episode; bool[N, 0] for a policy without memory.
    """

    samples: Samples
    final_observations: Tensor
    begins: Tensor


def upload_rollout(stepper: Stepper, rollout: RolloutBatch, buffers: DeviceBuffers) -> Uploaded:
    """Return the rollout on the device; the host does not wait for the copies."""
    trajectories = rollout.trajectories

    def upload() -> Uploaded:
        final = np.concatenate([part for t in trajectories for part in (t.observations[-1:], t.cut_observations)])
        columns = {name: buffers.upload([getattr(t, name) for t in trajectories], name) for name in _COLUMNS}
        observations = buffers.upload([t.observations[:-1] for t in trajectories], "observations")
        none = observations.new_empty(0)
        computed = {"advantages": none, "returns": none, "values": none}
        begins = buffers.upload([t.begins for t in trajectories], "begins")
        return Uploaded(Samples(observations=observations, **columns, **computed), buffers.upload([final]), begins)

    return stepper.memory.run("upload", rollout.steps, upload)


_COLUMNS = "actions", "log_probs", "masks", "features", "states"
"""Columns of a rollout that trajectories hold with a row for each step, beside the observations."""


class Prepared(NamedTuple):
    """A rollout that is ready for the epochs.

    Attributes:
        samples: all N samples of the rollout, steps or chunks.
        learned_from: int64[M], the samples that the epochs use; None for all.
        explained_variance: share of the targets' variance that the critic explained; NaN without a critic.
        figures: figures of the algorithm for the record.
        critic_states: float32[trajectories, S], what a critic with memory carries to the next rollout; else S is 0.
        sizes: int64[C], the steps in each chunk that count; None where samples are steps.
    """

    samples: AnySamples
    learned_from: np.ndarray | None
    explained_variance: float
    figures: Mapping[str, float]
    critic_states: Tensor
    sizes: np.ndarray | None


@np.errstate(over="ignore", invalid="ignore")  # numbers that are not finite are looked for below
def prepare_batch(
    stepper: Stepper,
    rollout: RolloutBatch,
    uploaded: Uploaded,
    buffers: DeviceBuffers,
    penalty: Penalty | None = None,
    chunks: ChunkRows | None = None,
    critic_states: Tensor | None = None,
) -> Prepared:
    """Value the observations, compute targets, move the value normalisation, and put the samples on the device.

    A policy with memory learns from chunks, and its critic begins with float32[trajectories, S] states.
    """
    model, algorithm, trajectories = stepper.model, stepper.algorithm, rollout.trajectories
    columns, observations = uploaded.samples, (uploaded.samples.observations, uploaded.final_observations)
    carried = columns.observations.new_zeros(len(trajectories), 0) if critic_states is None else critic_states
    states = columns.observations.new_zeros(len(columns.states) if chunks is not None else 0, carried.shape[1])
    if not algorithm.needs_critic:
        values, final_values = (np.zeros(len(part), np.float32) for part in observations)
    elif chunks is None:
        values, final_values = (_values(stepper, part) for part in observations)
    else:
        in_order = _values_in_order(stepper, rollout, uploaded, chunks, carried)
        values, final_values = (_in_reward_units(model, part) for part in (in_order.values, in_order.final_values))
        states, carried = in_order.states, in_order.carried
    if penalty is not None:
        rollout = penalty.charge(stepper, rollout, columns)
    targets = algorithm.targets(rollout, *_by_trajectory(trajectories, values, final_values))
    advantages, returns, explained_variance, total = targets.advantages, targets.returns, np.nan, rollout.total
    if any_of(not (np.isfinite(advantages).all() and np.isfinite(returns.std())), total):
        advantages = np.full_like(advantages, np.nan)  # the critic has diverged: no step of this update may be taken
    elif algorithm.needs_critic:
        renormalise_values(model, returns, total)
    if algorithm.needs_critic:
        explained_variance = 1.0 - _variance(returns - values, total) / max(_variance(returns, total), 1e-12)
    mean, std = (np.float32(model.tensors[name].item()) for name in ("value_mean", "value_std"))

    def upload() -> Samples:
        return columns._replace(
            advantages=buffers.upload([advantages], "advantages"),
            returns=buffers.upload([(returns - mean) / std], "returns"),
            values=buffers.upload([(values - mean) / std], "values"),
        )

    samples: AnySamples = stepper.memory.run("upload", len(values), upload)
    if model.spec.scores_actions:
        samples = with_lists(samples._asdict(), list_places(trajectories))
    sizes, learned = None, targets.learned_from
    kept = learned if any_of(learned is not None and bool(learned.any()), total) else None
    if chunks is not None:
        valid = chunks.valid if kept is None else chunks.valid & kept[chunks.rows]
        parts = {"rows": chunks.rows, "valid": valid.astype(np.float32), "starts": chunks.starts}
        places = {name: buffers.upload([part], name) for name, part in parts.items()}
        further = {"begins": uploaded.begins, "critic_states": buffers.keep(states, "critic_states"), **places}
        sizes = valid.sum(axis=1)
        samples = ChunkedSamples(**samples._asdict(), **further)
        kept = None if kept is None else np.asarray(valid.any(axis=1))
    learned_from = np.flatnonzero(kept) if kept is not None and not kept.all() else None
    return Prepared(samples, learned_from, explained_variance, targets.figures, carried, sizes)


def _variance(numbers: np.ndarray, total: Total | None) -> float:
    """Return the variance of float32[N], of all processes where they are several."""
    return float(np.var(numbers)) if total is None else float(mean_and_deviation(numbers, total)[1]) ** 2


def _by_trajectory(
    trajectories: Sequence[Trajectory], values: np.ndarray, final_values: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return values and next values of each trajectory, float32[T_i]."""
    pieces = np.split(values, np.cumsum([t.steps for t in trajectories])[:-1])
    finals = np.split(final_values, np.cumsum([1 + len(t.cut_observations) for t in trajectories])[:-1])
    return pieces, [next_values_of(v, t.truncated, f) for t, v, f in zip(trajectories, pieces, finals, strict=True)]


def _values(stepper: Stepper, observations: Tensor) -> np.ndarray:
    """Return float32[rows], the critic's values in units of the reward."""
    model = stepper.model
    normalised = torch.empty(len(observations), device=observations.device)

    @torch.no_grad()
    def evaluate(chunk: Chunk) -> None:
        rows, values = chunk
        values.copy_(model.values(model.normalise(rows)))

    # Each result is written to its place at once. Thousands of small tensors that stay between the large activations
    # that are freed would keep malloc from using that memory again, a kilobyte for each observation.
    def evaluate_all(least: int = 0) -> None:
        deque(stepper.memory.map_microbatches(evaluate, observations, normalised, least=least), maxlen=0)

    rows = value_rows(model.spec, len(observations))
    if not (observations.is_cuda and stepper.memory.fits(lambda: evaluate_all(rows))):
        stepper.memory.run("values", len(observations), evaluate_all)
    return _in_reward_units(model, normalised)


def _values_in_order(
    stepper: Stepper, rollout: RolloutBatch, uploaded: Uploaded, chunks: ChunkRows, carried: Tensor
) -> ValuesInOrder:
    """Return the values of a critic with memory; where memory runs out, fewer trajectories go through it at once."""
    observations, chunk = (uploaded.samples.observations, uploaded.final_observations), stepper.model.spec.chunk

    def evaluate() -> ValuesInOrder:
        most = max(stepper.memory.microbatch // chunk, 1)
        return values_in_order(
            stepper.model, rollout.trajectories, chunks.starts, observations, uploaded.begins, carried, most
        )

    return stepper.memory.run("values", rollout.steps, evaluate)


def _in_reward_units(model: ActorCritic, values: Tensor) -> np.ndarray:
    """Return float32[rows] on the host, values in units of the reward."""
    return np.asarray((values * model.tensors["value_std"] + model.tensors["value_mean"]).cpu().numpy())
