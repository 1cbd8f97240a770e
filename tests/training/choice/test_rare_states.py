"""Policies that are stuck in rare states unless they draw their actions."""

import json

import numpy as np
import pytest
from helpers.specs import params_that_prefer

from longstride import Discrete, Simulator
from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import PolicySpec
from longstride.training.choice.candidates import Candidate, Candidates
from longstride.training.choice.choose import choose, keep_choice
from longstride.training.choice.rare_states import Excursions, compare_from, excursions_sentence
from longstride.training.evaluation.acting import keep_verdict
from longstride.training.evaluation.comparison import compare
from longstride.training.evaluation.compiled import CompiledPlayer, Played
from longstride.training.evaluation.evaluate import Evaluation
from longstride.training.evaluation.periodic import unasked_evaluation
from longstride.training.run_directory.acting_file import draws_by_default
from longstride.training.run_directory.directory import RunDirectory


class Pit(Simulator):
    """Every step costs 1, in the pit 10; only the second action leads out. No episode falls into it by itself."""

    observation_size, action_space, max_steps, main_metric = 1, Discrete(2), 200, "cost"
    main_metric_lower_is_better = True
    state_dtype = np.dtype([("cost", np.float64), ("stuck", np.int64)])
    metrics_dtype = np.dtype([("cost", np.float64)])

    def reset(state, parameters, rng):
        state.cost = 0.0
        state.stuck = 0

    def observe(state, parameters, observation):
        observation[0] = 0.0

    def step(state, parameters, action, rng):
        if action == 1:
            state.stuck = 0
        cost = 10.0 if state.stuck else 1.0 + 0.1 * rng.random()
        state.cost += cost
        return -cost, False

    def episode_metrics(state, parameters, metrics):
        metrics.cost = state.cost


SPEC = PolicySpec(1, Discrete(2), (4,), (4,), "relu", MLP)
STUCK = np.array([(7.0, 1)] * 100, Pit.state_dtype)


def policy(preference):
    return params_that_prefer(SPEC, preference)


def choice_of(preference, states):
    evaluation, kept = unasked_evaluation(Pit(), SPEC, 1_000_000, 0, 1), Candidates(lower_is_better=True)
    for iteration in (3, 5):
        kept.add(Candidate(iteration, policy(preference), [210.0] * 4))
    return choose(kept, evaluation, Pit(), SPEC, 60_000, states)


def test_excursions_begin_in_the_given_states_and_have_at_most_so_many_steps():
    player = CompiledPlayer(Pit(), SPEC, 2)
    played = player.play_from("trained", policy(-3.0), STUCK[:3], 40, 0, "streams", 0)
    assert [(each.record, each.steps) for each in played] == [({"return": -400.0}, 40)] * 3
    out = player.play_from("trained", policy(3.0), STUCK[:3], 40, 0, "streams", 0)
    assert all(-44.0 < each.record["return"] < -40.0 for each in out)
    whole = player.play_each("trained", policy(-3.0), range(1), 0, "streams")[0]
    assert (whole.steps, -220.0 < whole.record["return"] < -200.0) == (200, True), "episodes still begin by themselves"


@pytest.mark.parametrize(
    ("preference", "states", "draws"), [(-3.0, STUCK, True), (3.0, STUCK, False), (-3.0, STUCK[:0], False)]
)
def test_a_policy_draws_if_its_likeliest_actions_are_stuck_in_rare_states(preference, states, draws, tmp_path):
    choice = choice_of(preference, states)
    assert choice.verdict is None or choice.verdict.word == "no difference shown", "natural episodes show nothing"
    assert choice.draws is draws
    directory, params = RunDirectory(tmp_path), choice.candidate.params
    keep_choice(directory, choice)
    assert draws_by_default(tmp_path, params) is draws
    assert bool(excursions_sentence(choice.rare)) is draws
    if draws:
        shown = json.loads(directory.acting.read_text())["from_rare_states"]
        assert shown["gain"] == pytest.approx(9.0 * (shown["steps"] - 20), rel=0.1), "out after 21 steps on average"


@pytest.mark.parametrize(("gain", "draws"), [(0.0, True), (5.0, True), (-5.0, False)])
def test_an_evaluation_that_shows_no_difference_leaves_what_rare_states_have_shown(gain, draws, tmp_path):
    directory, params = RunDirectory(tmp_path), policy(-3.0)
    keep_choice(directory, choice_of(-3.0, STUCK)._replace(candidate=Candidate(5, params)))
    records = {
        name: [{"cost": 100.0 + k - (gain if "sampled" in name else 0.0)} for k in range(9)]
        for name in ("trained", "trained_sampled")
    }
    keep_verdict(directory, compare(Evaluation(9, records), Pit(), "trained_sampled", "trained"), params)
    assert draws_by_default(tmp_path, params) is draws
    assert "from_rare_states" in json.loads(directory.acting.read_text())
    assert not draws_by_default(tmp_path, params + 1)


def returns(numbers):
    return [Played({"return": float(number)}, 1) for number in numbers]


def played_from(stuck, gain, spread=1.0):
    """Return how a policy plays that loses a gain in stuck states, -100 elsewhere; chance is that of the streams."""

    def play(way, states, steps, first):
        chance = [np.random.default_rng((first + k, way == "trained")).normal(0.0, spread) for k in range(len(states))]
        lost = np.where(np.isin(states, stuck), gain, 0.0) * (way == "trained")
        return returns(-100.0 - lost + np.array(chance))

    return play


def test_a_gain_counts_if_it_repeats_and_is_not_negligible():
    states = np.arange(64)
    assert compare_from(states, played_from([7, 31, 50], 300.0), 1e9).draws_are_better
    assert compare_from(states, played_from([7], 500.0), 1e9).draws_are_better, "one stuck state is enough"
    assert not compare_from(states, played_from([], 0.0), 1e9).draws_are_better
    assert not compare_from(states, played_from(states, 5.0), 1e9).draws_are_better, "shown, but negligible"
    assert not compare_from(states, played_from(states, -90.0), 1e9).draws_are_better


@pytest.mark.parametrize("budget", [1e9, 13_000, 6_400])
def test_chance_does_not_repeat(budget):
    """The states are chosen by chance, on other streams than those that decide: intervals hold 0 as they should."""
    held = 0
    for offset in range(200):

        def play(way, states, steps, first, offset=offset):
            rng = np.random.default_rng((offset, first, way == "trained"))
            return returns(-100.0 + 40.0 * rng.standard_normal(len(states)))

        found = compare_from(np.arange(64), play, budget)
        held += abs(found.gain) <= found.margin
    assert 180 <= held <= 199, "binomial, 190 expected"


@pytest.mark.parametrize(
    ("states", "budget", "asked"),
    [
        (100, 1e9, [(64, 500, 0), (32, 500, 64)]),
        (64, 25_000, [(64, 97, 0), (32, 195, 64)]),
        (64, 13_000, [(32, 101, 0), (16, 203, 32)]),
        (64, 6_400, [(16, 100, 0), (8, 200, 16)]),
        (64, 3_200, [(16, 50, 0), (8, 100, 16)]),
        (64, 3_100, []),
        (15, 1e9, []),
        (0, 1e9, []),
    ],
)
def test_the_budget_buys_states_and_steps(states, budget, asked):
    calls = []

    def play(way, starts, steps, first):
        calls.append((way, (len(starts), steps, first)))
        return returns([0.0] * len(starts))

    found = compare_from(np.zeros(states), play, budget)
    assert [call for way, call in calls if way == "trained"] == [call for way, call in calls if way != "trained"]
    assert [call for way, call in calls if way == "trained"] == asked
    assert (found is None) is (not asked)
    assert sum(2 * n * steps for n, steps, _ in asked) <= budget


def test_the_sentence_says_what_was_lost():
    sentence = excursions_sentence(Excursions(64, 8, 300, -2_400.0, 309.2, 120.0))
    assert sentence == (
        "It draws its actions: from 8 of 64 rarely visited states, its most likely ones have a return of 309 ± 120 "
        "less in 300 steps, as if stuck."
    )
    assert excursions_sentence(Excursions(64, 8, 300, -2_400.0, 90.0, 120.0)) == excursions_sentence(None) == ""
