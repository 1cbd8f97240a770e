"""Rare rewards: means in cells beside a table that is filled step by step, and what must not change."""

from types import SimpleNamespace

import numpy as np
import pytest

from longstride.learning.batch import rare_rewards
from longstride.learning.batch.rare_rewards import RareRewards
from longstride.learning.distributed.ranks import ALONE
from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import PolicySpec
from longstride.rollout.trajectory import allocate
from longstride.simulators.spaces import Discrete, MultiDiscrete

SHIFT, SCALE = np.zeros(2, np.float32), np.ones(2, np.float32)
STEPS, BINARY, NONE = 3_000, Discrete(2), [None, None]


def rollout(seed, chance=2e-3, space=BINARY, reward=-1e3):
    """Return two trajectories in which a large reward follows a state and an action, by some chance."""
    rng, trajectories = np.random.default_rng(seed), []
    for _ in range(2):
        t = allocate(PolicySpec(2, space, (), (), "tanh", MLP), STEPS)
        t.observations[:] = rng.integers(0, 3, t.observations.shape)
        t.actions[:] = rng.integers(0, 2, t.actions.shape)
        t.rewards[:] = -1.0 - t.actions.reshape(STEPS, -1)[:, 0]
        could = (t.observations[:STEPS, 0] == 2) & (t.actions.reshape(STEPS, -1)[:, -1] == 1)
        t.rewards[could & (rng.random(STEPS) < chance)] = reward
        trajectories.append(t)
    return trajectories


def slow(rollouts):
    """Return the rewards of the last rollout with means of rare ones, from sums over single steps."""
    sums, visits, changed = {}, {}, []
    for t in (t for trajectories in rollouts for t in trajectories):
        for o, a, r in zip(t.observations.tolist(), t.actions.tolist(), t.rewards.tolist(), strict=False):
            key = *o, str(a)
            visits[key] = visits.get(key, 0) + 1
            sums[key] = sums.get(key, 0.0) + (r if r < -100.0 else 0.0)
    for t in rollouts[-1]:
        rows = zip(t.observations.tolist(), t.actions.tolist(), t.rewards.tolist(), strict=False)
        changed.append([(r if r > -100.0 else 0.0) + sums[*o, str(a)] / visits[*o, str(a)] for o, a, r in rows])
    return changed


@pytest.mark.parametrize("space", [BINARY, MultiDiscrete([2, 2])])
def test_rare_rewards_become_their_mean_over_all_steps_of_the_same_kind(space):
    rewards, rollouts = RareRewards(), [rollout(seed, space=space) for seed in range(8)]
    for each in rollouts:
        before = [t.rewards.copy() for t in each]
        found = rewards.replaced(each, NONE, SHIFT, SCALE)
        assert all(np.array_equal(t.rewards, b) for t, b in zip(each, before, strict=True))
    assert sum((t.rewards < -100.0).sum() for each in rollouts for t in each) > 8
    np.testing.assert_allclose([t.rewards for t in found], slow(rollouts), rtol=1e-5)


def test_rare_rewards_of_repeated_steps_become_their_mean_over_all_outcomes():
    """Beside a table of single outcomes; the rest of the rewards is the mean over the outcomes of the step."""
    rewards, (sums, visits), draws = RareRewards(), ({}, {}), 4
    for seed in range(6):
        each, rng = rollout(seed), np.random.default_rng(100 + seed)
        drawn = []
        for t in each:
            burst = (t.observations[:STEPS, 0] == 2) & (t.actions == 1)
            again = np.repeat(-1.0 - t.actions[:, None], draws, axis=1) - rng.random((STEPS, draws))
            again[burst[:, None] & (rng.random((STEPS, draws)) < 2e-3)] = -1e3
            drawn.append(SimpleNamespace(rewards=again.astype(np.float32)))
        found, means = rewards.replaced(each, drawn, SHIFT, SCALE), []
        for t, d in zip(each, drawn, strict=True):
            singles = np.concatenate([t.rewards[:, None], d.rewards], axis=1).astype(np.float64)
            for o, a, r in zip(t.observations.tolist(), t.actions.tolist(), singles, strict=False):
                visits[*o, a] = visits.get((*o, a), 0) + len(r)
                sums[*o, a] = sums.get((*o, a), 0.0) + r[r < -100.0].sum()
            means.append(np.where(singles < -100.0, 0.0, singles).mean(axis=1))
    assert min(np.abs(r).max() for d in drawn for r in d.rewards) > 0.0
    for t, mean, one in zip(each, means, found, strict=True):
        keys = [(*o, a) for o, a in zip(t.observations.tolist(), t.actions.tolist(), strict=False)]
        expected = mean + [sums[key] / visits[key] for key in keys]
        np.testing.assert_allclose(one.rewards, expected, rtol=1e-5)


def test_the_first_rollout_keeps_its_sum_of_rewards():
    each = rollout(0)
    found = RareRewards().replaced(each, NONE, SHIFT, SCALE)
    assert sum(t.rewards.sum() for t in found) == pytest.approx(sum(t.rewards.sum() for t in each), rel=1e-5)
    assert max(np.abs(t.rewards).max() for t in found) < 100.0 < max(np.abs(t.rewards).max() for t in each)


@pytest.mark.parametrize(("chance", "reward"), [(0.0, -1e3), (0.2, -1e3), (3e-3, -15.0)])
def test_rewards_that_are_usual_or_hardly_larger_stay_the_same_object(chance, reward):
    rewards, each = RareRewards(), rollout(0, chance, reward=reward)
    assert all(a is b for a, b in zip(rewards.replaced(each, NONE, SHIFT, SCALE), each, strict=True))
    assert not any(name.startswith("rare.steps") for name in rewards.arrays())


def test_a_reward_that_its_situation_brings_often_stays():
    """A goal that is seldom reached pays whoever reaches it, and not the steps that are like it."""
    each = rollout(0, 0.0)
    each[0].observations[10:13], each[0].actions[10:13], each[0].rewards[10:13] = 9.0, 1, 500.0
    found = RareRewards().replaced(each, NONE, SHIFT, SCALE)
    np.testing.assert_array_equal([t.rewards for t in found], [t.rewards for t in each])


def test_two_processes_find_what_one_finds():
    together, parts = RareRewards(), [RareRewards(), RareRewards()]
    for seed in range(3):
        each = rollout(seed)
        found = together.replaced(each, NONE, SHIFT, SCALE)
        rewards = [t.rewards[:, None] for t in each]
        steps = [rare_rewards._steps_of(t, r) for t, r in zip(each, rewards, strict=True)]
        rare = [s.at(np.flatnonzero(s.rewards < -100.0)) for s in steps]
        calls = [[[each[i].rewards] for i in range(2)], [[one] for one in steps], [[one] for one in rare]]
        for i, part in enumerate(parts):
            answers = iter(calls)
            ranks = SimpleNamespace(gather=lambda own, answers=answers: next(answers))
            (own,) = part.replaced([each[i]], [None], SHIFT, SCALE, ranks)
            np.testing.assert_array_equal(own.rewards, found[i].rewards)


def test_a_restored_memory_continues_alike():
    one, other = RareRewards(), RareRewards()
    one.replaced(rollout(0), NONE, SHIFT, SCALE)
    other.restore(one.arrays())
    for kept, again in zip(*(r.replaced(rollout(1), NONE, SHIFT, SCALE, ALONE) for r in (one, other)), strict=True):
        np.testing.assert_array_equal(kept.rewards, again.rewards)
    other.restore({})
    assert other.arrays().keys() == RareRewards().arrays().keys()


def test_a_thinned_memory_finds_about_the_same_means(monkeypatch):
    whole, thinned = RareRewards(), RareRewards()
    for seed in range(6):
        each = rollout(seed)
        exact = whole.replaced(each, NONE, SHIFT, SCALE)
        with monkeypatch.context() as patch:
            patch.setattr(rare_rewards, "_MOST_ROWS", 5_000)
            about = thinned.replaced(each, NONE, SHIFT, SCALE)
    assert thinned.arrays()["rare.numbers"][1] > 1 and len(thinned.arrays()["rare.steps.rewards"]) <= 5_000
    np.testing.assert_allclose(*([t.rewards.mean() for t in found] for found in (about, exact)), rtol=0.05)


def test_enough_rare_rewards_are_not_added_to(monkeypatch):
    monkeypatch.setattr(rare_rewards, "_ENOUGH", 1)
    rewards = RareRewards()
    rewards.replaced(rollout(0), NONE, SHIFT, SCALE)
    before = rewards.arrays()
    rewards.replaced(rollout(1), NONE, SHIFT, SCALE)
    assert all(np.array_equal(array, before[name]) for name, array in rewards.arrays().items())


def test_a_sentence_says_once_that_rewards_are_averaged():
    rewards, resumed, usual = RareRewards(), RareRewards(), RareRewards()
    assert rewards.take_line() is None
    rewards.replaced(rollout(0), NONE, SHIFT, SCALE)
    assert "rare" in (rewards.take_line() or "") and rewards.take_line() is None
    resumed.restore(rewards.arrays())
    assert resumed.take_line() is None
    usual.replaced(rollout(0, 0.0), NONE, SHIFT, SCALE)
    assert usual.take_line() is None
