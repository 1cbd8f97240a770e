"""From a rollout on the device to its samples: values of the critic, advantages and targets, the rest up."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from torch import Tensor

from longstride.learning.advantages import Total, mean_and_deviation, next_values_of
from longstride.learning.algorithms.interface import RolloutBatch, Samples, Targets
from longstride.learning.batch.critic_values import critic_values, read_values, values_of
from longstride.learning.batch.mean_outcomes import with_mean_values
from longstride.learning.batch.upload import Uploaded
from longstride.learning.device_transfer import DeviceBuffers
from longstride.learning.distributed.ranks import any_of
from longstride.learning.memory.chunks import ChunkRows, Chunks
from longstride.learning.normalization import ValueScale, renormalise_values
from longstride.learning.reference_penalty import Penalty
from longstride.learning.steps.interface import Stepper
from longstride.learning.steps.log_probs import log_probs_under


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
    samples, total = uploaded.samples, rollout.total
    carried = samples.observations.new_zeros(len(rollout.trajectories), 0) if critic_states is None else critic_states
    valued = critic_values(stepper, rollout, uploaded, chunks, carried)
    values, final_values, scale = read_values(stepper.model, valued, buffers)
    if penalty is not None:
        rollout = penalty.charge(stepper, rollout, samples)
    rollout = rollout._replace(present_log_probs=partial(_present_log_probs, stepper, rollout, samples))
    own, after = _by_trajectory(rollout, values, final_values)
    value = partial(_value, stepper, buffers, scale)
    means = with_mean_values(rollout.trajectories, after, rollout.discounts, rollout.outcomes, value)
    targets = stepper.algorithm.targets(rollout._replace(trajectories=means), own, after)
    if rollout.for_critic:
        targets = targets._replace(advantages=stepper.algorithm.targets(rollout, own, after).advantages)
    targets, explained_variance, scale = _explained(stepper, targets, values, scale, total)
    upload = partial(_with_targets, samples, targets, values, scale, buffers)
    complete = stepper.memory.run("upload", rollout.steps, upload)
    learned = targets.learned_from
    kept = learned if any_of(learned is not None and bool(learned.any()), total) else None
    sizes = None
    if chunks is not None and complete.chunks is not None:
        counting = chunks.valid if kept is None else chunks.valid & kept[chunks.rows]
        complete = _with_states(complete, complete.chunks, valued.states, counting, buffers)
        sizes, kept = counting.sum(axis=1), None if kept is None else np.asarray(counting.any(axis=1))
    learned_from = np.flatnonzero(kept) if kept is not None and not kept.all() else None
    return Prepared(complete, learned_from, explained_variance, targets.figures, valued.carried, sizes)


def _value(stepper: Stepper, buffers: DeviceBuffers, scale: ValueScale, observations: np.ndarray) -> np.ndarray:
    """Return float32[n], the critic's values of float32[n, O] observations, in units of the reward."""
    uploaded = buffers.upload([observations], width=stepper.model.spec.observation_size)
    stepper.model.normalise_on_card(uploaded)
    return np.asarray(values_of(stepper, uploaded).cpu().numpy() * scale.std + scale.mean)


def _with_targets(
    samples: Samples, targets: Targets, values: np.ndarray, scale: ValueScale, buffers: DeviceBuffers
) -> Samples:
    """Return samples with advantages, and targets and values in units of the value normalisation."""
    mean, std = map(np.float32, scale)

    def column(numbers: np.ndarray, name: str) -> Tensor:
        room = buffers.host(name, len(numbers))
        room[:] = numbers
        return buffers.upload([room], name)

    return samples._replace(
        advantages=column(targets.advantages, "advantages"),
        returns=column((targets.returns - mean) / std, "returns"),
        values=column((values - mean) / std, "values"),
    )


def _with_states(
    samples: Samples, chunks: Chunks, states: Tensor, counting: np.ndarray, buffers: DeviceBuffers
) -> Samples:
    """Return samples with the critic's states before each chunk; ``counting``, bool[C, T], says which steps count."""
    states, counts = buffers.keep(states, "critic_states"), counting.astype(np.float32)
    return samples._replace(chunks=chunks._replace(critic_states=states, valid=buffers.upload([counts], "valid")))


def _explained(
    stepper: Stepper, targets: Targets, values: np.ndarray, scale: ValueScale, total: Total | None
) -> tuple[Targets, float, ValueScale]:
    """Return the targets, the share of their variance that the critic's values explain, and its normalisation, moved.

    If the critic has diverged, all advantages are NaN, so that no step of this update is taken.
    """
    advantages, returns = targets.advantages, targets.returns
    if any_of(not (np.isfinite(advantages).all() and np.isfinite(returns.std())), total):
        targets = targets._replace(advantages=np.full_like(advantages, np.nan))
    elif stepper.algorithm.needs_critic:
        scale = renormalise_values(stepper.model, returns, scale, total)
    if not stepper.algorithm.needs_critic:
        return targets, np.nan, scale
    unexplained = _variance(returns - values, total) / max(_variance(returns, total), 1e-12)
    return targets, 1.0 - unexplained, scale


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
