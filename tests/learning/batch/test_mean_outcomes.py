"""Means over outcomes: temporal differences against their definition, step by step."""

import numpy as np
import pytest
from helpers.toy_runs import discounts_of, rollout_batch, toy_episodes, toy_model, toy_stepper
from oracles.slow_update import slow_gae

from longstride.learning.advantages import gae
from longstride.learning.batch import mean_outcomes
from longstride.learning.batch.mean_outcomes import (
    NextOutcomes,
    distinct_rows,
    next_outcomes,
    values_of_rows,
    with_mean_rewards,
    with_mean_values,
)
from longstride.learning.batch.prepare import prepare_batch
from longstride.learning.batch.upload import upload_rollout
from longstride.learning.device_transfer import DeviceBuffers
from longstride.learning.steps.torch_step import TorchStepper
from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import PolicySpec
from longstride.rollout.outcomes.drawn import Drawn
from longstride.rollout.trajectory import allocate
from longstride.simulators.spaces import Discrete

STEPS, DRAWS, SIZE = 40, 3, 2
SPEC = PolicySpec(SIZE, Discrete(2), (8,), (8,), "relu", MLP)


def value(rows):
    """Return some function of observations, float32[n]."""
    return (10.0 * np.tanh(rows[:, 0]) - rows[:, 1]).astype(np.float32)


def random_trajectory(seed):
    rng, t = np.random.default_rng(seed), allocate(SPEC, STEPS)
    t.observations[:] = rng.normal(size=(STEPS + 1, SIZE))
    t.rewards[:], t.elapsed[:] = rng.normal(size=STEPS), rng.exponential(size=STEPS)
    t.terminated[:] = rng.random(STEPS) < 0.1
    t.truncated[:] = ~t.terminated & (rng.random(STEPS) < 0.1)
    drawn = Drawn(
        rng.normal(size=(STEPS, DRAWS, SIZE)).astype(np.float32),
        rng.normal(size=(STEPS, DRAWS)).astype(np.float32),
        rng.exponential(size=(STEPS, DRAWS)),
        rng.random((STEPS, DRAWS)) < 0.2,
    )
    return t, drawn


def discount(elapsed):
    return 0.95**elapsed


def test_advantages_are_those_of_mean_temporal_differences():
    """Of two trajectories, one has further outcomes; the differences are added up by a slow reference."""
    (first, drawn), (second, _) = random_trajectory(0), random_trajectory(1)
    own, after = ([value(t.observations[part]) for t in (first, second)] for part in (slice(-1), slice(1, None)))
    discounts, known = [discount(t.elapsed) for t in (first, second)], [drawn, None]
    trajectories = [with_mean_rewards(t, d) for t, d in zip((first, second), known, strict=True)]
    outcomes = [next_outcomes(d, discount) for d in known]
    changed = with_mean_values(trajectories, after, discounts, outcomes, value)
    assert changed[1] is trajectories[1] is second
    t, ended = changed[0], first.terminated | first.truncated
    found = gae(t.rewards, own[0], after[0], discounts[0], t.terminated, ended, 0.8)[0]
    targets = np.zeros(STEPS)
    for step in range(STEPS):
        total = first.rewards[step] + (0.0 if first.terminated[step] else discounts[0][step] * after[0][step])
        for k in range(DRAWS):
            follows = value(drawn.observations[step, k][None])[0]
            goes_on = 0.0 if drawn.terminated[step, k] else 0.95 ** drawn.elapsed[step, k] * follows
            total += drawn.rewards[step, k] + goes_on
        targets[step] = total / (1 + DRAWS)
    nothing = np.zeros(STEPS)
    slow = slow_gae(targets, own[0], nothing, discounts[0], np.ones(STEPS, bool), ended, 0.8)
    assert np.allclose(found, slow, atol=1e-4)


def test_outcomes_for_the_critic_alone_change_its_targets_and_no_advantage():
    model = toy_model("shop")
    episodes = toy_episodes("shop", model, 2)
    plain = rollout_batch([e.trajectory for e in episodes], discounts_of(episodes))
    rng, outcomes = np.random.default_rng(4), []
    for t in plain.trajectories:
        seen = np.repeat(t.observations[1:, None], DRAWS, axis=1)
        drawn = (seen + rng.normal(size=seen.shape)).astype(np.float32)
        outcomes.append(NextOutcomes(drawn, np.full((t.steps, DRAWS), 0.97)))

    def samples_of(rollout):
        stepper = toy_stepper(toy_model("shop"), TorchStepper)
        buffers = DeviceBuffers(stepper.device)
        found = prepare_batch(stepper, rollout, upload_rollout(stepper, rollout, buffers), buffers).samples
        return found.advantages.clone().numpy(), found.returns.clone().numpy()

    without, both = samples_of(plain), samples_of(plain._replace(outcomes=outcomes))
    critic = samples_of(plain._replace(outcomes=outcomes, for_critic=True))
    assert np.array_equal(critic[0], without[0])
    assert np.array_equal(critic[1], both[1])
    assert not np.allclose(both[0], without[0])
    assert not np.allclose(both[1], without[1])


def test_without_outcomes_nothing_changes():
    t, _ = random_trajectory(2)
    assert with_mean_rewards(t, None) is t
    assert next_outcomes(None, discount) is None
    assert with_mean_values([t], [t.rewards], [t.elapsed], [], value) == [t]


def test_outcomes_equal_to_what_happened_change_nothing():
    t, _ = random_trajectory(3)
    same = [
        np.repeat(column[:, None], DRAWS, axis=1) for column in (t.observations[1:], t.rewards, t.elapsed, t.terminated)
    ]
    drawn = Drawn(*same)
    mean = with_mean_rewards(t, drawn)
    changed = with_mean_values(
        [mean], [value(t.observations[1:])], [discount(t.elapsed)], [next_outcomes(drawn, discount)], value
    )
    assert np.allclose(changed[0].rewards, t.rewards, atol=1e-5)


@pytest.mark.parametrize("kinds", [1, 7, 1_000])
def test_each_kind_of_rows_is_valued_once(kinds):
    rng = np.random.default_rng(kinds)
    rows = rng.normal(size=(kinds, 3)).astype(np.float32)[rng.integers(kinds, size=500)]
    kept, places = distinct_rows(rows)
    assert np.array_equal(rows[kept][places], rows)
    assert len(kept) == len(np.unique(rows, axis=0))


def test_rows_of_one_hash_that_differ_are_all_kept(monkeypatch):
    monkeypatch.setattr(np, "unique", lambda hashes, **_: (None, np.zeros(1, int), np.zeros(len(hashes), int)))
    kept, places = distinct_rows(np.arange(8, dtype=np.float32).reshape(4, 2))
    assert kept.tolist() == places.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("block", [16, 100, 1 << 20])
def test_rows_are_valued_block_by_block(monkeypatch, block):
    monkeypatch.setattr(mean_outcomes, "_BLOCK", block)
    rng = np.random.default_rng(block)
    parts = [rng.integers(5, size=(n, SIZE)).astype(np.float32) for n in (7, 0, 31, 1)]
    found = values_of_rows(parts, value)
    assert [len(each) for each in found] == [7, 0, 31, 1]
    assert all(np.array_equal(each, value(part)) for each, part in zip(found, parts, strict=True))


def test_the_mean_over_outcomes_has_less_variance_and_the_same_mean():
    """Of a walk with steps of -1 and 1, values are the place: differences have the deviation 1, their means 1/3."""
    rng, (t, _) = np.random.default_rng(5), random_trajectory(4)
    found = []
    for _ in range(400):
        place = np.zeros((STEPS, 1 + 8), np.float32) + rng.choice([-1.0, 1.0], (STEPS, 9)).astype(np.float32)
        outcomes = NextOutcomes(place[:, 1:, None], np.ones((STEPS, 8)))
        still = t._replace(rewards=np.zeros(STEPS, np.float32), terminated=np.zeros(STEPS, bool))
        changed = with_mean_values([still], [place[:, 0]], [np.ones(STEPS)], [outcomes], lambda rows: rows[:, 0])
        found.append(changed[0].rewards + place[:, 0])
    assert np.std(found) == pytest.approx(1.0 / 3.0, rel=0.02)
    assert np.mean(found) == pytest.approx(0.0, abs=0.01)
