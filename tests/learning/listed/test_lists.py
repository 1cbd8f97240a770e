"""Samples with lists of actions: gathered as slow lists are, and the gradient of the whole loss by differences."""

import numpy as np
import pytest
import torch
from helpers.listed import pointer_model, pointer_spec, some_lists
from helpers.toy_runs import toy_stepper

from longstride.learning.algorithms.interface import Samples
from longstride.learning.listed.lists import joined_lists
from longstride.rollout.trajectory import allocate

COUNTS = [[3, 1, 4], [2, 2]]
"""Feasible actions of the steps of two trajectories."""


def some_samples(spec, seed=0):
    """Return the samples of two trajectories, and their lists one by one with the chosen places."""
    rng, trajectories, all_lists = np.random.default_rng(seed), [], []
    for counts in COUNTS:
        observations, lists = some_lists(spec, [*counts, 1], seed + len(trajectories))
        chosen, ends = [int(rng.integers(n)) for n in counts], np.cumsum(counts)
        trajectory = allocate(spec, len(counts), np.zeros)
        trajectory.observations[:] = observations
        trajectory.feasible[:, 0], trajectory.feasible[:, 1] = ends, ends - counts + chosen
        trajectory.features[: ends[-1]] = np.concatenate(lists[:-1])
        trajectories.append(trajectory.first(len(counts)))
        all_lists += list(zip(lists, chosen, strict=False))
    columns = {name: torch.from_numpy(np.concatenate([getattr(t, name) for t in trajectories])) for name in _COLUMNS}
    observations = torch.from_numpy(np.concatenate([t.observations[:-1] for t in trajectories]))
    numbers = (torch.from_numpy(rng.normal(size=5).astype(np.float32)) for _ in range(3))
    others = dict(zip(("advantages", "returns", "values"), numbers, strict=True))
    columns["actions"], lists = joined_lists(trajectories, columns["features"])
    columns["features"] = torch.zeros(5, 0)
    return Samples(observations=observations, **columns, **others, lists=lists), all_lists


_COLUMNS = "actions", "log_probs", "masks", "features"


@pytest.mark.parametrize("indices", [[0, 1, 2, 3, 4], [3, 1, 1, 4], [2]])
def test_a_minibatch_has_the_lists_of_its_samples(indices):
    samples, lists = some_samples(pointer_spec())
    gathered = samples.at(torch.tensor(indices))
    expected = [lists[k] for k in indices]
    descriptions = torch.from_numpy(np.concatenate([each for each, _ in expected]))
    assert torch.equal(gathered.described.descriptions, descriptions)
    assert gathered.described.rows.tolist() == [k for k, (each, _) in enumerate(expected) for _ in each]
    rows, chosen_places = gathered.choices
    assert torch.equal(gathered.described.rows, rows)
    begins = np.cumsum([0, *(len(each) for each, _ in expected[:-1])])
    assert chosen_places.tolist() == [b + chosen for b, (_, chosen) in zip(begins, expected, strict=True)]
    assert torch.equal(gathered.observations, samples.observations[indices])
    assert torch.equal(gathered.returns, samples.returns[indices])


def test_the_gradient_of_the_whole_loss_is_that_of_finite_differences():
    """In 64 bits, along random directions of each parameter; tanh, so that the loss has no kinks but PPO's own."""
    model = pointer_model(pointer_spec(activation="tanh"))
    stepper = toy_stepper(model, clip_range=10.0)
    samples, _ = some_samples(model.spec)
    samples = samples.at(torch.tensor([0, 2, 3, 4, 1, 1]))
    samples = samples.map(lambda column: column.double() if column.is_floating_point() else column)
    weights = torch.tensor([0.3, 0.2, 0.1, 0.2, 0.15, 0.05]).double()
    tensors = {name: tensor.detach().double().requires_grad_() for name, tensor in model.tensors.items()}
    names = [name for name in tensors if name.startswith(("actor", "critic"))]
    gradients = torch.autograd.grad(stepper.loss(samples, weights, tensors).total, [tensors[name] for name in names])
    generator = torch.Generator().manual_seed(0)
    for name, gradient in zip(names, gradients, strict=True):
        direction = torch.randn(gradient.shape, generator=generator, dtype=torch.float64)
        moved = [
            stepper.loss(samples, weights, {**tensors, name: tensors[name] + step * direction}).total.item()
            for step in (1e-6, -1e-6)
        ]
        slope = (gradient * direction).sum().item()
        assert slope == pytest.approx((moved[0] - moved[1]) / 2e-6, rel=1e-4, abs=1e-6), name
        assert slope != 0.0, name
