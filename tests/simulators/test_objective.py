"""Objectives of a user's own simulator: weights of declared quantities, in training, evaluation and on resume."""

import json
from typing import ClassVar, NamedTuple

import numpy as np
import pytest

from longstride import Hyperparameters, check_simulator, evaluate, train
from longstride.errors import UserError
from longstride.simulators.hooks import parse_objective
from longstride.simulators.loading import from_instance
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete
from longstride.simulators.validate import require_complete


class Weights(NamedTuple):
    """Weights of stock and orders."""

    weights: np.ndarray


class Store(Simulator):
    """Two items are asked for each day; a policy orders 0 .. 3, at most 9 lie there."""

    observation_size, action_space, max_steps = 1, Discrete(4), 50
    state_dtype = np.dtype([("stock", np.int64), ("lost", np.float64), ("ordered", np.float64)])
    metrics_dtype = np.dtype([("lost", np.float64), ("ordered", np.float64)])
    quantities: ClassVar = {"lost": "items", "orders": "items"}
    parameters = Weights(np.array([1.0, 0.25]))

    def reset(state, parameters, rng):
        """Begin with an empty store."""
        state.stock, state.lost, state.ordered = 0, 0.0, 0.0

    def observe(state, parameters, observation):
        """Write the stock."""
        observation[0] = state.stock

    def step(state, parameters, action, rng):
        """Order, sell two items at most, and weigh what was lost and ordered."""
        stock = min(state.stock + action, 9)
        lost = max(2 - stock, 0)
        state.stock = max(stock - 2, 0)
        state.lost += lost
        state.ordered += action
        return -(parameters.weights[0] * lost + parameters.weights[1] * action), False

    def episode_metrics(state, parameters, metrics):
        """Report both."""
        metrics.lost, metrics.ordered = state.lost, state.ordered


def weighed(text):
    return from_instance(Store()).with_objective(text)


def test_an_objective_replaces_the_weights_and_is_recorded():
    loaded = weighed("orders=2.5")
    assert loaded.simulator.parameters.weights.tolist() == [0.0, 2.5]
    assert Store.parameters.weights.tolist() == [1.0, 0.25]
    assert loaded.source["objective"] == "orders=2.5"
    assert list(loaded.notes) == ["Objective: orders=2.5."]
    assert weighed("").simulator.parameters.weights.tolist() == [1.0, 0.25]
    assert check_simulator(loaded.simulator) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("order=1", "OBJECTIVE weighs 'order', which Store does not declare; did you mean orders?"),
        ("orders", "OBJECTIVE is 'orders'; expected NAME=WEIGHT ..., such as 'cost=1 tardiness=20'."),
        ("orders=nan", "OBJECTIVE is 'orders=nan'; expected NAME=WEIGHT ..., such as 'cost=1 tardiness=20'."),
        ("lost=1, lost=2", "OBJECTIVE is 'lost=1, lost=2', which weighs lost twice; leave out one."),
    ],
)
def test_other_texts_are_refused_in_a_sentence(text, sentence):
    with pytest.raises(UserError) as error:
        weighed(text)
    assert str(error.value) == sentence


def test_texts_with_commas_are_read():
    assert parse_objective("cost=1, tardiness=-2e1") == {"cost": 1.0, "tardiness": -20.0}


def test_quantities_need_weights():
    class Forgetful(Store):
        parameters = ()

    with pytest.raises(UserError, match=r"declares 2 quantities, so parameters.weights must be an array of 2 numbers"):
        require_complete(Forgetful())


def test_training_and_evaluation_play_the_weights_of_the_run(tmp_path):
    settings = Hyperparameters(training_episodes=1, num_envs=2, objective="lost=3 orders=1", grow_rollouts=False)
    run = train(Store(), settings, run_directory=tmp_path / "run", quiet=True)
    record = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    expected = 3.0 * record["metrics"]["lost"] + record["metrics"]["ordered"]
    assert -record["return"] == pytest.approx(expected)
    table = evaluate(run, Store())
    for episode in table.records["trained"]:
        assert -episode["return"] == pytest.approx(3.0 * episode["lost"] + episode["ordered"])
