"""Rewards of a rollout as an update learns from them: discounted, divided by their spread."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from longstride.learning.advantages import discount_of, step_discounts
from longstride.learning.algorithms.interface import RolloutBatch
from longstride.learning.batch.mean_outcomes import next_outcomes, with_mean_rewards
from longstride.learning.batch.rare_rewards import RareRewards
from longstride.learning.batch.target_reach import TargetReach
from longstride.learning.batch.value_memory import ValueMemory
from longstride.learning.distributed.ranks import Ranks, any_of, flattened
from longstride.learning.distributed.shares import Share
from longstride.learning.normalization import RewardScale, rescale_values
from longstride.policies.networks import ActorCritic
from longstride.rollout.trajectory import Trajectory
from longstride.simulators.hooks import naming_the_hook
from longstride.simulators.simulator import Simulator
from longstride.training.failures import require_finite
from longstride.training.record import Collected
from longstride.training.settings import TrainingSettings

_PREFIX = "rewards."
"""Begin of the names of the scale's arrays in a checkpoint."""

_SHORTER, _SOONEST, _LATEST = 10.0, 0.2, 0.5
"""How much shorter the horizon is at first, where it grows, the share of the run after which it may be whole if values
hold together for so long, and the share after which it is whole in any case."""

_LONG_LIVED = 0.5
"""Share of the horizon above which values hold together for long."""

_CRITIC_ALONE = 0.5
"""Share of the run until which outcomes are for the critic alone where values hold together for long."""


class RewardPipeline:
    """Makes of collected rollouts what an update learns from.

    ``gamma`` is the discount of the whole horizon, 0 until it is chosen, and ``discount`` that of the last update,
    which may look less far. ``interval`` is the simulated time that both count, 0 until it is measured. ``scale`` has
    the divisor of the rewards.
    """

    def __init__(
        self, simulator: Simulator, settings: TrainingSettings, model: ActorCritic, share: Share, ranks: Ranks
    ) -> None:
        self._simulator, self._settings, self._model, self._share = simulator, settings, model, share
        self._ranks, self.interval = ranks, simulator.mean_interval
        self.scale = RewardScale(share.count)
        self.gamma = self.discount = settings.gamma
        self._learned: dict[str, float] = {}  # figures of what the simulator's hook changed after the last rollout
        self._grows = settings.grow_horizon and settings.growth is not None and self.gamma == 0.0
        self._rare, self._memory, self._targets = RareRewards(), ValueMemory(), TargetReach()
        self._value_lambda = 0.0  # of the last update, 0 before it

    @property
    def is_ready(self) -> bool:
        """Whether discount and interval are known; else the times of a rollout have to say."""
        return self.gamma > 0.0 and (self.interval > 0.0 or self._settings.discount_per != "time")

    def choose_discount_by_decisions(self) -> None:
        """Let the horizon choose the discount, unless there is one, or it is for simulated time."""
        if self.gamma == 0.0 and self._settings.discount_per != "time":
            self.gamma = discount_of(self._settings.horizon)

    def choose_discount_by_time(self, trajectories: Sequence[Trajectory]) -> None:
        """Let the mean time from step to step in a rollout choose interval and discount, unless they are known."""
        if not self.is_ready:
            elapsed = np.concatenate(flattened(self._ranks.gather([t.elapsed for t in trajectories]))).mean().item()
            self.interval = self.interval or elapsed or 1.0
            self.gamma = self.gamma or discount_of(self._settings.horizon * elapsed / self.interval)

    def batch(self, collected: Collected, iteration: int, share_done: float, reach: float) -> RolloutBatch:
        """Return what the update of an iteration, counted from 1, learns from; values are rescaled with the rewards.

        As long as no episode is terminated, the horizon may depend on the share of the run that was done before, on the
        ``reach`` of the collector and on how long values hold together.

        Raises:
            SimulatorError: a reward, or the time between two, is not finite.
        """
        settings, trajectories = self._settings, collected.trajectories
        drawn = [each.drawn for each in collected.instances]
        last = self._values_last and any_of(any(each is not None for each in drawn), self._ranks.sums)
        chosen = settings.value_lambda
        self._value_lambda = self._targets.lambda_of(chosen) if last else chosen
        grows = self._grows and not collected.whole.terminated
        natural = [each.trajectory for each in collected.instances if each.is_natural]
        self.discount = self._grown(natural, share_done, reach) if grows else self.gamma
        discounts, value_lambdas = (
            [step_discounts(per, t.elapsed, self.interval, settings.discount_per) for t in trajectories]
            for per in (self.discount, self._value_lambda)
        )
        require_finite(self._simulator, iteration, trajectories, discounts, self._share.first)
        if self._means_of_rare:
            shift, scale = (self._model.tensors[f"observation_{name}"].numpy() for name in ("mean", "scale"))
            trajectories = self._rare.replaced(trajectories, drawn, shift, scale, self._ranks)
        else:
            trajectories = list(map(with_mean_rewards, trajectories, drawn))
        scaled = self._scaled(trajectories, discounts)
        records = [outcome.metrics | {"return": outcome.total_reward} for outcome in collected.whole.finished]
        with naming_the_hook(self._simulator, "learn"):
            self._learned = self._simulator.hooks.learn(self._simulator, records)
        outcomes = [next_outcomes(each, self._discounts) for each in drawn]
        for_critic = last and share_done < _CRITIC_ALONE
        return RolloutBatch(scaled, discounts, value_lambdas, outcomes=outcomes, for_critic=for_critic)

    def see_update(self, explained_variance: float | None) -> None:
        """Let what the critic explained of the last targets decide how far the next ones look, in loaded queues."""
        if self._values_last:
            self._targets.learn(math.nan if explained_variance is None else explained_variance)

    def _discounts(self, elapsed: np.ndarray) -> np.ndarray:
        """Return the discounts of an update for elapsed times, float64 of the same shape."""
        return step_discounts(self.discount, elapsed, self.interval, self._settings.discount_per)

    def _grown(self, natural: Sequence[Trajectory], share_done: float, reach: float) -> float:
        """Return the discount of a horizon that grows and never shrinks, with what natural trajectories say of it."""
        if not self._model.spec.has_memory:
            self._memory.learn(self._model, natural, self._ranks)
        seen = min(reach, self._memory.steps / self._settings.horizon)
        return min(max(growing_discount(self.gamma, share_done, seen), self.discount), self.gamma)

    @property
    def outcomes_count(self) -> bool:
        """Whether the next update learns from means over further outcomes of each step.

        Not while values hold together for longer than half of what the horizon is now, but not of the whole one:
        policies with less noise commit themselves sooner to what is best for a horizon that is too short.
        """
        if self.discount == 0.0:  # before the first update
            return False
        is_whole = self.discount >= self.gamma
        horizon = self._settings.horizon * (1.0 if is_whole else math.log(self.gamma) / math.log(self.discount))
        is_known = self._memory.steps > 0.0 or is_whole
        return is_known and (self._memory.steps <= _LONG_LIVED * horizon or self._values_last)

    @property
    def _values_last(self) -> bool:
        """Whether values hold together for longer than half of the whole horizon, as in loaded queues.

        The critic is slow to see so far, and then learns from means over outcomes, and from as far ahead as their noise
        allows. Until it can, the policy keeps its noise, so that it does not commit itself to the critic's errors.
        """
        return self._memory.steps > _LONG_LIVED * self._settings.horizon

    @property
    def _means_of_rare(self) -> bool:
        """Whether rare rewards can be told by observation and action: with neither memory nor lists nor real values."""
        settings = self._settings
        return settings.growth is not None and settings.group_size == 1 and self._model.spec.has_plain_logits

    def _scaled(self, trajectories: list[Trajectory], discounts: list[np.ndarray]) -> list[Trajectory]:
        """Return trajectories with divided rewards; the critic's values are rescaled with them."""
        scale, before = self.scale, self.scale.divisor.item()
        if self._settings.normalise_rewards:
            scale.learn(trajectories, discounts, self._settings.group_size, self._ranks)
        else:
            scale.divisor[0] = 1.0
        if scale.divisor[0] != before:
            rescale_values(self._model, before / scale.divisor.item())
        return scale.divide(trajectories) if scale.divisor[0] != 1.0 else trajectories

    def take_line(self) -> str | None:
        """Return a sentence for the user once, where updates begin to learn from means of rare rewards."""
        return self._rare.take_line()

    def figures(self) -> dict[str, float]:
        """Return what the record of an iteration says of its rewards."""
        memory = {"value_memory": self._memory.steps} if self._memory.steps else {}
        memory |= {"value_lambda": self._value_lambda} if self._values_last else {}
        return {"gamma": self.discount, **memory, **self._learned}

    def arrays(self, carried: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of a checkpoint by name, with float64[instances] sums carried by the instances of all."""
        own = self.scale.arrays() | {"carried": carried} | self._rare.arrays()
        return {f"{_PREFIX}{name}": array for name, array in own.items()}

    def metadata(self) -> dict[str, Any]:
        """Return the JSON values of a checkpoint."""
        weighs = self._simulator.hooks.state(self._simulator)
        own = {"gamma": self.gamma, "interval": self.interval, "discount": self.discount}
        own |= {"target_reach": self._targets.factor}
        return own | {"value_memory": self._memory.state_dict(), **({"weighs": weighs} if weighs else {})}

    def restore(
        self, arrays: dict[str, np.ndarray], carried: np.ndarray, metadata: dict[str, Any], episodes_continue: bool
    ) -> None:
        """Restore what :meth:`arrays` and :meth:`metadata` returned, among others, with the sums of this rank alone."""
        own = {n.removeprefix(_PREFIX): a for n, a in arrays.items() if n.startswith(_PREFIX)}
        self.scale.restore(own | {"carried": carried} if own else {}, episodes_continue)
        self._rare.restore(own)
        self._simulator.hooks.restore(self._simulator, metadata.get("weighs", {}))
        self._memory.load_state_dict(metadata.get("value_memory", [0.0, 0.0]))
        self._targets.factor = metadata.get("target_reach", 1.0)
        self.interval = self.interval or metadata.get("interval", 1.0)
        discounted = "average_reward" not in metadata  # earlier versions could maximise the mean reward
        self.gamma = self._settings.gamma or (metadata.get("gamma", 0.0) if discounted else 0.0)
        self.discount = metadata.get("discount", self.discount) if discounted else self.discount


def growing_discount(gamma: float, share_done: float, seen: float) -> float:
    """Return the discount after a share of a run whose horizon grows to that of ``gamma``, by equal factors.

    Up to the share of the horizon that is ``seen`` it grows faster.
    """
    late, soon = (_SHORTER ** max(1.0 - share_done / grown, 0.0) for grown in (_LATEST, _SOONEST))
    return float(gamma ** min(late, max(soon, 1.0 / seen if seen else late)))


def carried_of(arrays: dict[str, np.ndarray], instances: int) -> np.ndarray:
    """Return the sums that a checkpoint's instances carry, float64[instances]; zeros where it has none."""
    return arrays.get(f"{_PREFIX}carried", np.zeros(instances))
