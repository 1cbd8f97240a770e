"""Normalisation of observations, of rewards, and of the values that a critic learns."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from longstride.learning.advantages import Total, discounted_sums, mean_and_deviation
from longstride.learning.distributed.ranks import ALONE, Ranks, flattened
from longstride.learning.listed.scales import DescriptionScales
from longstride.policies.networks import ActorCritic
from longstride.policies.observation_normalizer import BatchStatistics, RunningStatistics, statistics_of, thinned
from longstride.rollout.exploring.natural_observations import NaturalObservations
from longstride.rollout.trajectory import Trajectory

_ROUNDING = 1e-9
"""A standard deviation below this share of the mean is rounding: such rewards are left as they are."""

_MEMORY = 0.9
"""Share of the old statistics that each rollout leaves of the value normalisation and of the mean reward."""

_WENT_BACK = 2.0
"""Factor between two scales by which a model must have gone back to earlier parameters."""

_OF_OBSERVATIONS = "statistics."
"""Begin of the names of the statistics of observations in a checkpoint."""


class ObservationScales:
    """Mean and standard deviation of each number that a policy sees, over all rollouts so far.

    They are part of the model: of observations, and of the descriptions of actions where it scores those. A policy with
    memory keeps its outputs where a deviation shrinks: :func:`keep_outputs`. Unless it ``learns``, nothing is scaled.

    Where natural episodes vary far less now than before, as after a start in which a stream ran away, the old scales
    would leave a policy hardly anything to see of what matters. So they begin anew with outputs that stay, but for
    clipping, and each function of ``forget`` is called. Without such functions they never do, nor in networks whose
    first layers may read more than observations.
    """

    def __init__(self, model: ActorCritic, learns: bool = True, forget: Sequence[Callable[[], None]] = ()) -> None:
        self._model, self.statistics = model, RunningStatistics.empty(model.spec.observation_size)
        self._forget = forget if model.has_plain_layers and not model.spec.family.joint_steps else ()
        self._natural = NaturalObservations(model.spec.observation_size)
        self._set: Tensor | None = None  # the scale that the model has, unless it went back to earlier parameters
        self._learns, self._observed = learns, list[Future[list[BatchStatistics]]]()
        self._thread = ThreadPoolExecutor(1, "observation-statistics")
        self._descriptions = DescriptionScales(model)

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Begin to read the observations of a rollout, in a thread, before :meth:`learn` of the same ones."""
        if self._learns:
            self._observed = [self._thread.submit(_statistics, trajectories)]

    def learn(self, trajectories: Sequence[Trajectory], ranks: Ranks = ALONE, is_natural: Sequence[bool] = ()) -> None:
        """Include the observations of a rollout of all ranks, and set the scales of the model.

        The trajectories whose episodes began as the simulator begins them may let the scales begin anew.
        """
        if not self._learns:
            return
        before = self.statistics.deviation()
        observed = self._observed.pop().result() if self._observed else _statistics(trajectories)
        for batch in flattened(ranks.gather(observed)):
            self.statistics.include(batch)
        anew = self._begin_anew([batch for batch, natural in zip(observed, is_natural, strict=False) if natural], ranks)
        shift, scale = map(torch.from_numpy, self.statistics.shift_and_scale())
        kept = anew | (self._model.spec.has_memory & (self.statistics.deviation() < before))
        if kept.any():
            keep_outputs(self._model, shift, scale, torch.from_numpy(kept))
        self._model.tensors["observation_mean"].copy_(shift)
        self._model.tensors["observation_scale"].copy_(scale)
        self._set = scale if self._forget else None
        self._descriptions.learn(trajectories, ranks)

    def _begin_anew(self, natural: list[BatchStatistics], ranks: Ranks) -> np.ndarray:
        """Return bool[O], the columns for which outputs are to stay, because their scales begin anew now.

        All do where the model went back to earlier parameters with far larger scales.
        """
        if not self._forget:
            return np.zeros(len(self.statistics.mean), np.bool_)
        anew, present = self._natural.learn(flattened(ranks.gather(natural))), self._model.tensors["observation_scale"]
        if anew.any():
            self.statistics.begin_anew(self._natural.recent, anew)
        if self._set is not None and (self._set > _WENT_BACK * present.cpu()).any():
            anew = np.ones_like(anew)
        if anew.any():
            for forget in self._forget:
                forget()
        return anew

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of a checkpoint by name."""
        own = {f"{_OF_OBSERVATIONS}{n}": a for n, a in vars(self.statistics).items()} | self._descriptions.arrays()
        return own | (self._natural.arrays() if self._forget else {})

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore what :meth:`arrays` returned, among others."""
        self.statistics = RunningStatistics(**{n: arrays[f"{_OF_OBSERVATIONS}{n}"] for n in vars(self.statistics)})
        self._natural.restore(arrays)
        self._set = self._model.tensors["observation_scale"].cpu().clone() if self._forget else None
        self._descriptions.restore(arrays)


def _statistics(trajectories: Sequence[Trajectory]) -> list[BatchStatistics]:
    """Return those of the observations of each trajectory."""
    return [statistics_of(thinned(each.observations)) for each in trajectories]


@torch.no_grad()
def keep_outputs(model: ActorCritic, shift: Tensor, scale: Tensor, columns: Tensor) -> None:
    """Change the first layers so that new scales of some columns leave the outputs as they are, but for clipping.

    Shift and scale are float32[O], the columns bool[O]: as a rule those whose deviation shrinks. Where it grows, the
    weights would grow with it, and a policy that begins in an empty system would soon take far too large steps.
    """
    old_shift, old_scale = (model.tensors[name].cpu() for name in ("observation_mean", "observation_scale"))
    moved = torch.where(columns, (shift - old_shift) * old_scale, 0.0)
    factor = torch.where(columns, old_scale / scale, 1.0)
    for part in ("actor", "critic"):
        weight, bias = model.layers(part)[0]
        bias.add_(moved.to(weight.device) @ weight)
        weight.mul_(factor.to(weight.device).unsqueeze(1))


class RewardScale:
    """Divisor of the rewards, float64[1] and 1 at first, and the statistics behind it.

    The statistics are those of Stable-Baselines3's ``VecNormalize``, and of Gymnasium's ``NormalizeReward`` within an
    episode: over all steps so far, of the sum of the episode's rewards up to the step, in which earlier rewards are
    discounted. They include a whole rollout before its rewards are divided. ``carried``, float64[instances], has the
    sums of episodes that continue in the next rollout, 0 where none does. The reward of a step that was repeated is the
    mean over its outcomes.
    """

    def __init__(self, instances: int) -> None:
        self.statistics, self.carried, self.divisor = RunningStatistics.empty(1), np.zeros(instances), np.ones(1)

    def learn(
        self,
        trajectories: Sequence[Trajectory],
        discounts: Sequence[np.ndarray],
        group_size: int = 1,
        ranks: Ranks = ALONE,
    ) -> None:
        """Include the rewards of a rollout, with float64[T] discounts of each trajectory, and set the divisor.

        All instances of a group go on with the episode of its first one. The statistics are those of all ranks.
        """
        batches = []
        for i, (t, discount) in enumerate(zip(trajectories, discounts, strict=True)):
            ended = t.terminated | t.truncated
            sums, self.carried[i] = discounted_sums(t.rewards, discount, ended, self.carried[i])
            batches.append(statistics_of(sums[:, None]))
        for batch in flattened(ranks.gather(batches)):
            self.statistics.include(batch)
        for i in range(len(trajectories)):
            self.carried[i] = self.carried[i - i % group_size]
        std = float(np.sqrt(self.statistics.squares[0] / self.statistics.count[0]))
        self.divisor[0] = std if std > _ROUNDING * abs(self.statistics.mean[0]) else 1.0

    def divide(self, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
        """Return trajectories with their rewards divided; the given ones do not change."""
        return [t._replace(rewards=(t.rewards / self.divisor[0]).astype(np.float32)) for t in trajectories]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of a checkpoint by name."""
        return {**vars(self.statistics), "carried": self.carried, "divisor": self.divisor}

    def restore(self, arrays: dict[str, np.ndarray], episodes_continue: bool) -> None:
        """Restore what :meth:`arrays` returned, if anything; sums are carried on only where episodes continue."""
        if arrays:
            self.statistics = RunningStatistics(**{name: arrays[name] for name in vars(self.statistics)})
            self.divisor = arrays["divisor"]
            self.carried = arrays["carried"] if episodes_continue else np.zeros_like(self.carried)


class ValueScale(NamedTuple):
    """The value normalisation: V = mean + std * the critic's output; mean 0 and std 1 before any returns were seen."""

    mean: float
    std: float


NO_RETURNS_SEEN = ValueScale(0.0, 1.0)


@torch.no_grad()
def rescale_values(model: ActorCritic, factor: float) -> None:
    """Multiply all values of a critic, before an update whose rewards are in other units."""
    scale = ValueScale(*(model.tensors[name].item() for name in ("value_mean", "value_std")))
    if scale != NO_RETURNS_SEEN:
        for name in ("value_mean", "value_std"):
            model.tensors[name].mul_(factor)


@torch.no_grad()
def renormalise_values(
    model: ActorCritic, returns: np.ndarray, before: ValueScale, total: Total | None = None
) -> ValueScale:
    """Move the value normalisation towards float32[N] returns, keep the critic's values unchanged, and return it.

    The critic's head is rescaled (van Hasselt et al., "Learning values across many orders of magnitude", 2016,
    equation 6), so no scale of the reward has to be chosen by hand. With ``total``, which adds up float64[n] over all
    processes, the returns are those of all of them. The host reads nothing of the device: it knows the scale before.
    """
    new_mean, new_std = map(float, mean_and_deviation(returns, total))
    new_std = max(new_std, 1e-6)
    if before != NO_RETURNS_SEEN:
        new_mean = _MEMORY * before.mean + (1 - _MEMORY) * new_mean
        new_std = _MEMORY * before.std + (1 - _MEMORY) * new_std
        weight, bias = model.layers("critic")[-1]
        weight.mul_(before.std / new_std)
        bias.mul_(before.std).add_(before.mean - new_mean).div_(new_std)
    model.tensors["value_mean"].fill_(new_mean)
    model.tensors["value_std"].fill_(new_std)
    return ValueScale(new_mean, new_std)
