"""Rare losses of training, and policies whose few episodes have missed them."""

import numpy as np
import pytest

pytest.importorskip("scipy")

from longstride import Discrete, Hyperparameters, Simulator, evaluate, train
from longstride.training.choice.rare_losses import RareLosses, is_luck


def seen(rollouts):
    losses = RareLosses()
    for rewards in rollouts:
        losses.include(rewards)
    return losses


def test_a_loss_far_beyond_the_usual_ones_is_rare():
    rng = np.random.default_rng(0)
    usual = [rng.normal(-600.0, 20.0, 24) for _ in range(100)]
    assert seen(usual).largest == 0.0
    assert seen([*usual, [*usual[0][1:], -10_600.0]]).largest == pytest.approx(10_000.0, abs=20)
    assert seen([rng.exponential(1.0, 24) * -50 for _ in range(200)]).largest == 0.0, "nor are long tails"
    assert seen([np.full(24, -5.0)]).largest == 0.0
    assert seen([[-1.0, -1e6]]).largest == 0.0, "too few to tell"
    falling = [np.full(24, -(2.0**i)) for i in range(20)]
    assert seen(falling).largest == 0.0, "a policy that becomes worse meets nothing rare"


def test_the_state_goes_on():
    losses, again = seen([[*np.zeros(23), -7.0]]), RareLosses()
    again.restore(losses.state())
    assert again.largest == losses.largest == 7.0
    again.restore([])
    assert again.largest == 0.0


def test_luck_is_a_gain_without_spread_that_half_a_loss_would_end():
    never, services = [0.0] * 3, [-600.0] * 3
    assert is_luck(never, services, 10_000.0)
    assert not is_luck(never, services, 0.0), "nothing is rare"
    assert not is_luck([0.0] * 100, [-600.0] * 100, 10_000.0), "a hundred episodes would have shown it"
    assert not is_luck([0.0, -10_000.0, 0.0], services, 10_000.0), "it has happened"
    assert not is_luck(never, [-6_000.0] * 3, 10_000.0)


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
def test_a_run_does_not_end_with_the_untrained_policy_that_met_no_burst(tmp_path, options):
    """Its three episodes cost nothing, as it never services; in the long run that costs twice as much."""
    run = train(Burst(), Hyperparameters(seed=2, **options), run_directory=tmp_path / "run", quiet=True)
    row = evaluate(run, episodes=100, policies=[], quiet=True).rows["trained"]
    assert row["metrics"]["return"]["mean"] > -30_000.0, "the untrained one has -42,000"
