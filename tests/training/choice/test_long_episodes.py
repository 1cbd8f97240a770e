"""Policies compared in long episodes: what shows only late in an episode."""

import numpy as np
import pytest
from helpers.specs import params_that_prefer

pytest.importorskip("scipy")

from longstride import Discrete, Simulator
from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import PolicySpec
from longstride.training.choice.candidates import Candidate, Candidates
from longstride.training.choice.choose import choice_line, choose
from longstride.training.choice.halving import Arm
from longstride.training.choice.long_episodes import look_again, steps_of_long
from longstride.training.evaluation.periodic import CHOICE, unasked_evaluation


class Slow(Simulator):
    """The first action costs 1, and `late` after 12,000 of 50,000 steps; the second one always costs 2."""

    observation_size, action_space, max_steps, main_metric = 1, Discrete(2), 50_000, "cost"
    main_metric_lower_is_better = True
    state_dtype = np.dtype([("cost", np.float64), ("age", np.int64)])
    metrics_dtype = np.dtype([("cost", np.float64)])

    def __init__(self, late=5.0):
        self.parameters = (late,)

    def reset(state, parameters, rng):
        state.cost = 0.0
        state.age = 0

    def observe(state, parameters, observation):
        observation[0] = 0.0

    def step(state, parameters, action, rng):
        first = 1.0 if state.age < 12_000 else parameters[0]
        cost = (2.0 if action == 1 else first) + 0.1 * rng.random()
        state.cost += cost
        state.age += 1
        return -cost, False

    def episode_metrics(state, parameters, metrics):
        metrics.cost = state.cost / state.age


SPEC = PolicySpec(1, Discrete(2), (4,), (4,), "relu", MLP)
NOTHING = np.empty(0, Slow.state_dtype)


def choice_of(further, simulator=Slow, late=5.0, preferences=(8.0, -8.0)):
    """Return the choice between the second action and the first one, which the last policy takes."""
    evaluation, kept = unasked_evaluation(simulator(late), SPEC, 1_000_000, 0, 1), Candidates(lower_is_better=True)
    for iteration, preference in zip((3, 5), preferences, strict=True):
        kept.add(Candidate(iteration, params_that_prefer(SPEC, preference), [9.0] * 4))
    return choose(kept, evaluation, simulator(late), SPEC, 60_000, NOTHING, further=further), evaluation


def test_long_episodes_show_what_the_beginnings_of_episodes_do_not():
    choice, evaluation = choice_of(1e6)
    assert (choice.candidate.iteration, choice.longest, choice.policies) == (3, 25_000, 2)
    assert choice.value == pytest.approx(2.05, rel=0.01)
    assert choice_line(Slow(), choice, evaluation.cut).startswith(
        "The policy of the run is the one after iteration 3, the best of 2 in "
        f"{choice.episodes} further episodes of at most 25,000 steps: cost 2.0"
    )
    without, evaluation = choice_of(2 * 40 * evaluation.cut - 1)
    assert (without.candidate.iteration, without.longest) == (5, 0), "too few steps"
    assert "further episodes of at most 1,562 steps: cost 1.0" in choice_line(Slow(), without, evaluation.cut)


def test_long_episodes_have_random_streams_of_their_own():
    evaluation, params = unasked_evaluation(Slow(), SPEC, 1_000_000, 0, 1), params_that_prefer(SPEC, 8.0)
    usual = evaluation.play(params, "trained", range(3), CHOICE)
    long = evaluation.play_long(params, "trained", range(3), evaluation.cut)
    assert [each.steps for each in usual] == [each.steps for each in long]
    assert not {each.record["return"] for each in usual} & {each.record["return"] for each in long}


class Short(Slow):
    """Episodes end after 1,500 steps, before they are cut."""

    def step(state, parameters, action, rng):
        cost = 1.0 + action + 0.1 * rng.random()
        state.cost += cost
        state.age += 1
        return -cost, state.age == 1_500


def test_whole_episodes_decide_themselves():
    choice, _ = choice_of(1e6, Short)
    assert (choice.candidate.iteration, choice.longest) == (5, 0)


def test_where_they_show_no_difference_the_last_policy_stays():
    """The first action costs 2 in the mean of a long episode, and 1 in the beginning."""
    for preferences, iteration in (((8.0, -8.0), 5), ((-8.0, 8.0), 5)):
        choice, _ = choice_of(1e6, late=2.0 + 12_000 / 13_000, preferences=preferences)
        assert (choice.candidate.iteration, choice.longest) == (iteration, 25_000)


def test_draws_that_are_better_in_them_are_drawn():
    """Likeliest actions cost 3.1 and draws 2.5; in beginnings it is the other way round."""
    choice, _ = choice_of(1e6, preferences=(-0.1, -0.1))
    assert (choice.draws, choice.verdict.metric, choice.verdict.word) == (True, "cost", "better")


def test_the_best_one_before_and_all_likeliest_actions_come_before_draws():
    asked = []

    def play(arm, episodes, longest):
        asked.append((arm, longest))
        return [(1.0 + arm.candidate, longest) for _ in episodes]

    arms = [Arm(i, draws) for i in range(4) for draws in (False, True)]
    found = look_again(Arm(1, False), Arm(2, True), arms, play, 100 * 40.0, 100, True, [None] * 4)
    order = [Arm(1, False), Arm(2, True), Arm(0, False), Arm(2, False)]
    assert asked[:4] == [(arm, 100) for arm in order]
    assert asked[-1] == (Arm(0, True), 100), "the other way of the best one"
    assert (found.best, len(found.values)) == (Arm(0, False), 5)
    assert len(found.values[Arm(0, True)]) == len(found.values[Arm(0, False)])
    assert found.steps == 100 * sum(map(len, found.values.values())) <= 4_000


@pytest.mark.parametrize(("drawn", "draws"), [(0.9, True), (1.1, False), (0.999, False)])
def test_both_ways_of_the_best_policy_are_compared(drawn, draws):
    """Draws of the best one do not take part before; a tenth of a percent is no reason to draw."""

    def play(arm, episodes, longest):
        return [((drawn if arm.draws else 1.0) if arm.candidate == 3 else 2.0 + arm.candidate, 100) for _ in episodes]

    arms = [Arm(i, each) for i in range(4) for each in (False, True)]
    found = look_again(Arm(0, False), Arm(0, False), arms, play, 4_000.0, 100, True, [None] * 4)
    assert found.best == Arm(3, draws)
    higher = look_again(Arm(0, False), Arm(0, False), arms, negative(play), 4_000.0, 100, False, [None] * 4)
    assert higher.best == Arm(3, draws)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_metric_that_no_episode_has_is_no_reason_to_draw():
    arms = [Arm(i, each) for i in range(4) for each in (False, True)]
    found = look_again(arms[0], arms[0], arms, lambda arm, e, n: [(None, n) for _ in e], 4_000.0, 100, True, [None] * 4)
    assert found.best == arms[0]


def negative(play):
    return lambda arm, episodes, longest: [(-value, steps) for value, steps in play(arm, episodes, longest)]


@pytest.mark.parametrize(
    ("budget", "most", "cut", "steps"),
    [(2e6, 90_000, 3_125, 50_000), (2e6, 30_000, 3_125, 30_000), (2e5, 30_000, 2_501, 0), (2e6, 6_000, 3_125, 6_000)],
)
def test_long_episodes_are_as_long_as_the_budget_allows(budget, most, cut, steps):
    assert steps_of_long(budget, most, cut) == steps
