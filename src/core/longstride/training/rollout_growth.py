"""How many environment steps each iteration collects, and at what learning rate: pure functions of logged figures.

A rollout is to hold as many steps as its gradient needs to be half signal. Iterations begin small, because a fresh
policy learns from little, and grow with the measured noise; they never shrink. The divergence of each update decides
the learning rate of the next one.
"""

from dataclasses import dataclass
from typing import Any

from longstride.learning.gradient_noise import GradientNoise
from longstride.learning.steps.interface import UpdateSettings
from longstride.learning.updater import UpdateReport

_MEMORY = 0.8
"""Share of the old noise and signal that a measurement leaves."""

_MOST_AT_ONCE, _LEAST_GROWTH = 2.0, 1.1
"""Factors by which a rollout may grow from one iteration to the next, and below which it stays as it is."""

LARGEST_SHARE = 160
"""No rollout is larger than the whole run over this: so many steps of a policy at least, where it is long enough."""

_OPEN = 0.3
"""Share of the most possible entropy below which the target of the divergence falls in proportion: to a policy that is
nearly settled, the same divergence is a greater part of what it still leaves open."""

_FASTER, _SLOWER, _FASTEST, _SLOWEST = 1.5, 1 / 1.5, 10.0, 0.05
"""Changes of the learning rate, and the limits of their product."""


@dataclass(frozen=True)
class GrowthLimits:
    """Decisions of rollouts, of all instances: of the first one, at most, and of the whole run.

    Memory and the length of the run limit the most.
    """

    instances: int
    first: int
    most: int
    total: int


@dataclass
class RolloutGrowth:
    """State of a run whose rollouts grow.

    Attributes:
        limits: what never changes.
        size: steps of the next rollout, all instances together.
        done: steps of all rollouts so far.
        noise: moving average of the gradient's noise, of a single step; 0 before the first measurement.
        signal: moving average of its squared length.
        rate_factor: factor of both learning rates.
        ratio: size of the next rollout over that of the last one.
    """

    limits: GrowthLimits
    size: int = 0
    done: int = 0
    noise: float = 0.0
    signal: float = 0.0
    rate_factor: float = 1.0
    ratio: float = 1.0

    def __post_init__(self) -> None:
        self.size = self.size or self.limits.first

    @property
    def steps(self) -> int:
        """Steps of each instance in the next rollout."""
        return max(self.size // self.limits.instances, 1)

    def share(self, iteration: int = 0) -> float:
        """Return the share of the run's steps that is done, 0 .. 1, whatever the number of iterations."""
        return min(self.done / self.limits.total, 1.0)

    def shown_share(self, iteration: int) -> float:
        """Return the share of the run's steps that is done."""
        return self.share()

    def iterations_left(self, iteration: int = 0) -> int:
        """Return the number of iterations that are left if none grows any more."""
        return max(-(-(self.limits.total - self.done) // self.size), 0)

    def warm_up(self, instances: int) -> int:
        """Return all of the instances: the first rollout is small."""
        return instances

    def finish_iteration(
        self, report: UpdateReport, settings: UpdateSettings, can_move: bool, left: float
    ) -> str | None:
        """Choose learning rates and size of the next rollout; return a sentence if it collects more."""
        divergence, target, epochs = report.losses["approx_kl"], settings.target_kl, (report.epochs, settings.epochs)
        factor = next_rate_factor(self.rate_factor, divergence, target, *epochs, left)
        self.rate_factor = factor if can_move else min(factor, self.rate_factor)
        return self.learn(report.gradient_noise)

    def learn(self, measured: GradientNoise | None) -> str | None:
        """Take note that an iteration is over, and of its noise; return a sentence if the next one collects more."""
        self.done, self.ratio = self.done + self.size, 1.0
        if measured is None or not (0.0 <= measured.noise < float("inf")):
            return None
        self.noise = _MEMORY * self.noise + (1 - _MEMORY) * measured.noise * self.size
        self.signal = _MEMORY * self.signal + (1 - _MEMORY) * measured.signal
        before, wanted = self.size, wanted_steps(self.noise, self.signal)
        self.size, reason = next_size(before, wanted, self.limits)
        if self.size == before:
            return None
        self.ratio = self.size / before
        suggested = "more steps than can be estimated" if wanted is None else f"{wanted:,} steps an iteration"
        return f"Gradient noise suggests {suggested}; collecting {self.size:,} from now on ({reason})."

    def figures(self) -> dict[str, Any]:
        """Return what metrics.jsonl holds of an iteration that is over."""
        return {
            "noise_scale": wanted_steps(self.noise, self.signal),
            "next_rollout_steps": self.size,
            "learning_rate_factor": self.rate_factor,
            "share_done": self.share(),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the JSON values that a checkpoint keeps."""
        return {name: value for name, value in vars(self).items() if name != "limits"}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        for name, value in state.items():
            setattr(self, name, value)
        self.size = min(self.size, self.limits.most)  # of a run that is shorter now


def wanted_steps(noise: float, signal: float) -> int | None:
    """Return the steps of a rollout whose gradient would be half noise; None where no signal can be told from it."""
    return round(noise / signal) if signal > 0.0 and noise / signal < 1e12 else None


def next_size(size: int, wanted: int | None, limits: GrowthLimits) -> tuple[int, str]:
    """Return the steps of the next rollout after one of ``size``, and a phrase that says what decided it."""
    doubled = round(_MOST_AT_ONCE * size)
    of_run = limits.most > limits.total // LARGEST_SHARE - limits.instances
    limit = f"1/{LARGEST_SHARE} of the run" if of_run else "the most that memory is reserved for"
    candidates = [(doubled, "at most twice the last size"), (limits.most, limit)]
    if wanted is not None:
        candidates.append((wanted, "as suggested"))
    chosen, reason = min(candidates)
    chosen -= chosen % limits.instances
    return (chosen, reason) if chosen >= _LEAST_GROWTH * size else (size, "")


def next_rate_factor(
    factor: float, divergence: float | None, target: float, epochs: int, most_epochs: int, left: float = 1.0
) -> float:
    """Return the factor of the learning rates after an update.

    Higher where all epochs together moved the policy by less than half of the target, lower where the first epoch
    alone moved it by more than 1.5 times as much; without a target as it is. A policy that has ``left`` little of the
    most possible entropy, as a share, has a smaller target, for all epochs together.
    """
    if divergence is None or target <= 0.0:
        return factor
    own = target * min(left / _OPEN, 1.0)
    if divergence > 1.5 * own and (epochs == 1 or own < target):
        return max(factor * _SLOWER, _SLOWEST)
    if epochs == most_epochs and divergence < 0.5 * own:
        return min(factor * _FASTER, _FASTEST)
    return factor
