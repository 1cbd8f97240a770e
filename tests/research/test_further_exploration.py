"""Lot sizing, routing and the hidden goal: their best policies in the simulators, and what is believed of the goal."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from longstride.simulators.check import check_simulator
from research.learning.exploration.chain import metrics_of_rules
from research.learning.exploration.hidden_goal import HiddenGoal
from research.learning.exploration.lot_sizing import LotSizing
from research.learning.exploration.routing import Routing

SMALL = {
    "lot_sizing": lambda: LotSizing(lowest=-2, highest=4),
    "routing": lambda: Routing(places=5),
    "hidden_goal": lambda: HiddenGoal(patience=6),
}


def best_policy(chain):
    """Return the best action of each state by relative value iteration."""
    values = np.zeros(len(chain.rewards))
    while True:
        worth = np.stack([chain.rewards[:, a] + p @ values for a, p in enumerate(chain.transitions)])
        gain = worth.max(axis=0) - values
        if np.ptp(gain) < 1e-6:
            return worth.argmax(axis=0)
        values = values + 0.5 * gain
        values -= values[chain.start]


def state_of(problem):
    """Return a state that ordinary Python changes faster than a record."""
    fields = problem.state_dtype.fields.items()
    state = SimpleNamespace(**{name: np.zeros(kind.shape, kind.base) for name, (kind, _) in fields})
    problem.reset(state, problem.parameters, np.random.default_rng(0))
    return state


@pytest.mark.parametrize("name", SMALL)
def test_a_simulator_keeps_the_contract_and_compiles(name):
    assert check_simulator(SMALL[name](), steps=300) == []


@pytest.mark.parametrize("name", SMALL)
def test_the_best_policy_earns_the_optimum_in_the_simulator(name):
    problem = SMALL[name]()
    chain, state, rng, rewards = problem.chain(), state_of(problem), np.random.default_rng(5), np.zeros(60_000)
    policy = best_policy(chain)
    assert len(set(policy)) == chain.rewards.shape[1]  # every action is best somewhere
    for step in range(len(rewards)):
        rewards[step] = problem.step(state, problem.parameters, int(policy[problem.row(state)]), rng)[0]
    means = chain.scale * rewards.reshape(60, -1).mean(axis=1)
    assert means.mean() == pytest.approx(problem.optimum(), abs=4.0 * means.std() / math.sqrt(60))


@pytest.mark.parametrize("name", SMALL)
def test_rules_earn_in_the_simulator_what_probabilities_say(name):
    problem = SMALL[name]()
    chain, state, rng = problem.chain(), state_of(problem), np.random.default_rng(6)
    for rule, expected in metrics_of_rules(problem, chain).items():
        rewards = np.zeros(30_000)
        for step in range(len(rewards)):
            action = problem.heuristics[rule](state, problem.parameters, None, rng)
            rewards[step] = problem.step(state, problem.parameters, action, rng)[0]
        means = chain.scale * rewards.reshape(30, -1).mean(axis=1)
        assert means.mean() == pytest.approx(expected, abs=4.0 * means.std() / math.sqrt(30))


def test_what_is_heard_is_as_likely_as_the_sum_over_all_that_may_be_hidden():
    """Chances of each sequence of three answers, next to the transitions of listening one after another."""
    problem = HiddenGoal(patience=4)
    truth, stays, *_ = problem.parameters
    listens = problem.chain().transitions[0]
    for shown, *answers in itertools.product(range(4), repeat=4):
        likely = sum(
            (stays if hidden == shown else (1.0 - stays) / 3.0)
            * math.prod(truth if answer == hidden else (1.0 - truth) / 3.0 for answer in answers)
            for hidden in range(4)
        )
        state, chance = SimpleNamespace(shown=shown, named=np.zeros(4, np.int64)), 1.0
        for answer in answers:
            before = problem.row(state)
            state.named[answer] += 1
            chance *= listens[before, problem.row(state)]
        assert chance == pytest.approx(likely)
