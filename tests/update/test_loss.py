"""The PPO loss: hand-computed terms, and its gradients against finite differences."""

import math

import numpy as np
import pytest
import torch
from helpers.toy_runs import toy_episodes, toy_model, toy_stepper
from oracles.slow_update import SlowModel, slow_loss

from core.update.loss import Batch, ppo_loss


def batch_of(ratios, advantages, returns=None, weights=None, masks=None):
    """Return two-action samples whose new probabilities are 1/2 each, so that old ones give these ratios."""
    n = len(ratios)
    return Batch(
        observations=torch.zeros(n, 1),
        actions=torch.zeros(n, dtype=torch.int64),
        log_probs=torch.tensor([math.log(0.5 / r) for r in ratios]),
        masks=torch.ones(n, 2, dtype=torch.bool) if masks is None else masks,
        features=torch.zeros(n, 2, 0),
        advantages=torch.tensor(advantages),
        returns=torch.zeros(n) if returns is None else torch.tensor(returns),
        weights=torch.full((n,), 1.0 / n) if weights is None else torch.tensor(weights),
    )


@pytest.mark.parametrize(
    ("ratio", "advantage", "objective"),
    [
        (1.1, 2.0, 2.2),  # inside the range
        (1.5, 2.0, 2.4),  # too far already: (1 + 0.2) * 2
        (0.5, 2.0, 1.0),  # the way back is free
        (0.5, -2.0, -1.6),  # too far already: (1 - 0.2) * -2
        (1.5, -2.0, -3.0),  # the way back is free
    ],
)
def test_the_policy_term_on_both_sides_of_the_clip_range(ratio, advantage, objective):
    terms = ppo_loss(torch.zeros(1, 2), torch.zeros(1), batch_of([ratio], [advantage]), 0.2, 0.0, 0.0)
    assert float(terms.policy) == pytest.approx(-objective, rel=1e-6)
    assert float(terms.total) == float(terms.policy)
    assert float(terms.clip_fraction) == (1.0 if abs(ratio - 1) > 0.2 else 0.0)
    assert float(terms.ratio_error) == pytest.approx(abs(ratio - 1), rel=1e-5)
    assert float(terms.approx_kl) == pytest.approx(ratio - 1 - math.log(ratio), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize(("ratio", "advantage", "moves"), [(1.5, 2.0, False), (0.5, -2.0, False), (0.5, 2.0, True)])
def test_a_clipped_sample_has_no_gradient(ratio, advantage, moves):
    logits = torch.zeros(1, 2, requires_grad=True)
    ppo_loss(logits, torch.zeros(1), batch_of([ratio], [advantage]), 0.2, 0.0, 0.0).total.backward()
    assert bool(logits.grad.any()) == moves


def test_all_terms_together_by_hand():
    """Weights 3/4 and 1/4.

    policy  -(3/4 * 1.0 * 1 + 1/4 * 1.2 * 4) = -1.95   (the second ratio is clipped)
    value    1/2 * (3/4 * (1 - 3)^2 + 1/4 * (2 - 0)^2) = 2
    entropy  3/4 * ln 2 + 1/4 * 0   (the second sample has one allowed action, of new probability 1: its ratio is 2)
    """
    masks = torch.tensor([[True, True], [True, False]])
    batch = batch_of([1.0, 1.0], [1.0, 4.0], [3.0, 0.0], [0.75, 0.25], masks)
    terms = ppo_loss(torch.zeros(2, 2), torch.tensor([1.0, 2.0]), batch, 0.2, 0.1, 0.5)
    assert float(terms.policy) == pytest.approx(-1.95, rel=1e-6)
    assert float(terms.value) == pytest.approx(2.0, rel=1e-6)
    assert float(terms.entropy) == pytest.approx(0.75 * math.log(2), rel=1e-6)
    assert float(terms.total) == pytest.approx(-1.95 + 0.5 * 2.0 - 0.1 * 0.75 * math.log(2), rel=1e-6)
    assert float(terms.clip_fraction) == 0.25
    assert float(terms.ratio_error) == pytest.approx(1.0, rel=1e-6)


def test_padding_changes_nothing():
    plain = batch_of([1.1, 0.7], [1.0, -4.0], [3.0, 0.0])
    padded = batch_of([1.1, 0.7, 9.0], [1.0, -4.0, 100.0], [3.0, 0.0, 100.0], [0.5, 0.5, 0.0])
    a = ppo_loss(torch.zeros(2, 2), torch.zeros(2), plain, 0.2, 0.1, 0.5)
    b = ppo_loss(torch.zeros(3, 2), torch.zeros(3), padded, 0.2, 0.1, 0.5)
    assert torch.stack(a).tolist() == torch.stack(b).tolist()


def real_batch(kind):
    """Return 40 samples of an episode with the log-probabilities of a somewhat different policy."""
    trajectory = toy_episodes(kind, toy_model(kind), 1)[0].trajectory
    n = min(trajectory.steps, 40)
    rng = np.random.default_rng(2)
    return Batch(
        observations=torch.from_numpy(trajectory.observations[:n].copy()),
        actions=torch.from_numpy(trajectory.actions[:n].copy()),
        log_probs=torch.from_numpy(trajectory.log_probs[:n] + rng.normal(0, 0.2, n).astype(np.float32)),
        masks=torch.from_numpy(trajectory.masks[:n].copy()),
        features=torch.from_numpy(trajectory.features[:n].copy()),
        advantages=torch.from_numpy(rng.normal(size=n).astype(np.float32)),
        returns=torch.from_numpy(rng.normal(size=n).astype(np.float32)),
        weights=torch.full((n,), 1.0 / n),
    )


@pytest.mark.parametrize("kind", ["shop", "bandit"])
def test_gradients_of_the_whole_loss_equal_finite_differences(kind):
    """Central differences in float64 of an independent loss, for eight numbers of each tensor."""
    batch, model = real_batch(kind), toy_model(kind)
    stepper = toy_stepper(model, entropy_coefficient=0.05)
    total = stepper.loss(batch).total
    parameters = [*model.part_parameters("actor"), *model.part_parameters("critic")]
    gradients = torch.autograd.grad(total, parameters)
    actor, critic = model.part_parameters("actor"), model.part_parameters("critic")
    slow = SlowModel(actor, critic, len(model.actor_sizes) - 2, model.activation_name)
    arrays = Batch(*(column.numpy() for column in batch))
    normalised = model.normalise(batch.observations).double().numpy()

    def loss():
        return slow_loss(*slow.heads(normalised, arrays.features), arrays, 0.2, 0.05, 0.5)

    assert loss() == pytest.approx(float(total.detach()), rel=1e-5, abs=1e-6)
    rng = np.random.default_rng(0)
    largest = max(float(g.abs().max()) for g in gradients)
    for parameter, gradient in zip(slow.parameters, gradients, strict=True):
        for index in rng.integers(parameter.size, size=min(8, parameter.size)):
            before = parameter.flat[index]
            parameter.flat[index] = before + 1e-6
            above = loss()
            parameter.flat[index] = before - 1e-6
            below = loss()
            parameter.flat[index] = before
            difference = (above - below) / 2e-6
            assert float(gradient.flatten()[index]) == pytest.approx(difference, rel=2e-3, abs=1e-5 * largest)


def test_the_episodes_behind_the_gradients_are_not_trivial():
    batch = real_batch("bandit")
    terms = toy_stepper(toy_model("bandit")).loss(batch)
    assert 0.1 < float(terms.clip_fraction) < 0.9
    assert not batch.masks.all()
