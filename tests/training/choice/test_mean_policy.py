"""The mean of a run's late policies: its weights, what a checkpoint keeps, and that it is chosen where it is better."""

import numpy as np
import pytest

from longstride.training.choice.mean_policy import MeanPolicy


def mean_of(policies, count=None):
    found = MeanPolicy()
    for params in policies[:count]:
        found.include(params)
    return found


def test_a_policy_weighs_by_the_product_of_its_number_and_the_next_four():
    """That is about the fifth power of its number, as polynomial decay with a power of 5 has it in closed form."""
    policies = np.random.default_rng(0).normal(size=(40, 7)).astype(np.float32)
    for count in (2, 3, 40):
        number = np.arange(1.0, count + 1.0)
        weights = np.prod([number + ahead for ahead in range(5)], axis=0)
        assert mean_of(policies, count).params == pytest.approx(weights / weights.sum() @ policies[:count], abs=1e-6)
    assert mean_of(policies).params.dtype == np.float32


def test_there_is_none_of_a_single_policy():
    assert MeanPolicy().params is None
    assert mean_of(np.ones((1, 3), np.float32)).params is None


def test_it_continues_to_the_bit_from_a_checkpoint_and_anew_from_an_earlier_one():
    policies = np.random.default_rng(1).normal(size=(9, 5)).astype(np.float32)
    whole, first = mean_of(policies), mean_of(policies, 4)
    later = MeanPolicy()
    later.restore(first.arrays(), first.metadata())
    for params in policies[4:]:
        later.include(params)
    assert (later.params == whole.params).all()
    assert not np.shares_memory(later.arrays()["candidate.mean"], first.arrays()["candidate.mean"])
    later.restore({}, {})
    assert later.params is None
    assert later.arrays() == {}
