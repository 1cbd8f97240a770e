"""``python -m helpers.triton_losses`` prints how far the Triton kernel, interpreted, is from autograd in float64.

A process of its own: Triton reads TRITON_INTERPRET when a kernel is defined.
"""

import json
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
from helpers.choice_losses import ROWS, by_autograd, choice_samples, coefficients_of

from longstride.learning.steps import triton_adam
from longstride.learning.steps.loss_slopes import choose, one_choice, triton_choice, triton_gather


def deviation_in_a_rollout():
    """Return how far the kernel is from autograd where it reads samples by their places and weighs their features."""
    samples, logits, values, weights = choice_samples(torch.float32)
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(*logits.shape, 2, generator=generator)
    order, by = torch.randperm(ROWS, generator=generator), torch.tensor([0.7, -0.4])
    places = torch.argsort(order)
    rollout = samples._replace(features=features).map(lambda column: column[order])
    given = rollout, weights, coefficients_of(torch.float32), triton_choice.figures_of, places, by
    written = torch.full((2,), torch.nan)
    loss = one_choice.loss_with_slopes(logits, values, *given, by_features=written)
    assert loss.slopes[-1] is written
    wide, exact = by.double().requires_grad_(), coefficients_of(torch.float64)
    columns = {name: samples.columns[name].double() for name in ("log_probs", "advantages", "returns")}
    outputs = logits.double() + (features.double() * wide).sum(-1)
    doubles = outputs.detach(), values.double(), weights.double()
    total, _, slopes = by_autograd(samples._replace(**columns), *doubles, exact)
    [by_features] = torch.autograd.grad(outputs, [wide], slopes[0])
    pairs = [(loss.total, total), *zip(loss.slopes, (*slopes, by_features), strict=True)]
    return max(float((a - b).detach().abs().max() / b.detach().abs().max().clamp(min=1e-3)) for a, b in pairs)


def main():
    """Print the largest deviation of each figure, of the wider one of each pair."""
    found = {}
    for case, entropy, critic in (("ppo", 0.01, True), ("no entropy", 0.0, True), ("grpo", 0.01, False)):
        samples, logits, values, weights = choice_samples(torch.float32)
        values = values if critic else values[:0]
        loss = one_choice.loss_with_slopes(
            logits, values, samples, weights, coefficients_of(torch.float32, entropy), triton_choice.figures_of
        )
        exact = samples._replace(
            **{name: samples.columns[name].double() for name in ("log_probs", "advantages", "returns")}
        )
        total, terms, slopes = by_autograd(
            exact, logits.double(), values.double(), weights.double(), coefficients_of(torch.float64, entropy)
        )
        pairs = [(loss.total, total), *zip(loss.terms, terms, strict=True), *zip(loss.slopes, slopes, strict=True)]
        found[case] = max(
            float((a - b).detach().abs().max() / b.detach().abs().max().clamp(min=1e-3)) for a, b in pairs
        )
    found["in a rollout"] = deviation_in_a_rollout()
    samples, logits, values, weights = choice_samples(torch.float32)
    logits[3, samples.actions[3]] = torch.nan
    loss = one_choice.loss_with_slopes(
        logits, values, samples, weights, coefficients_of(torch.float32), triton_choice.figures_of
    )
    found["nan stays"] = bool(loss.total.isnan()) and bool(loss.slopes[0][3].isnan().any())
    found["rows of a matrix"] = choose.difference_of_rows(
        triton_gather.gather,
        torch.device("cpu"),
        [torch.float32],  # the interpreter rounds in its own way
    )
    triton_adam._PROGRAMS = 4  # the interpreter takes one after another
    found["steps"] = choose.difference_of_steps(triton_adam.step_of_all, torch.device("cpu"))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
