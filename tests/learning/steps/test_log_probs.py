"""What an algorithm learns of the present policy: the probabilities that the compiled actor has recorded."""

import numpy as np
import pytest
from helpers.listed import shop_model as listed_model
from helpers.listed import steps_collector
from helpers.memory_rollouts import rollout_with, shop_collector
from helpers.memory_rollouts import shop_model as memory_model
from helpers.toy_runs import discounts_of, rollout_batch, toy_episodes, toy_model, toy_updater

from longstride.learning.algorithms.ppo import Ppo
from longstride.learning.schedule import Coefficients

KINDS = {
    "choices": lambda: (toy_model("choices"), toy_episodes("choices", toy_model("choices"), 3)),
    "squashed": lambda: (toy_model("squashed"), toy_episodes("squashed", toy_model("squashed"), 3)),
    "memory": lambda: (memory_model(), rollout_with(memory_model(), shop_collector(2, 300), 2)),
    "lists": lambda: (listed_model(), rollout_with(listed_model(), steps_collector(2, 90), 2)),
}


class Asking(Ppo):
    """PPO that asks for the log-probabilities of the present policy."""

    def targets(self, rollout, values, next_values):
        Asking.found = [each.copy() for each in rollout.present_log_probs()]
        return super().targets(rollout, values, next_values)


@pytest.mark.parametrize("microbatch", [50, 10_000])
@pytest.mark.parametrize("kind", KINDS)
def test_an_algorithm_gets_the_log_probabilities_of_the_present_policy(kind, microbatch):
    """Those that the compiled actor recorded, and others after an update."""
    model, episodes = KINDS[kind]()
    recorded = [each.trajectory.log_probs.copy() for each in episodes]
    updater = toy_updater(model, microbatch=microbatch, batch_size=1 << 20, learning_rate_actor=1e-2)
    coefficients = updater.algorithm.coefficients
    updater.algorithm = updater.stepper.algorithm = Asking(0.9, coefficients)
    rollout = rollout_batch([each.trajectory for each in episodes], discounts_of(episodes))
    for is_first in (True, False):
        updater.update(rollout, Coefficients(1.0, coefficients), np.random.default_rng(0))
        assert [len(each) for each in Asking.found] == [len(each) for each in recorded]
        differences = np.abs(np.concatenate(Asking.found) - np.concatenate(recorded))
        assert differences.max() < 1e-4 if is_first else differences.mean() > 1e-3
