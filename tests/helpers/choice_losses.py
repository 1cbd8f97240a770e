"""Samples of one masked choice whose losses have every case: clipped either way, padding, forbidden actions."""

import torch

from longstride.learning.algorithms.grpo import Grpo
from longstride.learning.algorithms.interface import PolicyOutputs, Samples
from longstride.learning.algorithms.ppo import Ppo, PpoCoefficients
from longstride.policies.distributions import discrete

ROWS, ACTIONS = 97, 13


def choice_samples(dtype, seed=0):
    """Return samples, logits, values and weights."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    masks = torch.rand(ROWS, ACTIONS, generator=generator) < 0.6
    actions = torch.randint(0, ACTIONS, (ROWS,), generator=generator)
    masks[torch.arange(ROWS), actions] = True
    masks[5] = False
    masks[5, actions[5]] = True  # one action is left
    logits, none = 2.0 * normal(ROWS, ACTIONS), torch.empty(ROWS, 0, dtype=dtype)
    log_probs = discrete(logits, none, masks, actions)[0] + 0.3 * normal(ROWS)
    columns = {"advantages": normal(ROWS), "returns": normal(ROWS), "values": normal(ROWS), "log_probs": log_probs}
    samples = Samples(observations=none, actions=actions, masks=masks, features=none, **columns)
    weights = torch.rand(ROWS, generator=generator, dtype=torch.float64).to(dtype)
    weights[-7:] = 0.0
    return samples, logits, normal(ROWS), weights / weights.sum()


def by_autograd(samples, logits, values, weights, coefficients):
    """Return loss, terms, and derivatives by logits and values (if there are any) of PPO, or of GRPO."""
    algorithm = Ppo(0.9, coefficients) if len(values) else Grpo(2, coefficients)
    logits, values = logits.clone().requires_grad_(), values.clone().requires_grad_()
    evaluated = discrete(logits, logits[:0], samples.masks, samples.actions)
    loss = algorithm.loss(PolicyOutputs(logits, *evaluated, values), samples, weights, coefficients)
    outputs = [logits, values] if len(values) else [logits]
    return loss.total.detach(), loss.terms, torch.autograd.grad(loss.total, outputs)


def coefficients_of(dtype, entropy=0.01):
    """Return coefficients as a run has them: tensors, or the number 0."""
    numbers = (torch.tensor(number, dtype=dtype) if number else 0.0 for number in (0.2, entropy, 0.5))
    return PpoCoefficients(*numbers)
