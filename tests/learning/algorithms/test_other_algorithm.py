"""Another algorithm than PPO: without a critic, with coefficients and loss terms of its own."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from helpers.toy_runs import actor_weights, discounts_of, rollout_batch, toy_collector, toy_model, toy_settings

from longstride.learning.advantages import standardise
from longstride.learning.algorithms.interface import Loss, Targets
from longstride.learning.schedule import Coefficients
from longstride.learning.steps.interface import UpdateSettings
from longstride.learning.updater import Updater


class Terms(NamedTuple):
    policy_loss: torch.Tensor
    surprise: torch.Tensor
    approx_kl: torch.Tensor
    ratio_error: torch.Tensor


class BonusCoefficients(NamedTuple):
    bonus: float = 0.0


@dataclass(frozen=True)
class Reinforce:
    """Rewards as advantages (Williams, 1992), as what a bandit does now has no later consequences."""

    coefficients: BonusCoefficients
    needs_critic: ClassVar[bool] = False
    learns_from_all: ClassVar[bool] = True
    terms: ClassVar[tuple[str, ...]] = Terms._fields

    def targets(self, rollout, values, next_values):
        assert not any(v.any() for v in (*values, *next_values))
        rewards = np.concatenate([t.rewards for t in rollout.trajectories])
        return Targets(standardise(rewards), rewards)

    def loss(self, outputs, samples, weights, coefficients):
        assert len(outputs.values) == 0
        policy_loss = -(outputs.log_probs * samples.advantages * weights).sum()
        surprise = (-outputs.log_probs.detach() * weights).sum()
        ratio = (outputs.log_probs - samples.log_probs).exp().detach()
        terms = Terms(policy_loss, surprise, ((ratio - 1.0) * weights).sum(), (ratio - 1.0).abs().max())
        return Loss(policy_loss - coefficients.bonus * (outputs.entropies * weights).sum(), terms)


@pytest.mark.parametrize("bonus", [0.0, 0.01])
def test_it_learns(bonus):
    """Forty rollouts of the bandit, whose best return is 256."""
    model, returns = toy_model("bandit"), []
    settings = toy_settings(UpdateSettings, epochs=1, learning_rate_actor=1e-2)
    updater = Updater(model, torch.device("cpu"), Reinforce(BonusCoefficients(bonus)), settings)
    critic = [parameter.detach().clone() for parameter in model.part_parameters("critic")]
    for number in range(40):
        episodes = toy_collector("bandit").collect(actor_weights(model), number, 1)[0]
        returns.append(episodes[0].finished[0].total_reward)
        rollout = rollout_batch([e.trajectory for e in episodes], discounts_of(episodes))
        report = updater.update(rollout, Coefficients(1.0, BonusCoefficients(bonus)), np.random.default_rng(number))
        assert list(report.losses) == ["policy_loss", "surprise", "approx_kl", "initial_ratio_error"]
        assert report.explained_variance is None
        assert report.losses["initial_ratio_error"] < 1e-3
    assert np.mean(returns[-5:]) > np.mean(returns[:5]) + 50.0
    assert all(torch.equal(a, b) for a, b in zip(critic, model.part_parameters("critic"), strict=True))
    assert model.tensors["value_std"].item() == 1.0
