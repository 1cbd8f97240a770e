"""From a rollout to its samples on the device: observations up, values of the critic, advantages, the rest up."""

from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from longstride.learning.advantages import Total, mean_and_deviation, next_values_of
from longstride.learning.algorithms.interface import RolloutBatch, Samples, Targets
from longstride.learning.device_transfer import DeviceBuffers
from longstride.learning.distributed.ranks import any_of
from longstride.learning.listed.lists import joined_lists
from longstride.learning.memory.chunks import ChunkRows, Chunks
from longstride.learning.memory.values import ValuesInOrder, values_in_order
from longstride.learning.normalization import renormalise_values
from longstride.learning.oom_recovery import Chunk
from longstride.learning.reference_penalty import Penalty
from longstride.learning.step_costs.update_memory import value_rows
from longstride.learning.steps.interface import Stepper
from longstride.learning.steps.log_probs import log_probs_under
from longstride.policies.networks import ActorCritic


class Uploaded(NamedTuple):
    """A rollout on the device.

    Attributes:
        samples: columns and parts that trajectories hold; those that are computed are empty.
        final_observations: float32[rows, O], observations after the last step and the cuts of each trajectory.
    """

    samples: Samples
    final_observations: Tensor


def upload_rollout(
    stepper: Stepper, rollout: RolloutBatch, buffers: DeviceBuffers, chunks: ChunkRows | None = None
) -> Uploaded:
    """Return the rollout on the device, for a policy with memory in chunks; the host does not wait for the copies."""
    trajectories = rollout.trajectories

    def column(name: str) -> Tensor:
        return buffers.upload([getattr(t, name) for t in trajectories], name)

    def upload() -> Uploaded:
        final = np.concatenate([part for t in trajectories for part in (t.observations[-1:], t.cut_observations)])
        observations = buffers.upload([t.observations[:-1] for t in trajectories], "observations")
        none = observations.new_empty(len(observations), 0)
        columns: dict[str, Any] = {name: column(name) for name in ("actions", "log_probs", "masks", "features")}
        samples = Samples(observations, **columns, advantages=none, returns=none, values=none)
        if stepper.model.spec.scores_actions:
            actions, lists = joined_lists(trajectories, samples.features)
            samples = samples._replace(actions=actions, features=none, lists=lists)
        if chunks is not None:
            host = chunks.rows, chunks.valid.astype(np.float32), chunks.starts
            places = map(buffers.upload, ([part] for part in host), ("rows", "valid", "starts"))
            samples = samples._replace(chunks=Chunks(column("states"), none, column("begins"), *places))
        return Uploaded(samples, buffers.upload([final]))

    return stepper.memory.run("upload", rollout.steps, upload)


class Prepared(NamedTuple):
    """A rollout that is ready for the epochs.

    Attributes:
        samples: all samples of the rollout, steps or chunks.
        learned_from: int64[M], the samples that the epochs use; None for all.
        explained_variance: share of the targets' variance that the critic explained; NaN without a critic.
        figures: figures of the algorithm for the record.
        critic_states: float32[trajectories, S], what a critic with memory carries to the next rollout; else S is 0.
        sizes: int64[C], the steps in each chunk that count; None where samples are steps.
    """

    samples: Samples
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
    """Value the observations, compute targets, move the value normalisation, and complete the samples on the device.

    A policy with memory learns from chunks, and its critic begins with float32[trajectories, S] states.
    """
    model, algorithm, samples = stepper.model, stepper.algorithm, uploaded.samples
    carried = samples.observations.new_zeros(len(rollout.trajectories), 0) if critic_states is None else critic_states
    valued = _valued(stepper, rollout, uploaded, chunks, carried)
    values, final_values = (_in_reward_units(model, part) for part in (valued.values, valued.final_values))
    if penalty is not None:
        rollout = penalty.charge(stepper, rollout, samples)
    rollout = rollout._replace(present_log_probs=partial(_present_log_probs, stepper, rollout, samples))
    targets = algorithm.targets(rollout, *_by_trajectory(rollout, values, final_values))
    targets, explained_variance = _explained(stepper, targets, values, rollout.total)
    mean, std = (np.float32(model.tensors[name].item()) for name in ("value_mean", "value_std"))

    def upload() -> Samples:
        return samples._replace(
            advantages=buffers.upload([targets.advantages], "advantages"),
            returns=buffers.upload([(targets.returns - mean) / std], "returns"),
            values=buffers.upload([(values - mean) / std], "values"),
        )

    complete = stepper.memory.run("upload", rollout.steps, upload)
    sizes, learned = None, targets.learned_from
    kept = learned if any_of(learned is not None and bool(learned.any()), rollout.total) else None
    if chunks is not None and complete.chunks is not None:
        valid = chunks.valid if kept is None else chunks.valid & kept[chunks.rows]
        sizes, kept = valid.sum(axis=1), None if kept is None else np.asarray(valid.any(axis=1))
        states, counting = buffers.keep(valued.states, "critic_states"), valid.astype(np.float32)
        part = complete.chunks._replace(critic_states=states, valid=buffers.upload([counting], "valid"))
        complete = complete._replace(chunks=part)
    learned_from = np.flatnonzero(kept) if kept is not None and not kept.all() else None
    return Prepared(complete, learned_from, explained_variance, targets.figures, valued.carried, sizes)


def _explained(stepper: Stepper, targets: Targets, values: np.ndarray, total: Total | None) -> tuple[Targets, float]:
    """Return the targets, and the share of their variance that the critic's values explain; move its normalisation.

    If the critic has diverged, all advantages are NaN, so that no step of this update is taken.
    """
    advantages, returns = targets.advantages, targets.returns
    if any_of(not (np.isfinite(advantages).all() and np.isfinite(returns.std())), total):
        targets = targets._replace(advantages=np.full_like(advantages, np.nan))
    elif stepper.algorithm.needs_critic:
        renormalise_values(stepper.model, returns, total)
    if not stepper.algorithm.needs_critic:
        return targets, np.nan
    return targets, 1.0 - _variance(returns - values, total) / max(_variance(returns, total), 1e-12)


def _variance(numbers: np.ndarray, total: Total | None) -> float:
    """Return the variance of float32[N], of all processes where they are several."""
    return float(np.var(numbers)) if total is None else float(mean_and_deviation(numbers, total)[1]) ** 2


def _present_log_probs(stepper: Stepper, rollout: RolloutBatch, samples: Samples) -> list[np.ndarray]:
    """Return float32[T_i] of each trajectory, log-probabilities of its actions before the update."""
    found = log_probs_under(stepper.model, samples, stepper.memory, "log_probs")
    return rollout.split(found.cpu().numpy())


def _by_trajectory(
    rollout: RolloutBatch, values: np.ndarray, final_values: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return values and next values of each trajectory, float32[T_i]."""
    trajectories, pieces = rollout.trajectories, rollout.split(values)
    finals = np.split(final_values, np.cumsum([1 + len(t.cut_observations) for t in trajectories])[:-1])
    return pieces, [next_values_of(v, t.truncated, f) for t, v, f in zip(trajectories, pieces, finals, strict=True)]


def _valued(
    stepper: Stepper, rollout: RolloutBatch, uploaded: Uploaded, chunks: ChunkRows | None, carried: Tensor
) -> ValuesInOrder:
    """Return the values of a rollout, zeros without a critic.

    If memory runs out, fewer trajectories go through a critic with memory at once.
    """
    model, memory, samples = stepper.model, stepper.memory, uploaded.samples
    observations, part = (samples.observations, uploaded.final_observations), samples.chunks
    if part is None or chunks is None or not stepper.algorithm.needs_critic:
        value = partial(_values, stepper) if stepper.algorithm.needs_critic else _zeros
        states = carried.new_zeros(0 if part is None else len(part.states), carried.shape[1])
        values, final_values = map(value, observations)
        return ValuesInOrder(values, final_values, states, carried)
    fixed = model, rollout.trajectories, chunks.starts, observations, part.begins, carried
    most = model.spec.chunk
    return memory.run("values", rollout.steps, lambda: values_in_order(*fixed, max(memory.microbatch // most, 1)))


def _zeros(observations: Tensor) -> Tensor:
    return observations.new_zeros(len(observations))


def _values(stepper: Stepper, observations: Tensor) -> Tensor:
    """Return float32[rows], the critic's values in units of the value normalisation."""
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
    return normalised


def _in_reward_units(model: ActorCritic, values: Tensor) -> np.ndarray:
    """Return float32[rows] on the host, values in units of the reward."""
    return np.asarray((values * model.tensors["value_std"] + model.tensors["value_mean"]).cpu().numpy())
