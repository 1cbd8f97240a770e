"""How long episodes last: rewards that fall with age keep them short, others let them grow."""

import numpy as np
import pytest

from longstride.rollout.exploring.reach import Reach, falling

AGES = np.linspace(0.01, 0.99, 200)


@pytest.mark.parametrize(
    ("rewards", "answer"),
    [
        (-AGES, True),  # a queue that grows
        (1_000.0 - 50.0 * AGES, True),
        (-np.sqrt(AGES), True),  # a queue without drift
        (-np.minimum(AGES, 0.1), False),  # one that has filled up
        (AGES, False),
        (np.zeros(200), False),
    ],
)
def test_a_steady_fall_is_told_from_one_that_has_ended(rewards, answer):
    assert falling(AGES, rewards) is answer


def test_noise_alone_is_no_fall():
    rng = np.random.default_rng(0)
    answers = [falling(AGES, rng.normal(size=200)) for _ in range(200)]
    assert np.mean(answers) < 0.15


def test_too_few_samples_say_nothing():
    assert falling(AGES[:30], -AGES[:30]) is None


def test_episodes_grow_to_the_whole_while_rewards_are_steady():
    reach, before = Reach(5_000), []
    for _ in range(20):
        before.append(reach.now)
        reach.learn((age * reach.now, 1.0) for age in AGES)
    assert before[:3] == [500, 750, 1125]
    assert reach.now == 5_000
    assert reach.take_line() is None


def grown():
    """Return a reach whose episodes have their whole length."""
    reach = Reach(5_000)
    while reach.now < reach.whole:
        reach.learn((age * reach.now, 1.0) for age in AGES)
    return reach


@pytest.mark.parametrize(
    ("late", "runs_away"), [(0.0, False), (-1.5, False), (-40.0, True), (40.0, False), (None, False)]
)
def test_episodes_that_play_on_run_away_if_they_are_far_below_all_others(late, runs_away):
    rng, reach = np.random.default_rng(0), grown()
    others = [(age * 5_000, reward) for age, reward in zip(AGES, rng.normal(size=200), strict=True)]
    old = [] if late is None else [(9_000.0 + k, late + rng.normal()) for k in range(8)]
    reach.learn([*others, *old])
    assert reach.runs_away is runs_away
    reach.learn(others)
    assert not reach.runs_away and reach.now == 5_000


def test_episodes_become_longer_slowly_where_rewards_fall_and_a_line_says_so_once():
    reach, lines = Reach(5_000), []
    for _ in range(64):
        reach.learn((age * reach.now, -age) for age in AGES)
        lines.append(reach.take_line())
    said = [line for line in lines if line]
    assert reach.now == 225  # shorter after 3 rollouts, half as long again after 30 more, and after 60
    assert len(said) == 1
    assert lines[32] == said[0]
    assert "does not keep up" in said[0]


def test_a_restored_reach_goes_on():
    reach, other = Reach(5_000), Reach(5_000)
    for _ in range(3):
        reach.learn((age * reach.now, 1.0) for age in AGES[::7])
    other.restore(reach.arrays())
    for each in (reach, other):
        each.learn((age * each.now, 1.0) for age in AGES[::3])
    assert reach.now == other.now
    assert np.array_equal(reach.arrays()["reach_samples"], other.arrays()["reach_samples"])


def test_first_episodes_in_which_rewards_fall_become_shorter_until_three_rollouts_are_steady():
    reach, now = Reach(5_000), []
    for falls in (True, True, True, True, False, False, True, False, False, False):
        reach.learn((age * reach.now, -age if falls else 1.0) for age in AGES)
        now.append(reach.now)
        reach.restore(reach.arrays())
        reach._samples = reach._samples[:0]  # what came before would be judged with it
    assert now == [500, 500, 100, 100, 100, 100, 100, 100, 100, 150]


def test_short_episodes_that_end_after_a_rollout_are_judged_by_their_own_length():
    falling_ones, reach = [(age * 256, -age) for age in AGES], Reach(5_000)
    reach.now = 100
    for _ in range(3):
        reach.learn(falling_ones)
        assert reach.now == 100
    reach = Reach(5_000)
    reach.now = 100
    for expected in (100, 100, int(0.99 * 256)):
        reach.learn((age * 256, max(-age, -0.1)) for age in AGES)
        assert reach.now == expected
