"""When natural episodes vary so much less than before that the beginning of a run is forgotten."""

import numpy as np
import pytest

from longstride.policies.observation_normalizer import statistics_of
from longstride.rollout.exploring.natural_observations import NaturalObservations


def rollout(*deviations, rows=100, mean=0.0):
    """Return the statistics of a rollout whose columns have these deviations."""
    signs = np.tile([[-1.0], [1.0]], (rows // 2, 1))
    return [statistics_of((mean + signs * np.array(deviations)).astype(np.float32))]


def after(first, *later):
    """Return in which of the later rollouts something begins anew, and where."""
    natural = NaturalObservations(len(first))
    natural.learn(rollout(*first))
    found = [natural.learn(rollout(*each)).tolist() for each in later]
    return [(i, columns) for i, columns in enumerate(found) if any(columns)]


def test_all_columns_that_vary_less_begin_anew_once_one_varies_far_less():
    """The third one varies more, the fourth is constant now."""
    ((begin, columns),) = after((100.0, 10.0, 3.0, 5.0), *[(1.0, 8.0, 4.0, 5.0)] * 40)[:1]
    assert columns == [True, True, False, False]
    assert 5 < begin < 25, "recent rollouts still know the first one for a while"


@pytest.mark.parametrize("later", [(30.0, 10.0), (100.0, 10.0), (200.0, 40.0)])
def test_else_nothing_does(later):
    assert after((100.0, 10.0), *[later] * 100) == []


def test_indicators_do_not():
    """An indicator that is seldom 1 has no need of a scale."""
    natural = NaturalObservations(1)
    natural.learn([statistics_of(np.array([[0.0], [1.0]], np.float32))])
    seldom = [statistics_of(np.array([[1.0]] + [[0.0]] * 999, np.float32))]
    assert not any(natural.learn(seldom).any() for _ in range(30))


def test_rare_spikes_cause_few_new_beginnings():
    """One in forty rollouts: after each new beginning the next waits for twice as many rollouts."""
    spiked = [(1_000.0,) if i % 40 == 39 else (1.0,) for i in range(400)]
    assert 1 <= len(after((1_000.0,), *spiked)) <= 6


def test_it_goes_on_after_a_checkpoint_to_the_bit():
    one, other = NaturalObservations(1), NaturalObservations(1)
    for natural in (one, other):
        natural.learn(rollout(1_000.0))
    for _ in range(3):
        one.learn(rollout(1.0))
    other.restore({name: array.copy() for name, array in one.arrays().items()})
    found = [[bool(each.learn(rollout(1.0))[0]) for _ in range(60)] for each in (one, other)]
    assert found[0] == found[1]
    assert sum(found[0]) >= 1
    other.restore({})
