"""Rollouts of policies with memory: states by the formulas, and the probabilities that an update finds."""

import numpy as np
import pytest
import torch
from helpers.memory_models import memory_model_for
from helpers.memory_rollouts import (
    check_continues,
    check_states,
    memory_update,
    memory_updater,
    rollout_with,
    shop_collector,
    shop_episodes,
    shop_model,
)
from helpers.toy_runs import SEED, actor_weights
from oracles.slow_memory import SlowNetwork
from oracles.toy_simulators import Shop

from longstride.errors import PolicyNotFiniteError
from longstride.policies.loaded_policy import LoadedPolicy
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.rollout.fault_locator import FaultLocator
from longstride.rollout.gymnasium_collector import GymnasiumCollector
from longstride.seeding import stream

WALK = "LongstrideWalk-v0"


def walk_collector(options, instances, steps):
    """Return a collector of an environment with masks, and its model; without Gymnasium the test is skipped."""
    pytest.importorskip("gymnasium")
    __import__("oracles.toy_environments")
    from longstride.simulators.gym.adapter import registered

    simulator = registered(WALK, options)
    model = memory_model_for(simulator, critic=(24, 24))
    return GymnasiumCollector(simulator, model.spec, RolloutPlan(SEED, instances, steps)), model


KINDS = {
    "steps": lambda: (shop_collector(3, 150), shop_model(), 3),
    "chunks": lambda: (shop_collector(2, 256), shop_model(), 2),
    "threads": lambda: (shop_collector(3, 50, threads=2), shop_model(), 3),
    "groups": lambda: (shop_collector(4, 45, group_size=2), shop_model(), 4),
    "episodes": lambda: (shop_episodes(6), shop_model(), 6),
    "environments": lambda: (*walk_collector({"cut": 70, "end": 1000}, 2, 150), 2),
    "ends of environments": lambda: (*walk_collector({"end": 37}, 1, 150), 1),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_finds_the_probabilities_with_which_the_actions_were_drawn(kind):
    """Of every step, of three rollouts, though the policy changes and episodes go on; and states by the formulas."""
    collector, model, count = KINDS[kind]()
    updater, starts = memory_updater(model), [None] * count
    for number in range(3):
        rollout = rollout_with(model, collector, count)
        for i, (trajectory, *_) in enumerate(rollout):
            after = check_states(trajectory, model, starts[i])
            starts[i] = None if kind == "episodes" else after
        if kind == "groups":  # its members go on from where the first one is
            starts = [starts[i - i % 2] for i in range(count)]
        before = model.flat.clone()
        report = memory_update(updater, rollout, number)
        assert report.losses["initial_ratio_error"] < 1e-5
        assert report.optimizer_steps == 1
        assert not torch.equal(model.flat, before)
    if kind not in ("episodes", "ends of environments"):
        assert any(start is not None for start in starts), "an episode that goes on"


def test_the_probabilities_depend_on_the_memory():
    """What the test above would miss if states and resets did not matter."""
    model = shop_model()
    rollout = rollout_with(model, shop_collector(2, 150), 2)
    for name in ("states", "begins"):
        columns = [getattr(each.trajectory, name) for each in rollout]
        kept = [column.copy() for column in columns]
        for column in columns:
            column[:] = 0
        assert memory_update(memory_updater(shop_model()), rollout).losses["initial_ratio_error"] > 1e-3, name
        for column, before in zip(columns, kept, strict=True):
            column[:] = before
    assert memory_update(memory_updater(shop_model()), rollout).losses["initial_ratio_error"] < 1e-5


def test_minibatches_of_single_chunks_find_them_too():
    model = shop_model()
    rollout = rollout_with(model, shop_collector(3, 150), 3)
    updater = memory_updater(model, batch_size=200, microbatch=100, epochs=2, learning_rate_actor=0.0)
    report = memory_update(updater, rollout)
    assert (report.optimizer_steps, report.batch_size) == (12, 128)
    assert report.losses["initial_ratio_error"] < 1e-5
    assert report.losses["approx_kl"] < 1e-9


def test_episodes_side_by_side_are_the_same_as_one_after_the_other():
    model = shop_model()
    alone = rollout_with(model, shop_episodes(5), 5)
    together = rollout_with(model, EpisodeCollector(Shop(), model.spec, RolloutPlan(SEED, 5, side_by_side=3)), 5)
    for (one, *_), (other, *_) in zip(alone, together, strict=True):
        for name in ("actions", "log_probs", "states", "begins", "observations"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_rollout_of_other_sizes_holds_the_same_steps():
    model, whole, parts = shop_model(), shop_collector(2, 180), shop_collector(2, 180)
    expected, pieces = rollout_with(model, whole, 2), []
    for steps in (50, 130):
        parts.resize(steps)
        pieces.append(rollout_with(model, parts, 2))
    for i, (trajectory, *_) in enumerate(expected):
        for name in ("actions", "log_probs", "rewards", "begins", "terminated"):
            joined = np.concatenate([getattr(piece[i].trajectory, name) for piece in pieces])
            np.testing.assert_array_equal(joined, getattr(trajectory, name))
    assert [len(piece[0].trajectory.states) for piece in pieces] == [1, 2]


def test_an_unfinished_episode_goes_on_with_its_memory_after_a_checkpoint():
    check_continues(shop_model(), shop_collector(3, 50), shop_collector(3, 50))


def test_an_episode_that_is_given_up_leaves_no_memory():
    """Two of three instances begin another one in the middle of an episode, and their critic forgets, too."""
    model, collector = shop_model(), shop_collector(3, 45, restart_after=3)
    updater = memory_updater(model, learning_rate_actor=0.0, learning_rate_critic=0.0)
    memory_update(updater, rollout_with(model, collector, 3))
    went_on = [not instance.over for instance in collector._instances]
    for instance in collector._instances:
        instance.restart_old_episode()
    over = [instance.over for instance in collector._instances]
    assert went_on == [True] * 3
    assert over == [False, True, True]
    rollout, critic = rollout_with(model, collector, 3), SlowNetwork(model, "critic")
    memory_update(updater, rollout)
    for i, (t, *_) in enumerate(rollout):
        assert t.begins[0, 0] == over[i]
        assert t.states[0].any() != over[i]
        if over[i]:
            expected = critic.play(t.observations[:-1], t.begins[:, 0]).states[-1]
            np.testing.assert_allclose(updater._critic_states[i].numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_loaded_policy_does_what_the_rollout_did():
    """Draws of whole episodes, with masks and action features, to the bit."""
    model = shop_model()
    policy = LoadedPolicy(model.spec, actor_weights(model))
    for number, (t, *_) in enumerate(rollout_with(model, shop_episodes(4), 4)):
        policy.reset(stream(SEED, "policy", number))
        drawn = [policy.act(t.observations[k], t.masks[k], t.features[k], greedy=False) for k in range(t.steps)]
        np.testing.assert_array_equal(drawn, t.actions)


def explode(model):
    """Make states and outputs of the actor overflow; return what restores it."""
    before = model.flat.clone()
    with torch.no_grad():
        model.layers("actor")[1][0].fill_(torch.inf)

    def restore():
        with torch.no_grad():
            model.flat.copy_(before)

    return restore


def test_a_rollout_whose_policy_exploded_is_repeated_from_good_memory():
    model, collector = shop_model(), shop_collector(2, 50)
    rollout_with(model, collector, 2)
    before, restore = collector.state_dict(), explode(model)
    with pytest.raises(PolicyNotFiniteError):
        collector.collect(actor_weights(model), 0, 2)
    restore()
    collector.load_state_dict(before)
    for t, *_ in rollout_with(model, collector, 2):
        assert np.isfinite(t.log_probs).all()


def test_a_rollout_of_environments_whose_policy_exploded_is_repeated_from_good_memory():
    collector, model = walk_collector({"cut": 70}, 1, 50)
    rollout_with(model, collector, 1)
    before, restore = collector.state_dict(), explode(model)
    with pytest.raises(PolicyNotFiniteError):
        collector.collect(actor_weights(model), 0, 1)
    restore()
    collector.load_state_dict(before)
    ((t, *_),) = rollout_with(model, collector, 1)
    assert np.isfinite(t.log_probs).all()


def test_a_collection_that_is_repeated_step_by_step_makes_the_same_steps():
    """As where a fault is looked for: from the middle of episodes, and into the next ones."""
    model, collector = shop_model(), shop_collector(2, 45)
    rollout_with(model, collector, 2)
    before = collector.state_dict()
    rollout = rollout_with(model, collector, 2)
    locator, repeated = FaultLocator(collector.simulator, model.spec, actor_weights(model)), []
    locator._loop, step = collector.loop, locator._step

    def noting(*arguments):
        age = step(*arguments)
        repeated.append((int(locator.trajectory.actions[0]), float(locator.trajectory.log_probs[0])))
        return age

    locator._step = noting
    assert locator.play(collector.replayed(before, 0, 2)) is None
    made = [pair for t, *_ in rollout for pair in zip(t.actions.tolist(), t.log_probs.tolist(), strict=True)]
    assert repeated == made
