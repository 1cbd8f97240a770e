"""The check at the end of a run: what is better than the trained policy, for any simulator with heuristics."""

import numpy as np
import pytest
from oracles.toy_simulators import Bandit, Shop

pytest.importorskip("pydantic")
pytest.importorskip("scipy")

from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import PolicySpec
from longstride.simulators.hooks import Hooks
from longstride.training.assembly.last_check import last_check, with_short_episodes
from longstride.training.evaluation.trained_policy import TrainedPolicy

SPEC = PolicySpec(5, Bandit.action_space, (4,), (4,), "relu", MLP)
REMEDY = "Train longer."


def first_action():
    """Return a policy that takes the first action, if it is allowed."""
    return TrainedPolicy(np.zeros(SPEC.layout.actor_size, np.float32), SPEC)


class Known(Bandit):
    optimal = "right"


def test_a_heuristic_of_the_users_own_simulator_is_shown_to_be_better():
    simulator = Bandit()
    (line,) = last_check(simulator, with_short_episodes(simulator), first_action(), 0, 1, REMEDY)
    assert line.startswith("The trained policy is worse than the best heuristic, right, in 8 short episodes (")
    assert line.endswith(REMEDY)


def test_the_distance_to_an_optimum_is_said():
    known = Known()
    (line,) = last_check(known, with_short_episodes(known), first_action(), 0, 1, REMEDY)
    assert line.startswith("In 8 short episodes: ")
    assert " % below the optimum, right: " in line


def test_long_episodes_are_cut_unless_the_simulator_has_short_ones():
    class Own(Hooks):
        def short_episodes(self, simulator):
            return "short"

    simulator = Shop()
    assert with_short_episodes(simulator).max_steps == simulator.max_steps == 40
    simulator.max_steps = 10**6
    assert with_short_episodes(simulator).max_steps == 400_000 // (8 * (2 + len(simulator.heuristics)))
    assert with_short_episodes(simulator, 20_000).max_steps == 1_000
    simulator.heuristics = {}
    assert with_short_episodes(simulator) is None
    simulator.hooks = Own()
    assert with_short_episodes(simulator) == "short"


def test_a_withheld_verdict_is_withheld_at_the_end_of_a_run():
    class Missing(Hooks):
        def withheld(self, simulator):
            return "No verdict: the base misses."

    simulator = Bandit()
    simulator.hooks = Missing()
    assert last_check(simulator, simulator, first_action(), 0, 1, REMEDY) == ["No verdict: the base misses."]
