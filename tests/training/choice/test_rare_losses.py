"""Rare losses of training, and policies whose few episodes have missed them."""

import re

import numpy as np
import pytest

pytest.importorskip("pydantic")
pytest.importorskip("scipy")

from longstride import Discrete, Hyperparameters, Simulator, evaluate, train
from longstride.training.choice.rare_losses import RareLosses, vanishes_with_a_loss


def seen(rollouts):
    losses = RareLosses()
    for rewards in rollouts:
        losses.include(rewards)
    return losses.largest


def test_a_loss_far_beyond_the_usual_ones_of_its_rollout_is_rare():
    rng = np.random.default_rng(0)
    usual = [rng.normal(-600.0, 20.0, 24) for _ in range(100)]
    assert seen(usual) == 0.0
    assert seen([*usual, [*usual[0][1:], -10_600.0]]) == pytest.approx(10_000.0, abs=20)
    assert seen([rng.exponential(1.0, 24) * -50 for _ in range(200)]) == 0.0, "nor are long tails"
    assert seen([np.full(24, -5.0)]) == 0.0
    assert seen([[-1.0, -1.0, -1e6]]) == 0.0, "too few to tell"
    assert seen([[-1.0, np.inf, -np.inf, -np.inf, np.nan]]) == 0.0, "the update names the step"
    assert seen([rng.normal(-(2.0**i), 0.1 * 2.0**i, 24) for i in range(20)]) == 0.0, "a policy that becomes worse"
    spreads = [1_000.0] * 10 + [1.0] * 990
    assert seen([rng.normal(0.0, spread, 24) for spread in spreads]) == 0.0, "a policy that was bad at first"


def test_the_state_goes_on():
    losses, again, rollout = RareLosses(), RareLosses(), [*np.arange(23.0), -700.0]
    losses.include(rollout)
    again.restore(losses.state())
    for each in (losses, again):
        each.include([*np.arange(23.0), -900.0])
    assert again.largest == losses.largest > 900.0
    again.restore([])
    assert again.state() == RareLosses().state()


def test_a_gain_without_spread_that_half_a_loss_would_end_counts_for_nothing():
    never, services = [0.0] * 3, [-600.0] * 3
    assert vanishes_with_a_loss(never, services, 10_000.0)
    assert not vanishes_with_a_loss(never, services, 0.0), "nothing is rare"
    assert not vanishes_with_a_loss([0.0] * 100, [-600.0] * 100, 10_000.0), "a hundred episodes would have shown it"
    assert not vanishes_with_a_loss([0.0, -10_000.0, 0.0], services, 10_000.0), "it has happened"
    assert not vanishes_with_a_loss(never, [-6_000.0] * 3, 10_000.0)
    assert not vanishes_with_a_loss([-11.0] * 3, [-10.0] * 3, 100.0), "it is better by another metric"
    assert not vanishes_with_a_loss([0.0] * 9, [0.0] * 3 + [-9e9] * 9, 9.0), "only common episodes count"


class Burst(Simulator):
    """Servicing costs 5 and ends the wear; without it a burst costs 10,000, up to once in 5,000 periods."""

    observation_size, action_space, max_steps = 1, Discrete(2), 20_000
    state_dtype = np.dtype([("age", np.int64)])

    def reset(state, parameters, rng):
        state.age = 0

    def observe(state, parameters, observation):
        observation[0] = state.age

    def step(state, parameters, action, rng):
        if action == 1:
            state.age = 0
            return -5.0, False
        chance = 2e-4 * min(state.age, 20) / 20.0
        state.age = min(state.age + 1, 20)
        return (-1e4 if rng.random() < chance else 0.0), False


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"total_steps": 100_000}, {"total_steps": 200_000}])
def test_a_run_does_not_end_with_the_untrained_policy_that_met_no_burst(tmp_path, options, capsys):
    """Its three episodes cost nothing, as it never services; in the long run that costs twice as much."""
    run = train(Burst(), Hyperparameters(seed=2, **options), run_directory=tmp_path / "run")
    steps = re.search(r"further episodes of at most ([\d,]+) steps", capsys.readouterr().out)[1]
    assert int(steps.replace(",", "")) >= 2_000, "others are cut after 1,000"
    row = evaluate(run, episodes=100, policies=[], quiet=True).rows["trained"]
    assert row["metrics"]["return"]["mean"] > -30_000.0, "the untrained one has -42,000"
