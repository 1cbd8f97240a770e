"""Policies compared from states of training: what episodes that are cut soon after they begin do not show."""

import numpy as np
import pytest
import torch

pytest.importorskip("scipy")

from longstride import Discrete, Simulator
from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import PolicySpec
from longstride.training.choice.candidates import Candidate, Candidates
from longstride.training.choice.choose import choice_line, choose
from longstride.training.choice.halving import Arm
from longstride.training.choice.usual_states import UsualStates, halve_from
from longstride.training.evaluation.acting import acting_sentence
from longstride.training.evaluation.periodic import unasked_evaluation


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
WORN = np.array([(0.0, 9_000 + k) for k in range(40)], Wear.state_dtype)


def policy(preference):
    """Return the parameters of a policy that prefers the second action by a logit."""
    layout = SPEC.layout
    params = np.zeros(layout.actor_size, np.float32)
    layout.view(torch.from_numpy(params), "actor.1.bias")[1] = preference
    return params


def choice_of(usual, simulator=Wear, preferences=(8.0, -8.0)):
    """Return the choice between the second action and the first one, which the last policy takes."""
    evaluation, kept = unasked_evaluation(simulator(), SPEC, TOTAL, 0, 1), Candidates(lower_is_better=True)
    for iteration, preference in zip((3, 5), preferences, strict=True):
        kept.add(Candidate(iteration, policy(preference), [9.0] * 4))
    nothing = np.empty(0, Wear.state_dtype)
    return choose(kept, evaluation, simulator(), SPEC, 60_000, nothing, usual=usual), evaluation


def test_states_of_training_show_what_the_beginnings_of_episodes_do_not():
    choice, evaluation = choice_of(UsualStates(WORN, 1e6))
    assert choice.candidate.iteration == 3
    assert choice.value == pytest.approx(2.05 * evaluation.cut, rel=0.01), "its episodes begin naturally"
    assert choice_line(Wear(), choice, evaluation.cut).startswith(
        f"The policy of the run is the one after iteration 3, the best of 2 in {choice.pieces} pieces from states of "
        f"training; in {choice.episodes} further episodes of at most 1,562 steps: cost 3,20"
    )
    for states, budget in ((WORN[:0], 1e6), (WORN, 4 * 8 * evaluation.cut)):
        without, _ = choice_of(UsualStates(states, budget))
        assert (without.candidate.iteration, without.pieces) == (5, 0), "no states, or eight pieces for each arm"


def test_returns_that_do_not_rank_as_the_metric_decide_nothing():
    choice, _ = choice_of(UsualStates(WORN, 1e6), Pay)
    assert (choice.pieces, choice.verdict.metric) == (0, "cost")


@pytest.mark.parametrize(("preference", "draws", "word"), [(-0.1, True, "better"), (0.1, False, "worse")])
def test_draws_are_compared_with_the_likeliest_actions_by_their_returns(preference, draws, word):
    """Half of the draws cost 2, half 3; a policy whose likeliest action is the first one does better by draws."""
    choice, evaluation = choice_of(UsualStates(WORN, 1e6), preferences=(preference, preference))
    assert (choice.draws, choice.verdict.metric, choice.verdict.word) == (draws, "return", word)
    most_likely = (2.05 if preference > 0.0 else 3.05) * evaluation.cut
    assert choice.verdict.other == pytest.approx(-most_likely, rel=0.01)
    said = acting_sentence(choice.verdict)
    assert said.startswith(f"Drawing its actions is {word} than taking the most likely ones: -")
    assert " return (" in said


def test_pieces_begin_in_all_states_in_turn_and_each_has_a_random_stream_of_its_own():
    asked = []

    def play_from(arm, states, first):
        asked.append((arm, states.tolist(), first))
        return [(float(arm.candidate), 10) for _ in states]

    arms = [Arm(0, False), Arm(1, False)]
    found = halve_from(UsualStates(np.arange(3), 161.0), arms, play_from, 10, beside=0)
    assert found.best == Arm(1, False), "the higher return"
    assert asked == [(arm, [0, 1, 2, 0, 1, 2, 0, 1], 0) for arm in arms]
    assert halve_from(UsualStates(np.arange(3), 160.0), arms, play_from, 10, beside=0) is None
