"""The PPO loss: hand-computed terms, and its gradients against finite differences."""

import math

import numpy as np
import pytest
import torch
from helpers.toy_runs import toy_episodes, toy_model, toy_stepper
from oracles.slow_update import SlowModel, slow_derivative, slow_loss

from longstride.learning.algorithms.interface import PolicyOutputs, Samples
from longstride.learning.algorithms.ppo import LossTerms, Ppo, PpoCoefficients, total_loss
from longstride.policies.distributions import Distribution, discrete, distribution_of
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete

NO_STD = torch.zeros(0)


def ppo_loss(logits, values, batch, *coefficients):
    """Return total and terms of the loss of a policy of one choice."""
    samples, weights = batch
    evaluated = discrete(logits, NO_STD, samples.masks, samples.actions)
    return loss_of(PolicyOutputs(logits, *evaluated, values), samples, weights, *coefficients)


def loss_of(outputs, samples, weights, *coefficients):
    """Return total and terms of the loss of some outputs."""
    coefficients = PpoCoefficients(*coefficients)
    return Ppo(0.95, coefficients).loss(outputs, samples, weights, coefficients)


def batch_of(ratios, advantages, returns=None, weights=None, masks=None):
    """Return samples of two actions, now of probability 1/2 each and before with these ratios, and their weights."""
    n = len(ratios)
    samples = Samples(
        observations=torch.zeros(n, 1),
        actions=torch.zeros(n, dtype=torch.int64),
        log_probs=torch.tensor([math.log(0.5 / r) for r in ratios]),
        masks=torch.ones(n, 2, dtype=torch.bool) if masks is None else masks,
        features=torch.zeros(n, 2, 0),
        advantages=torch.tensor(advantages),
        returns=torch.zeros(n) if returns is None else torch.tensor(returns),
        values=torch.zeros(n),
    )
    return samples, torch.full((n,), 1.0 / n) if weights is None else torch.tensor(weights)


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
    total, terms = ppo_loss(torch.zeros(1, 2), torch.zeros(1), batch_of([ratio], [advantage]), 0.2, 0.0, 0.0)
    assert float(terms.policy_loss) == pytest.approx(-objective, rel=1e-6)
    assert float(total) == float(terms.policy_loss)
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
    total, terms = ppo_loss(torch.zeros(2, 2), torch.tensor([1.0, 2.0]), batch, 0.2, 0.1, 0.5)
    assert float(terms.policy_loss) == pytest.approx(-1.95, rel=1e-6)
    assert float(terms.value_loss) == pytest.approx(2.0, rel=1e-6)
    assert float(terms.entropy) == pytest.approx(0.75 * math.log(2), rel=1e-6)
    assert float(total) == pytest.approx(-1.95 + 0.5 * 2.0 - 0.1 * 0.75 * math.log(2), rel=1e-6)
    assert float(terms.clip_fraction) == 0.25
    assert float(terms.ratio_error) == pytest.approx(1.0, rel=1e-6)


def test_padding_changes_nothing():
    plain = batch_of([1.1, 0.7], [1.0, -4.0], [3.0, 0.0])
    padded = batch_of([1.1, 0.7, 9.0], [1.0, -4.0, 100.0], [3.0, 0.0, 100.0], [0.5, 0.5, 0.0])
    a = ppo_loss(torch.zeros(2, 2), torch.zeros(2), plain, 0.2, 0.1, 0.5)
    b = ppo_loss(torch.zeros(3, 2), torch.zeros(3), padded, 0.2, 0.1, 0.5)
    assert (float(a.total), torch.stack(a.terms).tolist()) == (float(b.total), torch.stack(b.terms).tolist())


def test_the_total_is_linear_in_its_terms():
    """So the compiled kernels take the derivatives by the terms from the total of single terms."""
    rng, coefficients = np.random.default_rng(0), PpoCoefficients(0.2, 0.3, 0.7)
    names = LossTerms._fields
    terms = LossTerms(*rng.normal(size=len(names)))
    parts = [
        total_loss(LossTerms(*np.where(np.arange(len(names)) == i, terms, 0.0)), coefficients)
        for i in range(len(names))
    ]
    assert sum(parts) == pytest.approx(total_loss(terms, coefficients))
    assert parts[names.index("entropy")] == pytest.approx(-0.3 * terms.entropy)


PLAYED = ["shop", "bandit", "choices", "tracker", "squashed"]


def real_samples(kind):
    """Return 20 samples of an episode with the log-probabilities of a somewhat different policy, and their weights."""
    trajectory = toy_episodes(kind, toy_model(kind), 1)[0].trajectory
    n = min(trajectory.steps, 20)
    rng = np.random.default_rng(2)
    samples = Samples(
        observations=torch.from_numpy(trajectory.observations[:n].copy()),
        actions=torch.from_numpy(trajectory.actions[:n].copy()),
        log_probs=torch.from_numpy(trajectory.log_probs[:n] + rng.normal(0, 0.2, n).astype(np.float32)),
        masks=torch.from_numpy(trajectory.masks[:n].copy()),
        features=torch.from_numpy(trajectory.features[:n].copy()),
        advantages=torch.from_numpy(rng.normal(size=n).astype(np.float32)),
        returns=torch.from_numpy(rng.normal(size=n).astype(np.float32)),
        values=torch.from_numpy(rng.normal(size=n).astype(np.float32)),
    )
    return samples, torch.full((n,), 1.0 / n)


@pytest.mark.parametrize("kind", PLAYED)
def test_gradients_of_the_whole_loss_equal_finite_differences(kind):
    """Central differences in float64 of an independent loss, for eight numbers of each tensor."""
    (samples, weights), model = real_samples(kind), toy_model(kind)
    stepper = toy_stepper(model, entropy_coefficient=0.05)
    total = stepper.loss(samples, weights).total
    parameters = [*model.part_parameters("actor"), *model.part_parameters("critic")]
    gradients = torch.autograd.grad(total, parameters)
    slow = SlowModel(model)
    arrays = samples.map(torch.Tensor.numpy)
    normalised = model.normalise(samples.observations).double().numpy()
    coefficients = PpoCoefficients(0.2, 0.05, 0.5)

    def value():
        heads = slow.heads(normalised, arrays.features)
        return slow_loss(model.spec.action_space, *heads, arrays, weights.numpy(), coefficients)

    assert value() == pytest.approx(float(total.detach()), rel=1e-5, abs=1e-5)
    rng = np.random.default_rng(0)
    largest = max(float(g.abs().max()) for g in gradients)
    for parameter, gradient in zip(slow.parameters, gradients, strict=True):
        for index in rng.integers(parameter.size, size=min(8, parameter.size)):
            difference = slow_derivative(value, parameter, index)
            assert float(gradient.flatten()[index]) == pytest.approx(difference, rel=2e-3, abs=1e-5 * largest)


@pytest.mark.parametrize("kind", PLAYED[1:])
def test_the_episodes_behind_the_gradients_are_not_trivial(kind):
    samples, weights = real_samples(kind)
    assert 0.1 < float(toy_stepper(toy_model(kind)).loss(samples, weights).terms.clip_fraction) < 0.9
    assert samples.masks.numel() == 0 or not samples.masks.all()


def double_batch(space, n=24):
    """Return outputs, log_std, samples and weights in float64, for a space, half of them clipped."""
    generator = torch.Generator().manual_seed(1)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    masks = torch.rand(n, sum(space.choices), generator=generator) < 0.7
    starts = np.cumsum([0, *space.choices[:-1]])[: len(space.choices)]
    masks[:, starts] = True  # the first value of each choice, which the actions below are
    actions = torch.zeros(n, *space.shape, dtype=torch.int64) if space.choices else normal(n, *space.shape)
    outputs, log_std = normal(n, space.outputs), 0.3 * normal(0 if space.choices else space.outputs)
    now = distribution_of(space)(outputs, log_std, masks, actions)[0]
    old = now + torch.linspace(-0.5, 0.5, n, dtype=torch.float64)
    weights = torch.full((n,), 1 / n, dtype=torch.float64)
    samples = Samples(normal(n, 1), actions, old, masks, torch.zeros(n, 0), *(normal(n) for _ in range(3)))
    return outputs, log_std, samples, weights


@pytest.mark.parametrize(
    "space",
    [Discrete(5), MultiDiscrete([3, 1, 4]), Box([-1, -2], [1, 2]), Box([-1, -2], [1, 5], squashed=True)],
    ids=str,
)
def test_gradients_in_double_precision(space):
    """The code itself in float64: outputs, log-standard deviations and values; some ratios are clipped."""
    outputs, log_std, samples, weights = double_batch(space)
    evaluate: Distribution = distribution_of(space)

    def loss(outputs, log_std, values):
        evaluated = evaluate(outputs, log_std, samples.masks, samples.actions)
        return loss_of(PolicyOutputs(outputs, *evaluated, values), samples, weights, 0.2, 0.3, 0.5)

    values = torch.linspace(-1.0, 2.0, len(outputs), dtype=torch.float64)
    inputs = [x.requires_grad_() for x in (outputs, log_std, values)]
    clipped = loss(*inputs)
    assert 0.3 < float(clipped.terms.clip_fraction) < 0.9
    assert clipped.total.dtype == torch.float64
    assert torch.autograd.gradcheck(lambda *x: loss(*x).total, inputs, eps=1e-6, atol=1e-8, rtol=1e-5)
