"""Signs that a run does not learn: on given records, and on an actor whose figures are known."""

import numpy as np
import pytest
import torch
from helpers.toy_runs import toy_model
from scipy.signal import lfilter

from longstride.learning.policy_health import policy_health, some_rows
from longstride.training.learning_advice import signs

HEALTHY = {
    **{"learning_rate": 1e-3, "approx_kl": 0.01, "explained_variance": 0.5},
    **{"dead_units": 0.1, "observation_effect": 1.0},
}


def records(count=20, **changes):
    """Return healthy records, the last five with some figures changed."""
    return [{**HEALTHY, **(changes if i >= count - 5 else {})} for i in range(count)]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"dead_units": 0.7}, "dead units"),
        ({"observation_effect": 0.01}, "observations ignored"),
        ({"approx_kl": 1e-7}, "policy stands still"),
        ({"explained_variance": -0.2}, "critic"),
    ],
)
def test_each_sign_is_named_with_a_remedy(changes, name):
    (sign,) = signs(records(**changes))
    assert sign.name == name
    assert sign.sentence.endswith(".") and sign.remedy in sign.sentence


def test_nothing_is_said_of_a_healthy_run_nor_of_one_good_record_in_five():
    assert signs(records()) == []
    bad = records(dead_units=0.9, approx_kl=0.0, explained_variance=0.0, observation_effect=0.0)
    assert len(signs(bad)) == 4
    assert signs([*bad[:-1], HEALTHY]) == []


def test_nothing_is_said_at_the_beginning_nor_where_the_learning_rate_has_fallen():
    bad = {"dead_units": 0.9, "approx_kl": 0.0}
    assert signs(records(9, **bad)) == []
    assert signs(records(**bad, learning_rate=1e-4)) == []
    assert signs(records(**bad, learning_rate=1e-2, learning_rate_factor=10.0))


def run_of(rewards):
    return [{**HEALTHY, "mean_reward": reward} for reward in rewards]


def test_a_reward_that_falls_far_and_stays_there_is_named_even_at_the_end():
    noise = np.random.default_rng(0).normal(size=400)
    rising = -5.0 / (1.0 + np.arange(300) / 30) + 0.02 * noise[:300]
    fallen = np.concatenate([rising, -59.0 + noise[:5]])
    (sign,) = signs(run_of(fallen))
    assert sign.name == "fallen" and "has been -58.4 or worse since" in sign.measured
    assert signs([{**record, "learning_rate": 1e-6 if i > 290 else 1e-3} for i, record in enumerate(run_of(fallen))])
    assert signs(run_of([*fallen[:-1], rising[-1]])) == []


def test_rewards_that_rise_settle_scatter_or_begin_well_are_no_fall():
    rng = np.random.default_rng(1)
    noise, steps = rng.normal(size=200), np.arange(200)
    healthy = {
        "rise": -1.0 / (1 + steps),
        "scatter around 0": 0.01 * noise,
        "scatter": -0.7 + 0.3 * noise,
        "empty queues first": np.where(steps < 10, -0.5, -6.0) + 0.1 * noise,
        "somewhat worse": -4.8 - 1.5 * (steps > 150) + 0.1 * noise,
        "full queues now and then": -10.0 + lfilter([1.0], [1.0, -0.95], noise),
    }
    for name, rewards in healthy.items():
        for count in range(10, 201):
            assert signs(run_of(rewards[:count])) == [], (name, count)


def test_a_figure_that_is_missing_shows_nothing():
    lacking = records(explained_variance=None, observation_effect=None)
    assert signs(lacking) == []
    assert signs([{"iteration": i} for i in range(20)]) == []
    assert signs(records(1000, dead_units=0.9))
    assert signs(records(1000, dead_units=0.9, learning_rate=1e-4)) == []


def test_the_figures_of_an_actor():
    model = toy_model("shop")  # its actor has action features
    rows = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    assert policy_health(model, rows).observation_effect is None
    bandit = toy_model("choices")
    rows = np.random.default_rng(0).normal(size=(64, bandit.spec.observation_size)).astype(np.float32)
    before = policy_health(bandit, rows)
    (weight, _), *_, (head, _) = bandit.layers("actor")
    with torch.no_grad():
        weight[:, :8] = 0.0
    assert policy_health(bandit, rows).dead_units >= before.dead_units + 0.2  # 8 of 32 units
    with torch.no_grad():
        head.zero_()
    assert policy_health(bandit, rows).observation_effect == 0.0 < before.observation_effect


def test_the_effect_is_the_spread_of_the_centred_logits():
    model = toy_model("bandit")
    rows = np.array([[1.0], [3.0]], np.float32)
    with torch.no_grad():
        logits = model.logits(model.normalise(torch.from_numpy(rows)))
    centred = logits - logits.mean(dim=1, keepdim=True)
    expected = centred.numpy().var(axis=0).mean() ** 0.5
    assert policy_health(model, rows).observation_effect == pytest.approx(expected, rel=1e-5)


def test_about_a_thousand_rows_are_enough():
    parts = [np.arange(5000.0)[:, None], np.arange(100.0)[:, None]]
    rows = some_rows(parts)
    assert 1000 < len(rows) < 1400
    assert rows[0] == 0.0
    assert len(some_rows([np.zeros((3, 2))])) == 3
