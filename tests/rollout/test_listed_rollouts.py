"""Rollouts of policies that score lists: by the formulas, in any amount of memory, and as an update finds them."""

from itertools import chain

import numpy as np
import pytest
import torch
from helpers.listed import episodes_collector, shop_model, steps_collector
from helpers.toy_runs import SEED, actor_weights, discounts_of, rollout_batch, toy_updater
from oracles.listed_shop import ListedShop
from oracles.slow_pointer import SlowPointer

from longstride.learning.schedule import Coefficients
from longstride.rollout.trajectory import digest
from longstride.seeding import stream
from longstride.simulators.simulator import new_state

KINDS = {
    "steps": lambda **more: steps_collector(2, 90, **more),
    "episodes": lambda **more: episodes_collector(5, **more),
}


def collected(kind, model, count, **more):
    """Return the trajectories of two rollouts, copied."""
    collector = KINDS[kind](**more)
    rollouts = []
    for number in range(2):
        rollout, _ = collector.collect(actor_weights(model), number * count, count)
        rollouts.append([each.trajectory._replace(**_copies(each.trajectory)) for each in rollout])
    return rollouts


def _copies(trajectory):
    return {name: column.copy() for name, column in trajectory._asdict().items()}


def test_episodes_are_those_of_a_slow_loop():
    """Played as plain Python with the same random streams: actions, lists, probabilities, ends."""
    model, shop = shop_model(), ListedShop()
    slow, counts = SlowPointer(model), set()
    for number, each in enumerate(episodes_collector(4).collect(actor_weights(model), 0, 4)[0]):
        t, rng, policy_rng = each.trajectory, stream(SEED, "simulator", number), stream(SEED, "policy", number)
        state, begin, over, step = new_state(shop)[0], 0, False, 0
        ListedShop.reset(state, shop.parameters, rng)
        while not over:
            summary, ids, rows = np.zeros(3, np.float32), np.zeros(4, np.int32), np.zeros((4, 3), np.float32)
            ListedShop.summarise(state, shop.parameters, summary)
            count = ListedShop.describe_actions(state, shop.parameters, ids, rows)
            counts.add(count)
            np.testing.assert_array_equal(t.observations[step], summary)
            np.testing.assert_array_equal(t.features[begin : begin + count], rows[:count])
            probabilities = slow.probabilities(summary, rows[:count])
            place = int(np.searchsorted(probabilities.cumsum(), policy_rng.random(), side="right"))
            assert (t.feasible[step].tolist(), t.actions[step]) == ([begin + count, begin + place], ids[place])
            assert t.log_probs[step] == pytest.approx(np.log(probabilities[place]), abs=1e-5)
            reward, terminated = ListedShop.step(state, shop.parameters, int(ids[place]), rng)
            assert t.rewards[step] == pytest.approx(reward, rel=1e-6)
            over, begin, step = terminated or ListedShop.truncated(state, shop.parameters), begin + count, step + 1
        assert (t.steps, len(t.features), bool(t.terminated[-1])) == (step, begin, terminated)
    assert 1 in counts  # somewhere nothing is to choose


@pytest.mark.parametrize("kind", KINDS)
def test_memory_that_grows_changes_nothing(kind):
    """Lists need ten times the room that is there at first; with ample room all bits are the same."""
    model = shop_model()
    few, ample = (collected(kind, model, 2, expected=expected) for expected in (0.01, 4.0))
    for first, second in zip(chain(*few), chain(*ample), strict=True):
        for name, one, other in zip(first._fields, first, second, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)
        assert len(first.features) == first.feasible[-1, 0] > 1.5 * first.steps
    assert sum(t.steps for t in few[0]) > 20


def test_the_threads_change_nothing():
    model = shop_model()
    one, two = (collected("episodes", model, 5, threads=threads) for threads in (1, 2))
    assert [digest(rollout) for rollout in one] == [digest(rollout) for rollout in two]


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_finds_the_probabilities_with_which_the_actions_were_drawn(kind):
    """Of every step, of three rollouts, though the policy changes and memory grows."""
    model, collector = shop_model(), KINDS[kind]()
    updater, before = toy_updater(model, batch_size=4096, microbatch=40, epochs=2), model.flat.clone()
    for number in range(3):
        episodes, _ = collector.collect(actor_weights(model), number * 2, 2)
        rollout = rollout_batch([e.trajectory for e in episodes], discounts_of(episodes))
        coefficients = Coefficients(1.0, updater.algorithm.coefficients)
        report = updater.update(rollout, coefficients, np.random.default_rng(number))
        assert report.losses["initial_ratio_error"] < 1e-5
        assert report.skipped_steps == 0
    moved = {name: not torch.equal(model.layout.view(before, name), t) for name, t in model.tensors.items()}
    assert all(moved[name] for name in moved if name.startswith(("actor", "critic")))


def test_microbatches_add_up_to_the_minibatch():
    model = shop_model()
    rollout = [each.trajectory for each in episodes_collector(4).collect(actor_weights(model), 0, 4)[0]]
    results = []
    for microbatch in (4096, 7):
        updater = toy_updater(shop_model(), batch_size=4096, microbatch=microbatch, epochs=1)
        batch = rollout_batch(rollout, [np.full(t.steps, 0.97) for t in rollout])
        updater.update(batch, Coefficients(1.0, updater.algorithm.coefficients), np.random.default_rng(0))
        results.append(updater.model.flat.clone())
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
