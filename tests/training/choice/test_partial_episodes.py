"""Policies compared from states of training: what episodes that are cut soon after they begin do not show."""

import json

import numpy as np
import pytest
from helpers.specs import params_that_prefer

pytest.importorskip("scipy")

from longstride import Discrete, Simulator
from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import PolicySpec
from longstride.training.choice.candidates import Candidate, Candidates
from longstride.training.choice.choose import choice_line, choose, keep_choice
from longstride.training.choice.contenders import Contenders
from longstride.training.choice.halving import Arm, Halved
from longstride.training.choice.partial_episodes import FromTraining, halve_from
from longstride.training.evaluation.acting import acting_sentence
from longstride.training.evaluation.periodic import unasked_evaluation
from longstride.training.run_directory.directory import RunDirectory


class Wear(Simulator):
    """The first action costs 1, and 3 after 2,000 steps; the second one always costs 2. Episodes have 50,000 steps."""

    observation_size, action_space, max_steps, main_metric = 1, Discrete(2), 50_000, "cost"
    main_metric_lower_is_better = True
    state_dtype = np.dtype([("cost", np.float64), ("age", np.int64)])
    metrics_dtype = np.dtype([("cost", np.float64)])

    def reset(state, parameters, rng):
        state.cost = 0.0
        state.age = 0

    def observe(state, parameters, observation):
        observation[0] = 0.0

    def step(state, parameters, action, rng):
        early = 1.0 if state.age < 2_000 else 3.0
        cost = (2.0 if action == 1 else early) + 0.1 * rng.random()
        state.cost += cost
        state.age += 1
        return -cost, False

    def episode_metrics(state, parameters, metrics):
        metrics.cost = state.cost


class Pay(Wear):
    """The metric of an episode is what it earns, of which the return is only the costs."""

    def episode_metrics(state, parameters, metrics):
        metrics.cost = -state.cost


SPEC, TOTAL = PolicySpec(1, Discrete(2), (4,), (4,), "relu", MLP), 1_000_000
BUDGET = 120_000.0
"""Steps that are enough for partial episodes, but not for long ones."""

WORN = np.array([(0.0, 9_000 + k) for k in range(40)], Wear.state_dtype)


def policy(preference):
    return params_that_prefer(SPEC, preference)


def choice_of(given, simulator=Wear, preferences=(8.0, -8.0)):
    """Return the choice between the second action and the first one, which the last policy takes."""
    evaluation, kept = unasked_evaluation(simulator(), SPEC, TOTAL, 0, 1), Candidates(lower_is_better=True)
    for iteration, preference in zip((3, 5), preferences, strict=True):
        kept.add(Candidate(iteration, policy(preference), [9.0] * 4))
    nothing = np.empty(0, Wear.state_dtype)
    return choose(kept, evaluation, simulator(), SPEC, 60_000, nothing, given=given), evaluation


def test_states_of_training_show_what_the_beginnings_of_episodes_do_not():
    choice, evaluation = choice_of(FromTraining(WORN, BUDGET))
    assert choice.candidate.iteration == 3
    assert choice.value == pytest.approx(2.05 * evaluation.cut, rel=0.01), "its episodes begin naturally"
    assert choice_line(Wear(), choice, evaluation.cut).startswith(
        f"The policy of the run is the one after iteration 3, the best of 2 in {choice.partial_episodes} partial "
        f"episodes from states of training. In {choice.episodes} further episodes of at most 1,562 steps: cost 3,20"
    )
    for states, budget in ((WORN[:0], BUDGET), (WORN, 4 * 8 * 999)):
        without, _ = choice_of(FromTraining(states, budget))
        assert (without.candidate.iteration, without.partial_episodes) == (5, 0), "no states, or too few steps"


class Short(Wear):
    """Episodes end after 1,500 steps: before they are cut, and before there is wear."""

    def step(state, parameters, action, rng):
        cost = (2.0 if action == 1 else 1.0) + 0.1 * rng.random()
        state.cost += cost
        state.age += 1
        return -cost, state.age == 1_500


def test_whole_episodes_decide_themselves():
    choice, _ = choice_of(FromTraining(WORN, BUDGET), Short)
    assert (choice.candidate.iteration, choice.partial_episodes) == (5, 0)


def test_returns_that_do_not_rank_as_the_metric_decide_nothing():
    choice, _ = choice_of(FromTraining(WORN, BUDGET), Pay)
    assert (choice.partial_episodes, choice.verdict.metric) == (0, "cost")


def contenders_with(simulator, returns, values):
    evaluation = unasked_evaluation(simulator, SPEC, TOTAL, 0, 1)
    contenders = Contenders([], evaluation, simulator, SPEC)
    arms = [Arm(i, False) for i in range(len(returns))]
    contenders.returns.update(zip(arms, returns, strict=True))
    return contenders, Halved(arms[0], dict(zip(arms, values, strict=True)), 0)


def test_policies_are_ranked_in_the_same_episodes():
    """All episodes have a demand of their own, and a third policy, given up early, is bad at everything."""
    demand, noise = np.arange(8.0) * 100.0, np.array([0.0, 1.0, 3.0, 2.0, 0.5, 2.5, 1.5, 0.2])
    returns = [-demand, -demand - 1.0 - noise, -demand[:4] - 900.0]
    alike = [demand, demand + 2.0 + 2.0 * noise, demand[:4] + 900.0]
    opposite = [demand, demand - 1.0 - noise, demand[:4] + 900.0]
    for values, ranks in ((alike, True), (opposite, False)):
        contenders, found = contenders_with(Wear(), returns, values)
        assert contenders.returns_rank_as_the_metric(found) is ranks
    contenders, found = contenders_with(Wear(), [-demand, -demand], [demand, demand])
    assert contenders.returns_rank_as_the_metric(found), "policies that do the same: by episodes"
    contenders, found = contenders_with(Wear(), [-demand, -demand], [[None] * 8, demand])
    assert not contenders.returns_rank_as_the_metric(found), "no episode has both"


def test_what_is_negligible_has_the_units_of_returns():
    """A reward is 100 less the cost, so half a percent of the return would be many times the cost."""
    cost = np.array([1.0, 2.0, 1.5, 1.2])
    contenders, found = contenders_with(Wear(), [100.0 - 3.0 * cost, 99.0 - 3.0 * cost], [cost, cost + 1 / 3])
    assert contenders.negligible(found) == pytest.approx(0.005 * 3.0 * np.mean([cost, cost + 1 / 3]))


@pytest.mark.parametrize(("preference", "draws", "word"), [(-0.1, True, "better"), (0.1, False, "worse")])
def test_draws_are_compared_with_the_likeliest_actions_by_their_returns(preference, draws, word, tmp_path):
    """Half of the draws cost 2, half 3; a policy whose likeliest action is the first one does better by draws."""
    choice, evaluation = choice_of(FromTraining(WORN, BUDGET), preferences=(preference, preference))
    assert (choice.draws, choice.verdict.metric, choice.verdict.word) == (draws, "return", word)
    most_likely = (2.05 if preference > 0.0 else 3.05) * evaluation.cut
    assert choice.verdict.other == pytest.approx(-most_likely, rel=0.01)
    said = acting_sentence(choice.verdict)
    assert said.startswith(f"Drawing its actions is {word} than taking the most likely ones: -")
    assert " return (" in said
    keep_choice(RunDirectory(tmp_path), choice)
    kept = json.loads((tmp_path / "acting.json").read_text())
    assert (kept["draws"], kept["metric"], kept["verdict"]) == (draws, "return", word)


def test_partial_episodes_begin_in_all_states_in_turn_and_each_has_a_random_stream_of_its_own():
    asked = []

    def play_from(arm, states, steps, first):
        asked.append((arm.candidate, states.tolist(), steps, first))
        streams = range(first, first + len(states))
        return [(np.random.default_rng((arm.candidate, k, 3)).standard_normal(), steps) for k in streams]

    arms = [Arm(i, False) for i in range(3)]
    found = halve_from(FromTraining(np.arange(3), 60_000.0), arms, play_from, 1_000, 0.0)
    assert asked[0] == (0, [0, 1, 2, 0, 1, 2, 0, 1, 2, 0], 1_000, 0)
    again = [each for each in asked if each[3]]
    assert again[0][1:] == ([(10 + k) % 3 for k in range(len(again[0][1]))], 1_000, 10), "the next states and streams"
    assert found.steps <= 60_000


@pytest.mark.parametrize(("budget", "steps"), [(48_000.0, 2_000), (36_000.0, 1_500), (23_999.0, None)])
def test_a_small_budget_shortens_partial_episodes(budget, steps):
    asked = set()

    def play_from(arm, states, steps, first):
        asked.add(steps)
        return [(float(arm.candidate), steps) for _ in states]

    found = halve_from(FromTraining(np.arange(3), budget), [Arm(i, False) for i in range(3)], play_from, 2_000, 0.0)
    assert asked == ({steps} if steps else set())
    assert (found is None) is (steps is None)


def test_a_negligible_gain_leaves_the_first_policy():
    def play_from(arm, states, steps, first):
        return [(0.1 * arm.candidate, steps) for _ in states]

    for negligible, best in ((0.0, 1), (0.2, 0)):
        arms, given = [Arm(0, False), Arm(1, False)], FromTraining(np.arange(3), 1e5)
        assert halve_from(given, arms, play_from, 1_000, negligible).best == Arm(best, False)
