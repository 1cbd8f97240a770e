"""From trajectories to the rollout on the device: observations up, values of the critic, advantages, the rest up."""

from collections import deque
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from core.learning.advantages import gae, next_values_of, worth_of_luck
from core.learning.algorithms.ppo import Batch
from core.learning.device_transfer import DeviceBuffers
from core.learning.steps.interface import Stepper
from core.learning.value_scale import renormalise_values
from core.rollout.trajectory import Trajectory


class Lambdas(NamedTuple):
    """Of generalised advantage estimation.

    Attributes:
        actor: for the actor's advantages.
        critic: for the critic's targets, of each trajectory float64[T], from decision t to t + 1.
    """

    actor: float
    critic: list[np.ndarray]


def upload_observations(
    stepper: Stepper, trajectories: list[Trajectory], columns: DeviceBuffers
) -> tuple[Tensor, Tensor]:
    """Return the observations on the device: those with a decision, and of each trajectory those beyond.

    Args:
        stepper: whose memory ladder is used.
        trajectories: the episodes.
        columns: where they are written to.
    """

    def both() -> tuple[Tensor, Tensor]:
        beyond = np.concatenate([part for t in trajectories for part in (t.observations[-1:], t.cut_observations)])
        decided = columns.upload([t.observations[:-1] for t in trajectories], "observations")
        return decided, columns.upload([beyond])

    return stepper.memory.run("upload", sum(t.steps for t in trajectories), both)


@np.errstate(over="ignore", invalid="ignore")  # numbers that have exploded are looked for below
def prepare_rollout(
    stepper: Stepper,
    trajectories: list[Trajectory],
    discounts: list[np.ndarray],
    observations: tuple[Tensor, Tensor],
    lambdas: Lambdas,
    columns: DeviceBuffers,
) -> tuple[Batch, float]:
    """Value the observations, estimate advantages, and return the rollout on the device.

    Args:
        stepper: whose model values; its value normalisation moves towards the returns.
        trajectories: the episodes.
        discounts: float64[T] of each.
        observations: from :func:`upload_observations`.
        lambdas: of generalised advantage estimation.
        columns: where the rest is written to.

    Returns:
        The rollout, and the share of the targets' variance that the critic explained.
    """
    model = stepper.model
    values, final_values = (_values(stepper, part) for part in observations)
    advantages, returns = _advantages(trajectories, discounts, values, final_values, lambdas)
    explained_variance = 1.0 - float(np.var(returns - values)) / max(float(np.var(returns)), 1e-12)
    spread = max(float(advantages.std()), 1e-8)
    if np.isfinite(spread) and np.isfinite(returns.std()):
        renormalise_values(model, returns)
    else:  # the critic has diverged: no step of this update may be taken
        advantages[:] = np.nan
    mean, std = model.tensors["value_mean"].item(), model.tensors["value_std"].item()
    advantages = (advantages - advantages.mean()) / spread
    normalised = advantages, *((column - np.float32(mean)) / np.float32(std) for column in (returns, values))
    rest = stepper.memory.run("upload", len(values), lambda: _upload_rest(trajectories, columns, *normalised))
    return rest._replace(observations=observations[0]), explained_variance


def _advantages(
    trajectories: list[Trajectory],
    discounts: list[np.ndarray],
    values: np.ndarray,
    final_values: np.ndarray,
    lambdas: Lambdas,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the actor's advantages and the critic's targets of all trajectories, joined."""
    pieces = np.split(values, np.cumsum([t.steps for t in trajectories])[:-1])
    finals = np.split(final_values, np.cumsum([1 + len(t.cut_observations) for t in trajectories])[:-1])
    following = [next_values_of(v, t.truncated, f) for t, v, f in zip(trajectories, pieces, finals, strict=True)]
    worth = np.float32(worth_of_luck(trajectories, pieces, following, discounts))
    results = []
    columns = trajectories, discounts, pieces, following, lambdas.critic
    for t, discount, v, beyond, value_lambda in zip(*columns, strict=True):
        data = (t.rewards - worth * t.luck, v, beyond, discount, t.terminated, t.terminated | t.truncated)
        results.append((gae(*data, lambdas.actor)[0], gae(*data, value_lambda)[1]))
    advantages, returns = (np.concatenate(columns) for columns in zip(*results, strict=True))
    return advantages, returns


def _upload_rest(
    trajectories: list[Trajectory],
    columns: DeviceBuffers,
    advantages: np.ndarray,
    returns: np.ndarray,
    values: np.ndarray,
) -> Batch:
    """Return the rollout on the device, without its observations."""
    return Batch(
        observations=torch.empty(0),
        actions=columns.upload([t.actions for t in trajectories], "actions"),
        log_probs=columns.upload([t.log_probs for t in trajectories], "log_probs"),
        masks=columns.upload([t.masks for t in trajectories], "masks"),
        features=columns.upload([t.features for t in trajectories], "features"),
        states=columns.upload([t.states for t in trajectories], "states"),
        advantages=columns.upload([advantages], "advantages"),
        returns=columns.upload([returns], "returns"),
        values=columns.upload([values], "values"),
        weights=torch.empty(0),
    )


def _values(stepper: Stepper, observations: Tensor) -> np.ndarray:
    """Return float32[rows], the critic's values in units of the reward."""
    model = stepper.model
    normalised = torch.empty(len(observations), device=observations.device)

    @torch.no_grad()
    def evaluate(chunk: tuple[Tensor, ...]) -> None:
        chunk[1].copy_(model.values(model.normalise(chunk[0])))

    # Each result goes at once to where it belongs: thousands of small ones that stay between the large activations
    # that are freed would keep malloc from using that memory again, a kilobyte for each observation.
    stepper.memory.run(
        "values", len(observations), lambda: deque(stepper.map_chunks(evaluate, observations, normalised), maxlen=0)
    )
    values = normalised * model.tensors["value_std"] + model.tensors["value_mean"]
    return np.asarray(values.cpu().numpy())
