"""What is said about action features belongs together, and what they hold must be finite."""

import numpy as np
import pytest
from helpers.specs import actor_spec
from helpers.toy_runs import HIDDEN, actor_weights, new_model
from oracles.toy_simulators import Shop, Tracker

from longstride.errors import SimulatorError, UserError
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.simulators.check import check_simulator
from longstride.simulators.validate import require_complete


class NoSize(Shop):
    action_feature_size = 0
    initial_feature_weights = None


class WrongWeights(Shop):
    initial_feature_weights = np.zeros(3)


class OfRealActions(Tracker):
    action_feature_size = 1

    def action_features(state, parameters, mask, features):
        features[0, 0] = 1.0


class NotFinite(Shop):
    def action_features(state, parameters, mask, features):
        features[2, 1] = np.inf if state.day == 3 else 0.0


@pytest.mark.parametrize(
    ("simulator", "sentence"),
    [
        (NoSize(), "NoSize: action_features and a positive action_feature_size belong together; set both."),
        (WrongWeights(), "WrongWeights.initial_feature_weights must be an array of action_feature_size = 2 numbers."),
        (OfRealActions(), "OfRealActions has a Box of actions, which has no logits to add to: remove action_features."),
    ],
)
def test_what_does_not_belong_together_is_a_sentence(simulator, sentence):
    with pytest.raises(UserError) as error:
        require_complete(simulator)
    assert str(error.value) == sentence


def test_an_infinite_figure_is_found_by_the_check_and_in_compiled_code():
    with pytest.raises(SimulatorError, match=r"NotFinite.*step 3.*action_features"):
        check_simulator(NotFinite())
    simulator = NotFinite()
    sizes = (simulator.observation_size, *HIDDEN, simulator.action_space.outputs)
    collector = EpisodeCollector(simulator, actor_spec(simulator, sizes, "relu"), RolloutPlan(7, 1))
    with pytest.raises(SimulatorError, match="NotFinite, episode 0, step 3: action_features wrote a NaN"):
        collector.collect(actor_weights(new_model(simulator, "relu")), 0, 1)
