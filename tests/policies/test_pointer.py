"""Policies that score lists of actions, in torch: against plain NumPy, against padded rows, and without an order."""

import numpy as np
import pytest
import torch
from helpers.listed import pointer_model, pointer_spec, some_lists
from oracles.slow_pointer import SlowPointer

from longstride.errors import UserError
from longstride.policies.candidates import ActionList, one_of_each_list
from longstride.policies.distributions import discrete
from longstride.policies.loaded_listed import LoadedListPolicy

COUNTS = [3, 1, 7, 2, 1, 5]
"""Feasible actions of each observation: with one of them nothing is to choose."""


def joined(lists) -> ActionList:
    rows = np.repeat(np.arange(len(lists)), [len(each) for each in lists])
    return ActionList(torch.from_numpy(np.concatenate(lists)), torch.from_numpy(rows))


def evaluated(model, observations, lists, chosen):
    """Return log-probabilities and entropies of chosen places in the lists."""
    actions = joined(lists)
    scored = model.logits(model.normalise(torch.from_numpy(observations)), actions)
    begins = np.cumsum([0, *(len(each) for each in lists[:-1])])
    places = torch.from_numpy(begins + chosen)
    return scored, one_of_each_list(scored, model.log_std, actions.rows, places)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_probabilities_and_entropies_are_those_of_the_formula(activation):
    model = pointer_model(pointer_spec(activation=activation))
    observations, lists = some_lists(model.spec, COUNTS)
    chosen = np.array([2, 0, 4, 1, 0, 3])
    scored, (log_probs, entropies) = evaluated(model, observations, lists, chosen)
    slow = SlowPointer(model)
    probabilities = [slow.probabilities(row, each) for row, each in zip(observations, lists, strict=True)]
    scores = np.concatenate([slow.scores(row, each) for row, each in zip(observations, lists, strict=True)])
    np.testing.assert_allclose(scored.detach().numpy(), scores, rtol=1e-4, atol=1e-4)
    expected = [np.log(p[k]) for p, k in zip(probabilities, chosen, strict=True)]
    np.testing.assert_allclose(log_probs.detach().numpy(), expected, rtol=1e-4, atol=1e-4)
    expected = [-(p[p > 0] * np.log(p[p > 0])).sum() for p in probabilities]
    np.testing.assert_allclose(entropies.detach().numpy(), expected, rtol=1e-4, atol=1e-4)
    assert log_probs[1].item() == entropies[1].item() == 0.0  # a single feasible action


def test_lists_are_padded_rows_with_masks_and_so_are_their_gradients():
    rng = np.random.default_rng(3)
    rows = torch.from_numpy(np.repeat(np.arange(len(COUNTS)), COUNTS))
    scores = torch.from_numpy(rng.normal(0, 3, sum(COUNTS)).astype(np.float32)).requires_grad_()
    masks = torch.arange(max(COUNTS)) < torch.tensor(COUNTS).unsqueeze(1)
    padded = torch.zeros(masks.shape).masked_scatter(masks, scores)
    chosen, begins = torch.tensor([2, 0, 4, 1, 0, 3]), torch.tensor([0, *np.cumsum(COUNTS)[:-1].tolist()])
    weights = torch.from_numpy(rng.normal(size=(2, len(COUNTS))).astype(np.float32))
    none = scores.new_empty(0)
    gradients = []
    for outputs in (one_of_each_list(scores, none, rows, begins + chosen), discrete(padded, none, masks, chosen)):
        (gradient,) = torch.autograd.grad((torch.stack(outputs) * weights).sum(), [scores], retain_graph=True)
        gradients.append((*outputs, gradient))
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_scores_of_any_size_stay_finite():
    scores = torch.tensor([-1e30, 1e30, 0.0, 88.0, 89.0]).requires_grad_()
    outputs = one_of_each_list(scores, scores[:0], torch.tensor([0, 0, 1, 2, 2]), torch.tensor([1, 2, 3]))
    (gradient,) = torch.autograd.grad(sum(map(torch.sum, outputs)), [scores])
    assert all(torch.isfinite(part).all() for part in (*outputs, gradient))


def test_another_order_of_actions_has_the_same_probabilities_in_that_order():
    model = pointer_model(pointer_spec(actor=(32,)))
    observations, lists = some_lists(model.spec, COUNTS)
    orders = [np.random.default_rng(k).permutation(count) for k, count in enumerate(COUNTS)]
    chosen = np.array([2, 0, 4, 1, 0, 3])
    moved = np.array([int(np.flatnonzero(order == k)[0]) for order, k in zip(orders, chosen, strict=True)])
    _, plain = evaluated(model, observations, lists, chosen)
    _, permuted = evaluated(model, observations, [each[o] for each, o in zip(lists, orders, strict=True)], moved)
    torch.testing.assert_close(plain, permuted, rtol=1e-5, atol=1e-5)


def test_no_parameter_depends_on_the_number_of_actions():
    few, many = (pointer_spec(actions=n).layout for n in (2, 20_001))
    assert few.shapes == many.shapes
    assert sum(name.startswith("actor") for name in few.shapes) == 2 * 3 + 5


def test_a_loaded_policy_chooses_a_place_in_each_list():
    model = pointer_model(pointer_spec())
    policy = LoadedListPolicy(model.spec, model.flat[: model.layout.actor_size].numpy(), seed=1)
    observations, lists = some_lists(model.spec, COUNTS, seed=5)
    slow = SlowPointer(model)
    likeliest = [int(slow.scores(row, each).argmax()) for row, each in zip(observations, lists, strict=True)]
    assert policy.act(observations, features=lists).tolist() == likeliest
    assert policy.act(observations[0], features=lists[0]) == likeliest[0]
    for row, each in zip(observations, lists, strict=True):
        place, probabilities = policy.decide(row, each)
        assert place == int(slow.scores(row, each).argmax())
        np.testing.assert_allclose(probabilities, slow.probabilities(row, each), atol=1e-5)
    drawn = [policy.act(observations[2], features=lists[2], greedy=False) for _ in range(2_000)]
    expected = slow.probabilities(observations[2], lists[2])
    np.testing.assert_allclose(np.bincount(drawn, minlength=7) / 2_000, expected, atol=0.05)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"features": None}, r"pass features=float32\[n, 4\]"),
        ({"mask": np.ones(3, np.bool_)}, "leave mask out"),
        ({"features": np.zeros((0, 4), np.float32)}, "lists no action"),
        ({"features": np.zeros((3, 5), np.float32)}, r"features must be float32\[n, 4\], not float32\[3, 5\]"),
        ({"features": np.full((2, 4), np.nan, np.float32)}, r"features\[0, 0\] is nan"),
        ({"observation": np.zeros(6, np.float32)}, r"observation must be float32\[5\], not float32\[6\]"),
        ({"observation": np.zeros((2, 5), np.float32)}, "needs a list of B arrays"),
    ],
)
def test_wrong_arguments_are_named(change, sentence):
    model = pointer_model(pointer_spec())
    policy = LoadedListPolicy(model.spec, model.flat[: model.layout.actor_size].numpy())
    given = {"observation": np.zeros(5, np.float32), "features": np.zeros((3, 4), np.float32), **change}
    with pytest.raises(UserError, match=sentence):
        policy.act(**given)
