"""Signs that a run does not learn: on given records, and on an actor whose figures are known."""

import numpy as np
import pytest
import torch
from helpers.toy_runs import toy_model
from scipy.signal import lfilter

from longstride.learning.policy_health import policy_health, some_rows
from longstride.training.learning_advice import ENTROPY_TARGET, RANKS, Advice, signs

HEALTHY = {
    **{"learning_rate": 1e-3, "approx_kl": 0.01, "explained_variance": 0.5},
    **{"dead_units": 0.1, "observation_effect": 1.0, "choices_changed": 0.4, "entropy": 1.0},
}


def records(count=20, **changes):
    """Return healthy records, the last five with some figures changed."""
    return [{**HEALTHY, **(changes if i >= count - 5 else {})} for i in range(count)]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"dead_units": 0.7}, "dead units"),
        ({"choices_changed": 0.0}, "observations ignored"),
        ({"choices_changed": None, "observation_effect": 0.01}, "observations ignored"),
        ({"choices_changed": 0.0, "entropy": 0.02}, "collapse"),
        ({"entropy": 0.002}, "collapse"),
        ({"approx_kl": 1e-7}, "policy stands still"),
        ({"explained_variance": -0.2}, "critic"),
    ],
)
def test_each_sign_is_named_with_a_remedy(changes, name):
    sign, *others = signs(records(**changes))
    assert sign.name == name
    assert {other.name for other in others} <= {"observations ignored"}
    assert sign.sentence.endswith(".") and sign.remedy in sign.sentence


def test_nothing_is_said_of_a_healthy_run_nor_of_one_good_record_in_five():
    assert signs(records()) == []
    bad = records(dead_units=0.9, approx_kl=0.0, explained_variance=0.0, choices_changed=0.0)
    assert [sign.name for sign in signs(bad)] == [*RANKS[2:]]
    assert signs([*bad[:-1], HEALTHY]) == []


def test_nothing_is_said_at_the_beginning_nor_where_the_learning_rate_has_fallen():
    bad = {"dead_units": 0.9, "approx_kl": 0.0}
    assert signs(records(9, **bad)) == []
    assert signs(records(**bad, learning_rate=1e-4)) == []
    assert signs(records(**bad, learning_rate=1e-2, learning_rate_factor=10.0))


def collapsing(count, since, **changes):
    """Return records of a policy that takes one action from an iteration on."""
    fixed = {"entropy": 0.0005, "choices_changed": 0.0, "approx_kl": 1e-9, "dead_units": 0.9, **changes}
    return [{**HEALTHY, "iteration": i, **(fixed if i >= since else {})} for i in range(1, count + 1)]


def test_a_policy_that_takes_one_action_is_told_since_when_and_named_the_entropy_target():
    sign = signs(collapsing(30, 9))[0]
    assert sign.measured == (
        "the policy takes one action whatever it observes, since iteration 9 (entropy 0.0005, at most 1 before)"
    )
    assert ENTROPY_TARGET in sign.remedy
    late = [{**r, "learning_rate": 1e-3 if r["iteration"] < 80 else 1e-4} for r in collapsing(100, 90)]
    assert signs(late) == [], "the run has converged"
    assert signs(collapsing(30, 9, entropy=0.5))[0].name == "dead units"


def test_one_diagnosis_at_a_time_no_contradiction_and_the_last_one_again_at_the_end():
    advice, said = Advice(), []
    for record in collapsing(40, 14):
        said += advice.on(record)
    (line,) = said
    assert line.startswith("The policy takes one action whatever it observes, since iteration 14 ")
    assert advice.at_the_end() == [f"Diagnosis of the run: {line}"]
    fast, slow = {"dead_units": 0.9}, {"approx_kl": 1e-7}
    advice, said = Advice(), []
    for i in range(60):
        said += advice.on({**HEALTHY, **(fast if 10 <= i < 30 else slow if i >= 40 else {})})
    assert len(said) == 1 and "lower LEARNING_RATE_ACTOR" in said[0], "not raised five iterations later"
    assert advice.at_the_end() == [], "the sign is gone"
    advice, said = Advice(), []
    for i in range(60):
        said += advice.on(
            {**HEALTHY, "iteration": i, **(slow if i >= 10 else {}), **({"entropy": 0.001} if i >= 30 else {})}
        )
    assert "hardly changes" in said[0] and ENTROPY_TARGET in said[1]
    assert [line.endswith(" This takes the place of the advice before.") for line in said] == [False, True]
    ending = [{**HEALTHY, **fast, "learning_rate": 1e-3 * (1 - i / 60)} for i in range(60)]
    advice = Advice()
    assert sum(len(advice.on(record)) for record in ending) == 1
    assert len(advice.at_the_end()) == 1, "although the learning rate has fallen"


@pytest.mark.parametrize("interrupted", [30, 52])
def test_a_resumed_run_gives_the_same_diagnosis(interrupted):
    falling = [{**r, "learning_rate": 1e-3 * (1 - i / 60)} for i, r in enumerate(collapsing(60, 9))]
    advice, resumed = Advice(), Advice()
    said = [line for record in falling for line in advice.on(record)]
    resumed.recall(falling[:interrupted])
    assert [line for record in falling[interrupted:] for line in resumed.on(record)] == [], "it was said before"
    assert resumed.at_the_end() == advice.at_the_end() == [f"Diagnosis of the run: {said[0]}"]
    fresh = Advice()
    fresh.recall([])
    assert [line for record in falling for line in fresh.on(record)] == said


@pytest.mark.parametrize(("target", "named"), [(0.4, ["collapse"]), (0.0, [])])
def test_a_policy_with_features_of_actions_collapses_too_unless_it_starts_from_a_rule(target, named):
    """What it would choose for other observations is not known there."""
    few = {"choices_changed": None, "entropy": 0.002, "approx_kl": 0.01, "dead_units": 0.1, "entropy_target": target}
    begun = [{**record, "entropy_target": target} for record in collapsing(30, 9, **few)]
    assert [sign.name for sign in signs(begun)] == named


def run_of(rewards):
    return [{**HEALTHY, "mean_reward": reward} for reward in rewards]


def test_a_reward_that_falls_far_and_stays_there_is_named_even_at_the_end():
    noise = np.random.default_rng(0).normal(size=400)
    rising = -5.0 / (1.0 + np.arange(300) / 30) + 0.02 * noise[:300]
    fallen = np.concatenate([rising, -59.0 + noise[:5]])
    (sign,) = signs(run_of(fallen))
    assert sign.name == "fallen"
    assert "has been -58.4 or worse since" in sign.measured
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
    lacking = records(explained_variance=None, observation_effect=None, choices_changed=None, entropy=None)
    assert signs(lacking) == []
    assert signs([{"iteration": i} for i in range(20)]) == []
    assert signs(records(1000, dead_units=0.9))
    assert signs(records(1000, dead_units=0.9, learning_rate=1e-4)) == []


def everything(model, rows):
    return np.ones((len(rows), model.spec.action_space.outputs), np.bool_)


def test_the_figures_of_an_actor():
    model = toy_model("shop")  # its actor has action features
    rows = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    health = policy_health(model, rows, everything(model, rows))
    assert (health.observation_effect, health.choices_changed) == (None, None)
    choices = toy_model("choices")
    rows = np.random.default_rng(0).normal(size=(64, choices.spec.observation_size)).astype(np.float32)
    masks = everything(choices, rows)
    before = policy_health(choices, rows, masks)
    (weight, _), *_, (head, _) = choices.layers("actor")
    with torch.no_grad():
        weight[:, :8] = 0.0
    assert policy_health(choices, rows, masks).dead_units >= before.dead_units + 0.2  # 8 of 32 units
    with torch.no_grad():
        head.zero_()
    after = policy_health(choices, rows, masks)
    assert after.observation_effect == 0.0 < before.observation_effect
    assert after.choices_changed == 0.0 < before.choices_changed
    tracker = toy_model("tracker")
    rows = np.random.default_rng(0).normal(size=(64, tracker.spec.observation_size)).astype(np.float32)
    assert policy_health(tracker, rows, np.ones((64, 0), np.bool_)).choices_changed is None, "its actions are numbers"


def test_choices_change_where_the_likeliest_allowed_action_does():
    """Logits that hardly differ may change every choice, and those that differ much none; nor does a mask alone."""
    model = toy_model("bandit")
    rows, masks = np.zeros((4, 5), np.float32), np.ones((4, 4), np.bool_)
    rows[:2, 0] = 1.0
    (weight, bias), *others, (head, last) = model.layers("actor")
    with torch.no_grad():
        for tensor in (weight, bias, head, last, *(t for pair in others for t in pair)):
            tensor.zero_()
        model.tensors["observation_mean"].zero_()
        model.tensors["observation_scale"].fill_(1.0)
        weight[0, 0] = 1.0
        others[0][0][0, 0] = 1.0
        head[0, 1] = 1e-3
    assert policy_health(model, rows, masks).choices_changed == 1.0
    masks[:, 1] = False
    assert policy_health(model, rows, masks).choices_changed == 0.0
    masks[:, 1] = True
    with torch.no_grad():
        last[2] = 100.0
        head[0, 1] = 50.0
    assert policy_health(model, rows, masks).choices_changed == 0.0
    masks[:, 2] = [True, False, True, False]
    assert policy_health(model, rows, masks).choices_changed == 0.5


def test_the_effect_is_the_spread_of_the_centred_logits():
    model = toy_model("bandit")
    rows = np.array([[1.0], [3.0]], np.float32)
    with torch.no_grad():
        logits = model.logits(model.normalise(torch.from_numpy(rows)))
    centred = logits - logits.mean(dim=1, keepdim=True)
    expected = centred.numpy().var(axis=0).mean() ** 0.5
    assert policy_health(model, rows, everything(model, rows)).observation_effect == pytest.approx(expected, rel=1e-5)


def test_about_a_thousand_rows_are_enough():
    parts = [np.arange(5000.0)[:, None], np.arange(100.0)[:, None]]
    rows = some_rows(parts)
    assert 1000 < len(rows) < 1400
    assert rows[0] == 0.0
    assert len(some_rows([np.zeros((3, 2))])) == 3
