"""The compiled scores of actions against torch and against the formula; draws against those with masks."""

import numpy as np
import pytest
import torch
from helpers.listed import pointer_model, pointer_spec, some_lists
from helpers.toy_runs import actor_weights
from oracles.slow_pointer import SlowPointer

from longstride.policies.candidates import ActionList
from longstride.policies.compiled.candidates import build_scorer, greedy_score, sample_score
from longstride.policies.compiled.forward import align_params, build_forward, new_policy_states, workspace
from longstride.policies.compiled.sampling import greedy_masked, sample_masked

CASES = {"usual": pointer_spec(24, 20, (128, 128)), "odd sizes": pointer_spec(7, 70, (37,), "tanh")}

COUNTS = [1, 16, 17, 40]
"""Feasible actions: less than a block, a block, more."""


@pytest.mark.parametrize("name", CASES)
def test_compiled_scores_are_those_of_torch_and_of_the_formula(name):
    model = pointer_model(CASES[name])
    spec, params = model.spec, align_params(actor_weights(model), model.spec)
    forward, (score, scratch_size) = build_forward(spec), build_scorer(spec)
    observations, lists = some_lists(spec, COUNTS)
    scratch, slow = np.zeros(scratch_size, np.float32), SlowPointer(model)
    for observation, each in zip(observations, lists, strict=True):
        scores = np.full(len(each) + 3, np.float32(7.0))
        encoding = forward(params, observation, new_policy_states(spec, 1)[0], workspace(spec))
        score(params, encoding, np.concatenate([each, each[:1]]), len(each), scores, scratch)
        actions = ActionList(torch.from_numpy(each), torch.zeros(len(each), dtype=torch.int64))
        expected = model.logits(model.normalise(torch.from_numpy(observation[None])), actions).detach().numpy()
        size = np.abs(expected).max()
        np.testing.assert_allclose(scores[: len(each)], expected, rtol=1e-5, atol=1e-5 * size)
        np.testing.assert_allclose(expected, slow.scores(observation, each), rtol=1e-4, atol=1e-4 * size)
        assert (scores[len(each) :] == 7.0).all()


def test_draws_are_those_of_a_mask_that_allows_all():
    rng = np.random.default_rng(0)
    for count in (1, 2, 9):
        scores, allowed = rng.normal(0, 2, count).astype(np.float32), np.ones(count, np.bool_)
        for uniform in [0.0, *rng.random(50), 1.0 - 2.0**-53]:
            assert sample_score(scores, count, uniform) == sample_masked(scores, allowed, count, uniform)
        assert greedy_score(scores, count) == greedy_masked(scores, allowed, count)
    assert greedy_score(np.zeros(4, np.float32), 4) == 0
