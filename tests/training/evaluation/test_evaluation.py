"""Policies side by side: intervals, the same streams, the structure of evaluation.json."""

import json
import threading
import time
from functools import cache
from typing import ClassVar

import numpy as np
import pytest
import torch
from helpers.toy_runs import actor_weights, toy_model
from oracles.slow_episode import on_bounds, play_slowly
from oracles.toy_simulators import Bandit, Choices, Shop, Squashed, Tracker, Unfilled

from longstride.errors import SimulatorError, UserError
from longstride.seeding import stream
from longstride.simulators.simulator import new_state
from longstride.training.evaluation.compiled import _in_threads
from longstride.training.evaluation.evaluate import evaluate, paired_values, summarise
from longstride.training.evaluation.statistics import paired_difference
from longstride.training.evaluation.trained_policy import TrainedPolicy

stats = pytest.importorskip("scipy.stats")


@cache
def shop_evaluation():
    model = toy_model("shop")
    trained = TrainedPolicy(actor_weights(model), model.spec)
    return evaluate(Shop(), ["order_nothing", "order_up", "order_at_random"], trained, 6, seed=3)


def test_intervals_are_students():
    values = [1.0, 2.0, 4.0, 9.0]
    summary = summarise([{"x": v, "pair": [v, 2 * v]} for v in values])
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert summary["x"] == pytest.approx({"mean": 4.0, "low": low, "high": high})
    assert summary["pair"]["mean"] == [4.0, 8.0]
    assert summary["pair"]["high"] == pytest.approx([high, 2 * high])


def test_differences_are_paired():
    """Differences 1, 1, 1: no spread although both policies vary."""
    first, second = [{"x": 3.0}, {"x": 8.0}, {"x": 1.0}], [{"x": 2.0}, {"x": 7.0}, {"x": 0.0}]
    difference = paired_difference(*paired_values(first, second, "x"))
    assert (difference.value, difference.low, difference.high) == (1.0, 1.0, 1.0)


def test_pairs_are_the_episodes_in_which_both_have_the_metric():
    first, second = [{"x": 3.0}, {"x": 8.0}, {}, {"x": 1.0}], [{"x": 2.0}, {}, {"x": 7.0}, {"x": 0.0}]
    assert paired_values(first, second, "x") == ([3.0, 1.0], [2.0, 0.0])


def test_the_structure_of_evaluation_json():
    content = json.loads(json.dumps(shop_evaluation().as_json()))
    assert content["episodes"] == 6
    assert set(content["policies"]) == {
        "trained",
        "trained_sampled",
        "order_nothing",
        "order_up",
        "order_at_random",
        "upper_bound",
    }
    trained = content["policies"]["trained"]
    assert set(trained) == {"return", "cash", "days", "sold_by_kind"}
    for value in trained.values():
        assert set(value) == {"mean", "low", "high"}
        assert np.all(np.asarray(value["low"]) <= value["mean"])
    records = shop_evaluation().records["trained"]
    assert trained["cash"]["mean"] == pytest.approx(np.mean([r["cash"] for r in records]))


def play_heuristic(name, episode):
    """Play one evaluation episode as plain Python."""
    simulator, act = Shop(), Shop.heuristics[name]
    rng, policy_rng = stream(3, "evaluation", episode), stream(3, "evaluation policy", episode)
    state, total = new_state(simulator)[0], 0.0
    Shop.reset(state, simulator.parameters, rng)
    for _ in range(simulator.max_steps):
        mask = np.ones(4, np.bool_)
        Shop.action_mask(state, simulator.parameters, mask)
        reward, terminated = Shop.step(
            state, simulator.parameters, act(state, simulator.parameters, mask, policy_rng), rng
        )
        total += reward
        if terminated or Shop.truncated(state, simulator.parameters):
            break
    return total, state


@pytest.mark.parametrize("name", ["order_nothing", "order_up", "order_at_random"])
def test_every_policy_plays_the_same_streams(name):
    for episode, record in enumerate(shop_evaluation().records[name]):
        total, state = play_heuristic(name, episode)
        assert record["return"] == pytest.approx(total, abs=1e-12)
        assert record["days"] == state.day
        assert record["cash"] == pytest.approx(state.cash, abs=1e-12)


def test_evaluation_does_not_reuse_the_streams_of_training():
    slow = play_slowly(Shop(), toy_model("shop"), 3, 0)
    assert shop_evaluation().records["trained_sampled"][0]["return"] != pytest.approx(sum(slow.rewards))


class Mixed(Bandit):
    """Its heuristics return integers of two types, which together would be floating-point numbers."""

    def unsigned(state, parameters, mask, rng):
        return np.uint64(state.context)

    heuristics: ClassVar = {"right": Bandit.right, "unsigned": unsigned}


def test_heuristics_that_return_other_types_play_too():
    records = evaluate(Mixed(), ["right", "unsigned"], None, 2, seed=1).records
    assert records["right"] == records["unsigned"] == [{"return": 256.0}] * 2


def test_bounds_are_at_least_as_good_as_every_policy():
    records = shop_evaluation().records
    for name in records:
        assert all(b["cash"] >= r["cash"] for b, r in zip(records["upper_bound"], records[name], strict=True))


def test_an_interrupt_waits_for_no_episode():
    goes_on = threading.Event()

    def play(episode):
        if episode == 0:
            raise KeyboardInterrupt
        assert goes_on.wait(10.0)

    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        _in_threads(2, play, range(4))
    assert time.perf_counter() - begin < 5.0
    goes_on.set()


def test_a_bound_that_returns_its_number_is_refused():
    simulator = Tracker()
    simulator.bounds = {"nothing lost": lambda state, parameters, metrics: 0.0}
    with pytest.raises(UserError, match=r"bounds\['nothing lost'\] filled no metric; write into its third argument"):
        evaluate(simulator, [], None, 2, seed=1)


def test_a_metric_that_some_episodes_leave_unfilled_is_averaged_over_the_others():
    result = evaluate(Unfilled(), ["right"], None, 12, seed=1)
    filled = [r["last"] for r in result.records["right"] if "last" in r]
    assert 2 <= len(filled) < 12
    assert result.as_json()["policies"]["right"]["last"]["mean"] == pytest.approx(np.mean(filled))


def test_threads_change_nothing():
    alone = evaluate(Shop(), ["order_at_random"], None, 5, seed=1, threads=1)
    assert evaluate(Shop(), ["order_at_random"], None, 5, seed=1, threads=2).records == alone.records


def test_evaluation_is_repeatable():
    first = evaluate(Bandit(), ["right"], None, 2, seed=1)
    assert first.records == evaluate(Bandit(), ["right"], None, 2, seed=1).records
    assert [r["return"] for r in first.records["right"]] == [256.0, 256.0]


@torch.no_grad()
def greedy_return(simulator, model, seed, episode):
    """Play the mode of the policy as plain Python; return the sum of rewards."""
    kind, space = type(simulator), simulator.action_space
    rng, state, total = stream(seed, "evaluation", episode), new_state(simulator)[0], 0.0
    kind.reset(state, simulator.parameters, rng)
    for _ in range(simulator.max_steps):
        observation, mask = np.zeros(simulator.observation_size, np.float32), np.ones(sum(space.choices), np.bool_)
        kind.observe(state, simulator.parameters, observation)
        action = model.logits(model.normalise(torch.from_numpy(observation)[None]))[0].numpy()
        if space.choices:
            kind.action_mask(state, simulator.parameters, mask)
            begins = np.cumsum(space.choices) - space.choices
            best = np.where(mask, action, -np.inf)
            action = np.array([np.argmax(best[b : b + n]) for b, n in zip(begins, space.choices, strict=True)])
        total += kind.step(state, simulator.parameters, on_bounds(space, action), rng)[0]
    return total


@pytest.mark.parametrize("kind", [Choices, Tracker, Squashed])
def test_the_trained_policy_plays_its_mode(kind):
    simulator, model = kind(), toy_model(kind.__name__.lower())
    trained = TrainedPolicy(actor_weights(model), model.spec)
    records = evaluate(simulator, ["right"], trained, 3, seed=2).records
    for episode, record in enumerate(records["trained"]):
        assert record["return"] == pytest.approx(greedy_return(simulator, model, 2, episode), rel=1e-5)
        assert record["return"] != records["trained_sampled"][episode]["return"]
    best = 200.0 if kind is Choices else 0.0
    assert [r["return"] for r in records["right"]] == pytest.approx([best] * 3, abs=1e-9)


def test_a_heuristic_beyond_a_bound_is_clipped():
    record = evaluate(Tracker(), ["far"], None, 2, seed=2).records["far"][0]
    assert -200 * (2.5**2 + 1.0) < record["return"] < -200 * 0.5**2, "1.5 and not 100 away from the target"


@pytest.mark.parametrize(("kind", "name"), [(Choices, "forbidden"), (Tracker, "nothing")])
def test_an_action_that_no_policy_may_choose_is_named(kind, name):
    with pytest.raises(
        SimulatorError, match="step 0: a heuristic chose an action that the mask forbids or that is not"
    ):
        evaluate(kind(), [name], None, 2, seed=2)
