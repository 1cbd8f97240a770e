"""Rollouts of a transformer: an update finds the probabilities with which actions were drawn, in both ways to begin.

A chunk begins with steps of context, or, where those would be more than a chunk, with the state that was kept before
it; the compiled loop is the same, so the second way is had here by saying that there is no context.
"""

from functools import cache

import numpy as np
import pytest
import torch
from helpers.memory_rollouts import check_continues, memory_update, memory_updater, rollout_with
from helpers.toy_runs import SEED, actor_weights
from helpers.transformer_models import transformer_for
from oracles.slow_transformer import SlowTransformer
from oracles.toy_simulators import Shop

from longstride.policies.loaded_policy import LoadedPolicy
from longstride.policies.spec import PolicySpec
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.rollout.fixed_length_collector import FixedLengthCollector
from longstride.seeding import stream


def shop_model():
    """Return a model for the shop, which has masks, action features, and episodes of at most 30 days."""
    return transformer_for(Shop(), activation="relu")


@cache
def _shop_loop():
    return FixedLengthCollector(Shop(), shop_model().spec, RolloutPlan(SEED, 1, 1)).loop


def shop_collector(instances, steps, **plan):
    """Return a collector of so many steps."""
    collector = FixedLengthCollector(Shop(), shop_model().spec, RolloutPlan(SEED, instances, steps, **plan))
    collector.loop = _shop_loop()
    return collector


def shop_episodes(instances):
    """Return a collector of whole episodes, one after the other."""
    collector = EpisodeCollector(Shop(), shop_model().spec, RolloutPlan(SEED, instances))
    collector._loop = _shop_loop()
    return collector


@pytest.fixture(params=["context", "kept"])
def way(request, monkeypatch):
    """Choose what a chunk begins with."""
    if request.param == "kept":
        monkeypatch.setattr(PolicySpec, "context", 0)
    return request.param


KINDS = {
    "steps": lambda: (shop_collector(3, 150), 3),
    "chunks": lambda: (shop_collector(2, 384), 2),
    "threads": lambda: (shop_collector(3, 50, threads=2), 3),
    "groups": lambda: (shop_collector(4, 45, group_size=2), 4),
    "episodes": lambda: (shop_episodes(6), 6),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_finds_the_probabilities_with_which_the_actions_were_drawn(kind, way):
    """Of every step, of three rollouts, though the policy changes and episodes go on."""
    (collector, count), model = KINDS[kind](), shop_model()
    updater = memory_updater(model)
    for number in range(3):
        rollout = rollout_with(model, collector, count)
        steps = rollout[0].trajectory.steps
        assert len(rollout[0].trajectory.states) == (1 if way == "context" else -(-steps // 128))
        assert any(each.trajectory.states[0].any() for each in rollout) == (number > 0 and kind != "episodes")
        before = model.flat.clone()
        report = memory_update(updater, rollout, number)
        assert report.losses["initial_ratio_error"] < 1e-5
        assert report.optimizer_steps == 1
        assert not torch.equal(model.flat, before)


def test_the_probabilities_depend_on_what_was_seen(way):
    """What the test above would miss if states and resets did not matter."""
    collector, model = shop_collector(2, 150), shop_model()
    rollout_with(model, collector, 2)
    rollout = rollout_with(model, collector, 2)
    for name in ("states", "begins"):
        columns = [getattr(each.trajectory, name) for each in rollout]
        kept = [column.copy() for column in columns]
        for column in columns:
            column[:] = 0
        assert memory_update(memory_updater(shop_model()), rollout).losses["initial_ratio_error"] > 1e-3, name
        for column, before in zip(columns, kept, strict=True):
            column[:] = before
    assert memory_update(memory_updater(shop_model()), rollout).losses["initial_ratio_error"] < 1e-5


def test_minibatches_and_microbatches_of_single_chunks_find_them_too(way):
    model = shop_model()
    rollout = rollout_with(model, shop_collector(3, 150), 3)
    updater = memory_updater(model, batch_size=200, microbatch=100, epochs=2, learning_rate_actor=0.0)
    report = memory_update(updater, rollout)
    assert (report.optimizer_steps, report.batch_size) == (12, 128)
    assert report.losses["initial_ratio_error"] < 1e-5
    assert report.losses["approx_kl"] < 1e-8


def test_the_critic_values_as_the_formulas_do_and_goes_on_in_the_next_rollout(way):
    """The update learns with the same values, from chunks in any order."""
    model, collector = shop_model(), shop_collector(3, 150)
    updater = memory_updater(model, learning_rate_actor=0.0, learning_rate_critic=0.0)
    critics, seen, prepare = [SlowTransformer(model, "critic") for _ in range(3)], [], updater._prepare
    updater._prepare = lambda *arguments: seen.append(prepare(*arguments)) or seen[-1]
    model.tensors["value_std"].fill_(2.0)
    for _ in range(2):
        rollout = rollout_with(model, collector, 3)
        expected = np.concatenate([values_of(model, *pair) for pair in zip(critics, rollout, strict=True)])
        memory_update(updater, rollout)
        samples = seen[-1][0].samples
        np.testing.assert_allclose(in_reward_units(model, samples.values.numpy()), expected, rtol=1e-4, atol=1e-4)
        minibatch = samples.at(torch.arange(len(samples.chunks.rows)))
        with torch.no_grad():
            again = model.values(model.normalise(minibatch.observations), memory=minibatch.critic_memory)
        valid = minibatch.chunks.valid.flatten() > 0
        assert valid.sum() == 450
        torch.testing.assert_close(again[valid], minibatch.values[valid], rtol=1e-4, atol=1e-5)


def in_reward_units(model, values):
    """Return values in units of the reward."""
    return values * model.tensors["value_std"].item() + model.tensors["value_mean"].item()


def values_of(model, critic, collected):
    """Return the values of a trajectory by a critic that is where the one before ended, with the present head."""
    critic.use_head(model)
    t = collected.trajectory
    return in_reward_units(model, critic.play(t.observations[:-1], t.begins[:, 0])[:, 0])


def test_an_unfinished_episode_goes_on_with_its_memory_after_a_checkpoint():
    check_continues(shop_model(), shop_collector(3, 50), shop_collector(3, 50))


def test_a_loaded_policy_does_what_the_rollout_did():
    """Draws of whole episodes, with masks and action features, to the bit; and rows of a batch as alone."""
    model = shop_model()
    policy, episodes = LoadedPolicy(model.spec, actor_weights(model)), rollout_with(model, shop_episodes(4), 4)
    for number, (t, *_) in enumerate(episodes):
        policy.reset(stream(SEED, "policy", number))
        drawn = [policy.act(t.observations[k], t.masks[k], t.features[k], greedy=False) for k in range(t.steps)]
        np.testing.assert_array_equal(drawn, t.actions)
    steps = min(t.steps for t, *_ in episodes)
    policy.reset()
    batch = [
        policy.act(*(np.stack([getattr(t, name)[k] for t, *_ in episodes]) for name in _SHOWN)) for k in range(steps)
    ]
    for row, (t, *_) in enumerate(episodes):
        policy.reset()
        alone = [policy.act(*(getattr(t, name)[k] for name in _SHOWN)) for k in range(steps)]
        assert [actions[row] for actions in batch] == alone


_SHOWN = "observations", "masks", "features"
