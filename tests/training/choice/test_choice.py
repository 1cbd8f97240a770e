"""The policy that a run ends with: candidates, their ranks, successive halving; rare costs with a known truth."""

import numpy as np
import pytest
from helpers.specs import params_that_prefer

pytest.importorskip("scipy")

from longstride import Discrete, Simulator
from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import PolicySpec
from longstride.training.choice.candidates import Candidate, Candidates, common_episodes, scores
from longstride.training.choice.choose import choice_line, choose, keep_choice
from longstride.training.choice.halving import Arm, halve
from longstride.training.evaluation.periodic import unasked_evaluation
from longstride.training.run_directory.acting_file import draws_by_default
from longstride.training.run_directory.directory import RunDirectory


def candidate(iteration, values, worst=None):
    return Candidate(iteration, np.full(3, iteration, np.float32), values, worst)


def test_candidates_are_compared_in_the_episodes_that_all_have():
    assert common_episodes([[1.0, None, 3.0, 4.0], [2.0, 2.0, 5.0]]).tolist() == [[1.0, 3.0], [2.0, 5.0]]
    assert common_episodes([[1.0, None], [None, 2.0]]).tolist() == [[1.0], [2.0]]
    kept = Candidates(lower_is_better=True)
    kept.add(candidate(0, [5.0, 1.0, 0.0, 0.0]))  # better only by later episodes
    kept.add(candidate(3, [4.0, 1.0]))
    assert [each.iteration for each in kept.ranked()] == [3, 0]


@pytest.mark.parametrize(("lower", "order"), [(True, [2, 4, 1]), (False, [1, 4, 2])])
def test_ranks_follow_the_direction_of_the_metric_and_later_comes_first(lower, order):
    kept = Candidates(lower)
    for each in (candidate(1, [3.0, 3.5]), candidate(2, [1.0, 1.5]), candidate(4, [2.0, 2.5]), candidate(5, [None])):
        kept.add(each)
    assert [each.iteration for each in kept.ranked()] == order
    kept.add(candidate(6, [2.0, 2.5]))
    assert [each.iteration for each in kept.ranked()] == [order[0], 6, *order[1:]]


def test_six_are_kept_and_the_worst_but_the_newest_leaves():
    kept = Candidates(lower_is_better=False)
    for iteration, value in enumerate((5.0, 1.0, 7.0, 6.0, 8.0, 9.0, 0.0)):
        kept.add(candidate(iteration, [value, value]))
    assert [each.iteration for each in kept.kept] == [0, 2, 3, 4, 5, 6]
    again = Candidates(lower_is_better=False)
    again.load_state_dict(*kept.state_dict())
    assert [vars(each) | {"params": None} for each in again.kept] == [
        vars(each) | {"params": None} for each in kept.kept
    ]
    assert all((a.params == b.params).all() for a, b in zip(again.kept, kept.kept, strict=True))


def test_episodes_without_spread_count_with_half_a_bad_one_if_training_has_spread():
    costs = np.array([[0.31] * 4, [0.50, 0.52, 0.48, 0.50]])
    assert scores(costs, [None, None]).tolist() == pytest.approx([0.31, 0.5])
    assert scores(costs, [4.3, 0.6])[0] == pytest.approx((4 * 0.31 + 0.5 * 4.3) / 4.5)
    assert scores(costs, [4.3, 0.6]).argmin() == 1
    assert scores(np.full((1, 4), 3.0), [3.0]).tolist() == [3.0], "nor has training"


COSTS = {False: 0.31, True: 0.50}
"""Running costs of a policy that never services and of one that does, without bursts."""

BURST, CHANCE, STEPS = 2.2, 0.2, 1_000
"""Cost of a burst in an episode, its probability without service, and steps of an episode; so 0.75 is the true cost."""


def rare_burst(services_of, seed):
    """Return how arms play: episode k has the same draws for all, and a burst hits those that do not service."""

    def play(arm, episodes):
        played = []
        for k in episodes:
            rng = np.random.default_rng((seed, k))
            noise, burst = 0.01 * rng.standard_normal(), rng.random() < CHANCE
            services = services_of[arm.candidate]
            played.append((COSTS[services] + noise + BURST * (burst and not services), STEPS))
        return played

    return play


@pytest.mark.parametrize(("episodes", "most"), [(100, 30), (400, 2)])
def test_a_policy_that_has_only_been_lucky_loses_the_comparison(episodes, most):
    """By four episodes alone it wins in 41 of 100 comparisons (0.8^4), in this one the less the more it may play."""
    arms, services, by_few, by_halving = [Arm(i, False) for i in range(4)], [True, False, False, False], 0, 0
    for seed in range(200):
        play = rare_burst(services, seed)
        few = [np.mean([value for value, _ in play(arm, range(4))]) for arm in arms]
        found = halve(arms, play, episodes * STEPS, STEPS, lower_is_better=True)
        by_few += int(np.argmin(few)) != 0
        by_halving += found.best.candidate != 0
        assert found.steps <= episodes * STEPS
    assert by_few == pytest.approx(82, abs=20)
    assert by_halving <= most


def test_halving_finds_the_least_cost_and_the_largest_reward_within_the_budget():
    means = [3.0, 1.0, 2.0, 4.0, 5.0]

    def play(arm, episodes):
        return [(means[arm.candidate] + np.random.default_rng(k).standard_normal(), 10) for k in episodes]

    arms = [Arm(i, False) for i in range(5)]
    assert halve(arms, play, 1_000, 10, lower_is_better=True).best == Arm(1, False)
    assert halve(arms, play, 1_000, 10, lower_is_better=False).best == Arm(4, False)
    found = halve(arms, play, 240, 10, lower_is_better=True)
    assert set(found.values) == set(arms[:3]), "the last arms are left out of a small budget"
    assert set(halve(arms, play, 40, 10, lower_is_better=True).values) == set(arms[:2])
    assert halve(arms, play, 39, 10, lower_is_better=True) is None


def test_arms_that_act_alike_or_are_shown_to_be_worse_cost_no_further_round():
    def play(arm, episodes):
        return [(float(k % 3) + 9.0 * arm.candidate, 1) for k in episodes]

    found = halve([Arm(0, False), Arm(1, False), Arm(0, True), Arm(1, True)], play, 1_000, 1, lower_is_better=True)
    assert found.best == Arm(0, False)
    assert {len(values) for values in found.values.values()} == {125}, "one round"


@pytest.mark.parametrize(("gain", "best"), [(1.0, 1), (0.01, 0), (-0.5, 0)])
def test_an_earlier_policy_replaces_the_first_arm_only_if_it_is_shown_to_be_better(gain, best):
    def play(arm, episodes):
        seeds = ((k, arm.candidate) for k in episodes)
        return [(np.random.default_rng(seed).standard_normal() + gain * arm.candidate, 1) for seed in seeds]

    assert halve([Arm(0, False), Arm(1, False)], play, 400, 1, lower_is_better=False).best == Arm(best, False)


def test_the_first_arm_plays_all_rounds_and_is_compared_in_all_episodes():
    """After the four of the first round it is the worst by more than a standard error, after all of them no longer."""

    def play(arm, episodes):
        costs = {0: [14.0, 10.0, 16.0, 12.0], 1: [13.0, 11.0, 14.0, 11.0], 2: [12.0, 11.0, 13.0, 11.0]}[arm.candidate]
        return [(costs[k] if k < 4 else 1.0 + arm.candidate + 0.1 * (k % 3), 1) for k in episodes]

    arms = [Arm(0, False), Arm(1, False), Arm(2, False)]
    found = halve(arms, play, 24, 1, lower_is_better=True)
    assert found.best == Arm(0, False)
    assert [len(found.values[arm]) for arm in arms] == [7, 7, 7]


@pytest.mark.parametrize(("swing", "best"), [(1.0, Arm(0, False)), (0.0, Arm(1, False))])
def test_draws_that_are_not_shown_to_be_better_leave_no_earlier_policy_that_is_not_either(swing, best):
    def play(arm, episodes):
        cost = {Arm(0, False): 10.0, Arm(1, False): 9.8, Arm(0, True): 9.79}[arm]
        sign = {Arm(0, False): 1.0, Arm(1, False): -1.0, Arm(0, True): 0.0}[arm]
        return [(cost + swing * sign * (1.0 if k % 2 else -1.0), 1) for k in episodes]

    arms = [Arm(0, False), Arm(1, False), Arm(0, True)]
    assert halve(arms, play, 96, 1, lower_is_better=True).best == best


def test_a_candidate_without_spread_is_judged_with_the_worst_episode_of_training():
    def play(arm, episodes):
        return [(0.31 if arm.candidate else 0.4 + 0.25 * (k % 2), 1) for k in episodes]

    arms = [Arm(0, False), Arm(1, False)]
    assert halve(arms, play, 16, 1, lower_is_better=True).best == Arm(1, False)
    assert halve(arms, play, 16, 1, lower_is_better=True, worst=[4.3, 4.3]).best == Arm(0, False)


@pytest.mark.parametrize(("gain", "draws"), [(1.0, True), (0.01, False), (-0.5, False)])
def test_a_policy_draws_only_if_that_is_shown_to_be_better(gain, draws):
    def play(arm, episodes):
        return [(np.random.default_rng((k, arm.draws)).standard_normal() + gain * arm.draws, 1) for k in episodes]

    found = halve([Arm(0, False), Arm(0, True)], play, 400, 1, lower_is_better=False)
    assert found.best.draws is draws


class Machine(Simulator):
    """Servicing costs 0.5 a step; not servicing costs 0.31, and 300 when it breaks, once in 500 steps: 0.91."""

    observation_size, action_space, max_steps, main_metric = 1, Discrete(2), 200, "cost"
    main_metric_lower_is_better = True
    state_dtype = np.dtype([("cost", np.float64), ("steps", np.int64)])
    metrics_dtype = np.dtype([("cost", np.float64)])

    def reset(state, parameters, rng):
        state.cost = 0.0
        state.steps = 0

    def observe(state, parameters, observation):
        observation[0] = 0.0

    def step(state, parameters, action, rng):
        breaks = rng.random() < 0.002
        cost = 0.5 if action == 1 else 0.31 + 300.0 * breaks
        state.cost += cost
        state.steps += 1
        return -cost, False

    def episode_metrics(state, parameters, metrics):
        metrics.cost = state.cost / state.steps


SPEC = PolicySpec(1, Discrete(2), (4,), (4,), "relu", MLP)


def policy(preference):
    return params_that_prefer(SPEC, preference)


def test_the_policy_of_a_run_is_chosen_by_further_episodes_and_its_way_to_act_is_kept(tmp_path):
    evaluation = unasked_evaluation(Machine(), SPEC, 1_000_000, 0, 1)
    kept = Candidates(lower_is_better=True)
    kept.add(Candidate(0, policy(0.0), [0.9] * 4))
    kept.add(Candidate(7, policy(6.0), [0.5] * 4))
    kept.add(Candidate(9, policy(-6.0), [0.31] * 4))  # lucky
    budget = evaluation.budget(1_000_000, 40_000)
    assert budget == 60_000
    nothing = np.empty(0, Machine.state_dtype)
    choice = choose(kept, evaluation, Machine(), SPEC, budget, nothing)
    assert (choice.candidate.iteration, choice.draws) == (7, False)
    assert choice.value == pytest.approx(0.5)
    assert choice.steps <= budget
    best = f"the best of 3 in {choice.episodes} further episodes: cost 0.5 ± 0."
    assert choice_line(Machine(), choice) == f"The policy of the run is the one after iteration 7, {best}"
    keep_choice(RunDirectory(tmp_path), choice)
    assert not draws_by_default(tmp_path, choice.candidate.params)
    assert choose(kept, evaluation, Machine(), SPEC, 300, nothing) is None


def test_the_mean_of_the_late_policies_stays_unless_another_one_is_shown_to_be_better():
    evaluation, nothing = unasked_evaluation(Machine(), SPEC, 1_000_000, 0, 1), np.empty(0, Machine.state_dtype)
    kept = Candidates(lower_is_better=True)
    kept.add(Candidate(0, policy(6.0), [0.5] * 4))
    kept.add(Candidate(9, policy(-6.0), [0.9] * 4))
    mean, worse = (Candidate(9, policy(preference), is_mean=True) for preference in (6.0, -6.0))
    choice = choose(kept, evaluation, Machine(), SPEC, 60_000, nothing, mean)
    assert choice.candidate is mean, "of policies that act alike, the mean comes before an earlier one"
    assert choice_line(Machine(), choice).startswith(
        "The policy of the run is the mean of its late ones, the best of 3"
    )
    assert choose(kept, evaluation, Machine(), SPEC, 240_000, nothing, worse).candidate.iteration == 0
    kept.add(Candidate(11, policy(6.0), [0.5] * 4))
    assert choose(kept, evaluation, Machine(), SPEC, 60_000, nothing, mean).candidate is mean, "the newest acts alike"
    assert choose(kept, evaluation, Machine(), SPEC, 60_000, nothing, worse).candidate.iteration == 11


class Sound(Machine):
    """Servicing costs 0.5 a step, not servicing 0.95; nothing breaks."""

    def step(state, parameters, action, rng):
        cost = 0.5 if action == 1 else 0.95
        state.cost += cost
        state.steps += 1
        return -cost, False


@pytest.mark.parametrize("values_of_the_first", [[0.5] * 4, []])
@pytest.mark.parametrize(("episodes", "compared"), [(10, 2), (16, 3), (24, 3)])
def test_a_small_budget_is_for_an_earlier_policy_too(episodes, compared, values_of_the_first):
    """Training may have spoilt the last policies, the mean among them. An extended run may not know the first one."""
    evaluation, nothing = unasked_evaluation(Sound(), SPEC, 1_000_000, 0, 1), np.empty(0, Sound.state_dtype)
    kept = Candidates(lower_is_better=True)
    kept.add(Candidate(0, policy(6.0), [0.5] * 4))
    kept.add(Candidate(9, policy(-6.0), [0.95] * 4))
    kept.kept[0].values = values_of_the_first
    mean = Candidate(9, policy(-5.0), is_mean=True)
    choice = choose(kept, evaluation, Sound(), SPEC, episodes * Sound.max_steps, nothing, mean)
    assert (choice.candidate.iteration, choice.policies) == (0, compared)


class Habit(Machine):
    """An action costs 1 if it is the one of the step before, else 0: the likeliest actions are the worst."""

    state_dtype = np.dtype([*Machine.state_dtype.descr, ("last", np.int64)])

    def reset(state, parameters, rng):
        state.cost = 0.0
        state.steps = 0
        state.last = 0

    def step(state, parameters, action, rng):
        cost = 1.0 if action == state.last else 0.0
        state.cost += cost
        state.steps += 1
        state.last = action
        return -cost, False


@pytest.mark.parametrize(
    ("values_of_the_first", "draws", "compared"), [([0.99] * 4, True, 1), ([0.9] * 4, False, 2), ([], False, 2)]
)
def test_a_small_budget_is_for_draws_where_training_has_not_spoilt_the_newest_policy(
    values_of_the_first, draws, compared
):
    evaluation, nothing = unasked_evaluation(Habit(), SPEC, 1_000_000, 0, 1), np.empty(0, Habit.state_dtype)
    kept = Candidates(lower_is_better=True)
    kept.add(Candidate(0, policy(1.0), values_of_the_first))
    kept.add(Candidate(9, policy(0.5), [0.98] * 4))
    choice = choose(kept, evaluation, Habit(), SPEC, 16 * Habit.max_steps, nothing)
    assert (choice.candidate.iteration, choice.draws, choice.policies) == (9, draws, compared)
