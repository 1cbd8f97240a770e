"""Advantages within groups: by hand, against slow loops, unbiased where all is enumerated, and with less noise."""

from itertools import product

import numpy as np
import pytest
import torch
from helpers.toy_runs import actor_weights, new_model
from oracles.slow_groups import slow_group_advantages

from longstride.learning.advantages import step_discounts
from longstride.learning.gradient_noise import gradient_noise
from longstride.learning.group_advantages import group_advantages, rewards_to_go
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.fixed_length_collector import FixedLengthCollector
from longstride.rollout.trajectory import Trajectory
from longstride.simulators.queueing.criss_cross import CrissCross


def member(rewards, elapsed=None, terminated=(), truncated=()):
    """Return a trajectory with some rewards, elapsed times, and the steps after which an episode ended."""
    n = len(rewards)
    return Trajectory(
        observations=np.zeros((n + 1, 1), np.float32),
        actions=np.zeros(n, np.int64),
        log_probs=np.zeros(n, np.float32),
        rewards=np.array(rewards, np.float32),
        masks=np.ones((n, 2), np.bool_),
        features=np.zeros((n, 2, 0), np.float32),
        states=np.zeros((n, 0), np.float32),
        begins=np.zeros((n, 0), np.bool_),
        feasible=np.zeros((n, 0), np.int64),
        elapsed=np.zeros(n) if elapsed is None else np.array(elapsed, np.float64),
        control_variate=np.zeros(n, np.float32),
        terminated=np.isin(np.arange(n), terminated),
        truncated=np.isin(np.arange(n), truncated),
        cut_observations=np.zeros((sum(t < n - 1 for t in truncated), 1), np.float32),
    )


def compared(*members, gamma=1.0, by_time=False, by_deviation=False):
    """Return the result for one group, discounted by gamma a step, or a unit of time."""
    discounts = [step_discounts(gamma, t.elapsed, 1.0, "time" if by_time else "decision") for t in members]
    return group_advantages(members, discounts, by_deviation)


def assert_advantages(result, *expected):
    for found, numbers in zip(result.advantages, expected, strict=True):
        np.testing.assert_allclose(found, numbers, rtol=1e-12, atol=1e-12)


def test_two_members_without_a_clock_by_hand():
    """Gamma is 1/2. What is left of the first: 1 + 4/2 = 3, 2 + 4/2 = 4, 4; of the second 5, 0, and nothing at step 2.

    The first: 3 - 5, 4 - 0, 4 - 0. The second: 5 - 3, 0 - 4.
    """
    result = compared(member([1, 2, 4], terminated=[2]), member([5, 0], truncated=[1]), gamma=0.5)
    assert_advantages(result, [-2, 4, 4], [2, -4])
    assert [each.tolist() for each in result.compared] == [[True] * 3, [True] * 2]
    assert (result.comparisons, result.identical) == (1, 0)


def test_a_step_under_way_counts_with_its_rest_by_hand():
    """Gamma is 1/4 a unit of time. The first decides at 0 and 2, the second at 0 and 1; both end at 4.

    First: 1 + 2/16 = 1.125, then 2. Second: 4 + 8/4 = 6, then 8. At time 2 the second has 2 of 3 units of its second
    step before it: 8 * 2/3. At time 1 the first has half of its first step before it, and its second step after a
    discount of (1/16)^(1/2): 1/2 + 2/4 = 1.
    """
    first, second = member([1, 2], [2, 2], terminated=[1]), member([4, 8], [1, 3], terminated=[1])
    result = compared(first, second, gamma=0.25, by_time=True)
    assert_advantages(result, [1.125 - 6, 2 - 16 / 3], [6 - 1.125, 8 - 1])


def test_steps_that_take_no_time_by_hand():
    """The first decides twice at time 0, the second once, and once more at 1, where the first episode has ended.

    First: 1 + 2 = 3, then 2, each against 5 + 7 = 12 of the second. Second: 12 - 3, and 7 against nothing.
    """
    result = compared(member([1, 2], [0, 1], terminated=[1]), member([5, 7], [1, 0], terminated=[1]))
    assert_advantages(result, [3 - 12, 2 - 12], [12 - 3, 7])


def test_several_steps_at_the_time_of_a_decision_all_count():
    """The second decides at 0, 1, 1, 1 and 2; of it 2 + 4 + 8 + 16 = 30 is left at time 1, where the first decides."""
    first, second = member([0, 1], [1, 2], terminated=[1]), member([1, 2, 4, 8, 16], [1, 0, 0, 1, 1], terminated=[4])
    assert_advantages(compared(first, second), [1 - 31, 1 - 30], [31 - 1, 30 - 1, 28 - 1, 24 - 1, 16 - 0.5])


def test_the_comparison_ends_for_all_where_the_rollout_interrupts_one_by_hand():
    """The first is interrupted at time 2. Of the second step of the other, from 1 to 3, half counts: 6/2 = 3.

    First: 2 and 1, against 2 + 3 = 5 and 3. Second: 5 and 3 against 2 and 1; its third step begins at 3, too late.
    """
    result = compared(member([1, 1], [1, 1]), member([2, 6, 9], [1, 2, 1], terminated=[2]))
    others_at_1_and_not_at_2 = [2 - 5, 1 - 3]
    assert_advantages(result, others_at_1_and_not_at_2, [5 - 2, 3 - 1, 0])
    assert [each.tolist() for each in result.compared] == [[True, True], [True, True, False]]


def test_an_episode_that_ended_before_the_other_is_interrupted_counts_whole():
    """The first ended at 1 with 7, the second is interrupted at 3: at 1 and 2 nothing is left of the first."""
    assert_advantages(compared(member([7], [1], terminated=[0]), member([1, 1, 1], [1, 1, 1])), [4], [-4, 2, 1])


def test_the_episodes_of_a_number_are_compared_with_each_other():
    """Three members; the third has one episode only. First episodes are worth 1, 3, 8, second ones 2, 6."""
    members = member([1, 2], terminated=[0, 1]), member([3, 6], truncated=[0, 1]), member([8], terminated=[0])
    result = compared(*members)
    assert_advantages(result, [1 - 5.5, 2 - 6], [3 - 4.5, 6 - 2], [8 - 2])
    assert result.comparisons == 2


def test_an_episode_without_another_of_its_number_is_not_compared():
    result = compared(member([1, 2, 2], terminated=[0, 2]), member([3], terminated=[0]))
    assert_advantages(result, [-2, 0, 0], [2])
    assert [each.tolist() for each in result.compared] == [[True, False, False], [True]]
    assert result.comparisons == 1


def random_members(seed, clock, count=3, at_once=0.2):
    """Return trajectories of several short episodes; some times are equal, a share of the steps takes none."""
    rng = np.random.default_rng(seed)
    members = []
    for n in rng.integers(5, 30, count):
        elapsed = np.ceil(4 * rng.exponential(size=n)) / 4 * (rng.random(n) >= at_once) if clock else None
        kind = rng.choice(3, n, p=[0.8, 0.1, 0.1])
        members.append(member(rng.normal(size=n), elapsed, np.flatnonzero(kind == 1), np.flatnonzero(kind == 2)))
    return members


CLOCKS = [(False, 0.95, False), (True, 0.95, False), (True, 0.9, True)]
"""Whether there is a clock, gamma, whether that is per time."""


@pytest.mark.parametrize("by_deviation", [False, True])
@pytest.mark.parametrize(("clock", "gamma", "by_time"), CLOCKS)
def test_random_members_against_slow_loops(clock, gamma, by_time, by_deviation):
    checked = too_late = comparisons = 0
    for seed in range(60):
        members = random_members(seed, clock, count=2 + seed % 4)
        discounts = [step_discounts(gamma, t.elapsed, 1.0, "time" if by_time else "decision") for t in members]
        result = group_advantages(members, discounts, by_deviation)
        found, used = (np.concatenate(each) for each in result[:2])
        right, in_time = (np.concatenate(each) for each in slow_group_advantages(members, discounts, by_deviation))
        np.testing.assert_allclose(found, right, rtol=1e-7, atol=1e-9)
        assert not found[~in_time].any()
        assert not used[~in_time].any()
        assert used[in_time & (np.abs(right) > 1e-9)].all()
        checked, too_late = checked + in_time.sum(), too_late + (~in_time).sum()
        comparisons += result.comparisons
    assert checked > 1000
    assert too_late > 100, "the rollout interrupts some members before others"
    assert comparisons > 120, "of several episodes each"


def whole_episodes(seed, count, steps=12):
    """Return members that all decide at the same irregular times, and discounts."""
    rng = np.random.default_rng(seed)
    elapsed = rng.exponential(size=steps)
    members = [member(rng.normal(size=steps), elapsed, terminated=[steps - 1]) for _ in range(count)]
    return members, [0.9**elapsed] * count


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_with_shared_times_an_advantage_is_the_distance_to_the_mean_of_all(count):
    """r - mean of the other G - 1 is G / (G - 1) times r - mean of all G, which adds up to 0 over a group."""
    members, discounts = whole_episodes(count, count)
    advantages = np.stack(group_advantages(members, discounts).advantages)
    sums = np.stack([rewards_to_go(t.rewards, d)[:-1] for t, d in zip(members, discounts, strict=True)])
    np.testing.assert_allclose(advantages, count / (count - 1) * (sums - sums.mean(axis=0)), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(advantages.sum(axis=0), 0.0, atol=1e-9)
    assert np.abs(advantages).min() > 1e-6


@pytest.mark.parametrize(("clock", "gamma", "by_time"), CLOCKS)
def test_permuted_members_have_permuted_advantages(clock, gamma, by_time):
    members, order = random_members(5, clock, count=4), [2, 0, 3, 1]
    plain = compared(*members, gamma=gamma, by_time=by_time)
    permuted = compared(*[members[i] for i in order], gamma=gamma, by_time=by_time)
    for place, i in enumerate(order):
        np.testing.assert_allclose(permuted.advantages[place], plain.advantages[i], rtol=1e-9, atol=1e-12)
        assert np.array_equal(permuted.compared[place], plain.compared[i])
    assert plain[2:] == permuted[2:]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("by_deviation", [False, True])
@pytest.mark.parametrize(("clock", "gamma", "by_time"), CLOCKS)
def test_members_that_are_the_same_have_advantages_of_exactly_0(clock, gamma, by_time, by_deviation, count):
    for seed in range(20):
        one = random_members(seed, clock, count=1, at_once=0.0)[0]
        result = compared(*[one] * count, gamma=gamma, by_time=by_time, by_deviation=by_deviation)
        assert not any(each.any() for each in result.advantages)
        assert not any(each.any() for each in result.compared)
        assert result.identical == result.comparisons >= 1


def test_one_member_that_differs_makes_a_comparison_of_all():
    """In the first episode all are the same; in the second the third earns 1 more at its second step."""
    same, other = [1, 2, 4, 8], [1, 2, 5, 8]
    result = compared(*[member(rewards, terminated=[0, 3]) for rewards in (same, same, other)])
    assert_advantages(result, [0, -0.5, -0.5, 0], [0, -0.5, -0.5, 0], [0, 1, 1, 0])
    assert [each.tolist() for each in result.compared] == [[False, True, True, True]] * 3
    assert (result.comparisons, result.identical) == (2, 1)


def test_by_deviation_each_comparison_is_divided_by_the_deviation_of_its_whole_sums():
    """Sums of the first episodes are 1 and 5, of deviation 2; of the second ones 30 and 10, of deviation 10."""
    members = member([1, 10, 20], terminated=[0, 2]), member([5, 10, 0], terminated=[0, 2])
    assert_advantages(compared(*members), [-4, 20, 20], [4, -20, -20])
    assert_advantages(compared(*members, by_deviation=True), [-2, 2, 2], [2, -2, -2])


def test_by_deviation_equal_sums_of_different_steps_stay_as_they_are():
    result = compared(member([1, 2], terminated=[1]), member([2, 1], terminated=[1]), by_deviation=True)
    assert_advantages(result, [0, 1], [0, -1])
    assert all(each.all() for each in result.compared)


PROBABILITIES, LONGEST = (0.3, 0.7), 3
"""Of the two values of a step's shared luck, and the most steps of an episode of the enumerable process."""


def enumerable_step(state, action, luck):
    """Return reward, next state, duration and whether the episode ends, of two states and two actions."""
    reward = ((1.0, -0.5), (0.3, 2.0))[state][action] + 0.8 * luck * (state + 1) - 0.6 * luck * action
    return reward, (state + action + luck) % 2, 1.0 + action + 0.5 * luck, bool(state and action and luck)


def enumerated(policy, lucks):
    """Return (probability, rewards, durations, gradients of log pi) of all ways to act with the same luck.

    The policy is a softmax of float64[2, 2], preferences of the two actions in each state.
    """
    ways = [(1.0, 0, [], [], [], False)]
    for luck in lucks:
        longer = []
        for way in ways:
            probability, state, rewards, durations, gradients, ended = way
            if ended:
                longer.append(way)
                continue
            chances = np.exp(policy[state]) / np.exp(policy[state]).sum()
            for action, chance in enumerate(chances):
                reward, following, duration, ends = enumerable_step(state, action, luck)
                gradient = np.zeros((2, 2))
                gradient[state] = np.eye(2)[action] - chances
                rest = [*rewards, reward], [*durations, duration], [*gradients, gradient], ends
                longer.append((probability * chance, following, *rest))
        ways = longer
    return [(way[0], *way[2:5]) for way in ways]


def lucks_of_an_episode():
    """Return (probability, luck of each step) of every shared course of luck."""
    return [(np.prod([PROBABILITIES[luck] for luck in lucks]), lucks) for lucks in product((0, 1), repeat=LONGEST)]


def exact_value(policy, discounts_of):
    """Return the expected discounted sum of an episode's rewards."""
    total = 0.0
    for chance, lucks in lucks_of_an_episode():
        for probability, rewards, durations, _ in enumerated(policy, lucks):
            total += chance * probability * (weights_of(discounts_of(durations)) @ rewards)
    return total


def exact_gradient(policy, discounts_of):
    """Return central differences of the exact value."""
    gradient = np.zeros((2, 2))
    for place in np.ndindex(2, 2):
        shift = np.zeros((2, 2))
        shift[place] = 1e-6
        above, below = exact_value(policy + shift, discounts_of), exact_value(policy - shift, discounts_of)
        gradient[place] = (above - below) / 2e-6
    return gradient


def weights_of(discounts):
    """Return the weight of each step in the discounted sum."""
    return np.cumprod([1.0, *discounts[:-1]])


def expected_gradient(policy, clock, discounts_of):
    """Return the expectation of the sum of A grad log pi, of the mean of both members, over all that can happen."""
    total = np.zeros((2, 2))
    for chance, lucks in lucks_of_an_episode():
        ways = enumerated(policy, lucks)
        for group in product(ways, repeat=2):
            members = [member(r, d if clock else None, terminated=[len(r) - 1]) for _, r, d, _ in group]
            discounts = [np.array(discounts_of(d)) for _, _, d, _ in group]
            advantages = group_advantages(members, discounts).advantages
            probability = chance * group[0][0] * group[1][0]
            for (*_, gradients), advantage, each in zip(group, advantages, discounts, strict=True):
                total += 0.5 * probability * np.tensordot(weights_of(each) * advantage, gradients, axes=1)
    return total


@pytest.mark.parametrize(("clock", "gamma"), [(False, 1.0), (False, 0.8), (True, 1.0), (True, 0.8)])
def test_the_expected_gradient_is_the_exact_one(clock, gamma):
    """Both actions of two members and the luck that they share are enumerated; episodes take 1 to 3 steps.

    With a clock an action decides when the next decision comes, so that members decide at different times.
    """

    def discounts_of(durations):
        return [gamma ** (duration if clock else 1.0) for duration in durations]

    policy = np.array([[0.4, -0.3], [-0.2, 0.5]])
    exact = exact_gradient(policy, discounts_of)
    # Rewards are float32 in a trajectory.
    np.testing.assert_allclose(expected_gradient(policy, clock, discounts_of), exact, rtol=1e-6, atol=1e-7)
    assert np.abs(exact).min() > 0.01


GROUP, INSTANCES, STEPS = 4, 48, 200


def noise_and_variance(trajectories, model):
    """Return the noise of the gradient that groups give, and the mean square of their advantages."""
    gradients, squares = [], []
    for begin in range(0, INSTANCES, GROUP):
        members = trajectories[begin : begin + GROUP]
        discounts = [step_discounts(0.9, t.elapsed, 1.0, "time") for t in members]
        advantages = torch.from_numpy(np.concatenate(group_advantages(members, discounts).advantages))
        by_tensor = torch.autograd.grad((log_probs(members, model) * advantages).mean(), model.part_parameters("actor"))
        gradients.append(torch.cat([each.ravel() for each in by_tensor]))
        squares.append(float(advantages.square().mean()))
    return gradient_noise(gradients).noise, np.mean(squares)


def log_probs(members, model):
    """Return the log-probabilities of all actions of some trajectories, to be differentiated."""
    columns = ("features", "masks", "actions")
    features, masks, actions = (torch.from_numpy(np.concatenate([getattr(t, c) for t in members])) for c in columns)
    observations = torch.from_numpy(np.concatenate([t.observations[:-1] for t in members]))
    outputs = model.logits(model.normalise(observations), features)
    return model.distribution(outputs, model.log_std, masks, actions)[0]


@pytest.mark.slow
def test_common_random_numbers_take_out_most_of_the_noise():
    """Of a queueing network of two stations; the same advantages of members whose streams differ have 20 times more."""
    simulator = CrissCross(max_steps=2000)
    model, loop, found = new_model(simulator, "relu"), None, {}
    for size in (GROUP, 1):
        plan = RolloutPlan(3, INSTANCES, STEPS, group_size=size)
        collector = FixedLengthCollector(simulator, model.spec, plan)
        loop = collector.loop = loop or collector.loop
        rollout = collector.collect(actor_weights(model), 0, INSTANCES)[0]
        found[size] = noise_and_variance([each.trajectory for each in rollout], model)
    (noise, variance), (independent_noise, independent_variance) = found[GROUP], found[1]
    assert 0.0 < noise < 0.25 * independent_noise
    assert 0.0 < variance < 0.25 * independent_variance


@pytest.mark.parametrize("count", [4, 6, 7, 8])
def test_identical_members_of_larger_groups_have_advantages_of_exactly_0(count):
    """A mean of equal floats need not be that float."""
    for seed in range(20):
        one = random_members(seed, True, count=1)[0]
        result = compared(*[one] * count, gamma=0.9, by_time=True)
        assert not any(each.any() for each in result.advantages)
        assert result.identical == result.comparisons


def test_a_step_that_the_end_cuts_and_is_under_way_by_hand():
    """The second's one step lasts from 0 to 10 and earns 10; the first is interrupted at 5 and decides at 0 and 4."""
    result = compared(member([0, 0], [4, 1]), member([10], [10], terminated=[0]))
    assert_advantages(result, [-5, -1], [5])


def test_identical_members_that_decide_twice_at_once():
    one = member([1, 2, 4], [0, 1, 1], terminated=[2])
    assert_advantages(compared(one, one), [0, 0, 0], [0, 0, 0])
