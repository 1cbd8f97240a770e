"""Normalisation of rewards and observations: Gymnasium's wrapper, slow references, and what it must not change."""

import numpy as np
import pytest
import torch
from helpers.toy_runs import (
    actor_weights,
    discounts_of,
    rollout_batch,
    toy_coefficients,
    toy_episodes,
    toy_model,
    toy_updater,
)

from longstride.learning.normalization import ObservationScales, RewardScale, rescale_values
from longstride.policies.families.families import FAMILIES
from longstride.policies.families.mlp.family import MLP
from longstride.policies.networks import ActorCritic, initialise
from longstride.policies.spec import PolicySpec
from longstride.rollout.trajectory import allocate
from longstride.simulators.spaces import Discrete

GAMMA = 0.97


def trajectory(rewards, terminated=(), truncated=()):
    """Return decisions with these rewards and with ends after these rows."""
    t = allocate(PolicySpec(1, Discrete(2), (), (), "tanh", MLP), len(rewards))
    t.rewards[:] = rewards
    for ends, rows in ((t.terminated, terminated), (t.truncated, truncated)):
        ends[:] = False
        ends[list(rows)] = True
    return t


def learned(scale, *trajectories):
    scale.learn(trajectories, [np.full(t.steps, GAMMA) for t in trajectories])
    return scale.divisor.item()


def slow_std(episodes):
    """Return the standard deviation of the discounted sums of rewards so far, each from its definition."""
    sums = [sum(GAMMA ** (t - k) * r[k] for k in range(t + 1)) for r in episodes for t in range(len(r))]
    return float(np.std(sums))


REWARDS = np.random.default_rng(0).normal(3.0, 2.0, 300).astype(np.float32)


def paying(terminated=(), truncated=()):
    """Return an environment that pays REWARDS one after another and ends after these of them."""
    gymnasium = pytest.importorskip("gymnasium")

    class Pays(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Discrete(2)
        count = -1

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            self.count += 1
            return 0, float(REWARDS[self.count]), self.count in terminated, self.count in truncated, {}

    return Pays()


def test_it_divides_by_what_gymnasium_divides_by():
    """Within an episode, over three rollouts: after the last decision of each both know the same rewards."""
    wrapped = pytest.importorskip("gymnasium").wrappers.NormalizeReward(paying(), gamma=GAMMA)
    wrapped.reset()
    theirs = [wrapped.step(0)[1] for _ in REWARDS]
    scale = RewardScale(1)
    for begin in (0, 100, 200):
        t = trajectory(REWARDS[begin : begin + 100])
        learned(scale, t)
        assert scale.divide([t])[0].rewards[-1] == pytest.approx(theirs[begin + 99], rel=1e-4)


def test_it_divides_by_what_stable_baselines3_divides_by():
    """Over both kinds of end, which Stable-Baselines3 treats alike."""
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    ends = {"terminated": [40, 199], "truncated": [90, 150, 299]}
    wrapped = vec_env.VecNormalize(
        vec_env.DummyVecEnv([lambda: paying(**ends)]), norm_obs=False, gamma=GAMMA, clip_reward=np.inf
    )
    wrapped.reset()
    theirs = [wrapped.step(np.zeros(1, int))[1][0] for _ in REWARDS]
    scale = RewardScale(1)
    for begin in (0, 100, 200):
        t = trajectory(
            REWARDS[begin : begin + 100],
            *([row - begin for row in rows if begin <= row < begin + 100] for rows in ends.values()),
        )
        learned(scale, t)
        assert scale.divide([t])[0].rewards[-1] == pytest.approx(theirs[begin + 99], rel=1e-4)


def test_episodes_of_two_copies_over_the_ends_of_rollouts():
    """An episode counts from its beginning, also one that began in the rollout before; both kinds of end end it."""
    a, b = np.random.default_rng(1).normal(1.0, 1.0, (2, 30)).astype(np.float32)
    scale = RewardScale(2)
    learned(scale, trajectory(a[:20], terminated=[6]), trajectory(b[:20], truncated=[11, 19]))
    assert learned(scale, trajectory(a[20:]), trajectory(b[20:])) == pytest.approx(
        slow_std([a[:7], a[7:], b[:12], b[12:20], b[20:]]), rel=1e-6
    )


def test_discounts_by_time_are_those_of_the_update():
    """Discounts 1/2, 1, 1/4: the sums of 4, 2, 8 are 4, 2 + 2, 8 + 4, whose deviation is sqrt(128 / 9)."""
    scale = RewardScale(1)
    scale.learn([trajectory([4, 2, 8], terminated=[2])], [np.array([0.5, 1.0, 0.25])])
    assert scale.divisor.item() == pytest.approx(np.sqrt(128 / 9))
    assert scale.carried.tolist() == [0.0]


def test_rewards_without_spread_are_left_alone():
    for reward in (0.0, 0.1):
        t = trajectory([reward] * 50, terminated=range(50))
        assert learned(RewardScale(1), t) == 1.0


def test_what_is_restored_goes_on_as_if_nothing_had_happened():
    first, second = np.random.default_rng(2).normal(1.0, 1.0, (2, 40)).astype(np.float32)
    whole, half, restored = RewardScale(1), RewardScale(1), RewardScale(1)
    for scale in (whole, half):
        learned(scale, trajectory(first))
    restored.restore({name: array.copy() for name, array in half.arrays().items()}, episodes_continue=True)
    assert learned(restored, trajectory(second)) == learned(whole, trajectory(second))
    restored.restore(half.arrays(), episodes_continue=False)
    assert restored.carried.tolist() == [0.0]
    restored.restore({}, episodes_continue=True)
    assert restored.divisor[0] == half.divisor[0]


def weights_after(factor, normalise, rounds=3):
    """Return a model's weights after updates whose rewards are in other units, and what it says the states are worth.

    The rewards of each round are also twice those before, so that the divisor moves.
    """
    model, scale = toy_model("shop"), RewardScale(4)
    with torch.no_grad():
        model.layers("critic")[-1][0].zero_()  # as every run begins: the critic says 0, in whatever units
        model.layers("critic")[-1][1].zero_()
    updater = toy_updater(model, learning_rate_actor=1e-2)
    for i in range(rounds):
        episodes = toy_episodes("shop", toy_model("shop"), 4, first=4 * i)
        trajectories = [e.trajectory._replace(rewards=e.trajectory.rewards * factor * 2**i) for e in episodes]
        if normalise:
            before = scale.divisor.item()
            scale.learn(trajectories, discounts_of(episodes))
            rescale_values(model, before / scale.divisor.item())
            trajectories = scale.divide(trajectories)
        rollout = rollout_batch(trajectories, discounts_of(episodes))
        updater.update(rollout, toy_coefficients(), np.random.default_rng(i))
    with torch.no_grad():
        values = model.values(model.normalise(torch.from_numpy(episodes[0].trajectory.observations[:5].copy())))
        worth = values * model.tensors["value_std"] + model.tensors["value_mean"]
    return actor_weights(model).copy(), worth.numpy() * scale.divisor.item() / factor


def test_normalising_changes_nothing_but_rounding():
    """Advantages and targets are normalised anyway, and the critic's values move with the divisor."""
    (actor, worth), (same_actor, same_worth) = weights_after(1.0, False), weights_after(1.0, True)
    np.testing.assert_allclose(same_actor, actor, atol=2e-3)
    np.testing.assert_allclose(same_worth, worth, rtol=1e-3)
    assert np.abs(actor - actor_weights(toy_model("shop"))).max() > 0.05


def test_it_is_what_makes_tiny_rewards_learnable():
    """Returns that vary by 1e-9 are below what the value normalisation can hold; divided they are like any others."""
    usual, _ = weights_after(1.0, True)
    np.testing.assert_allclose(weights_after(1e-10, True)[0], usual, atol=2e-3)
    assert np.abs(weights_after(1e-10, False)[0] - usual).max() > 0.02


def observing(spec, observations):
    """Return a trajectory that has seen these."""
    t = allocate(spec, len(observations) - 1)
    t.observations[:] = observations
    return t


def heads(model, observations):
    """Return what the first layers of actor and critic say of observations."""
    x = model.normalise(torch.from_numpy(observations))
    return [x @ weight + bias for weight, bias in (model.layers(part)[0] for part in ("actor", "critic"))]


def learned_scales(family):
    """Return a model whose scales have seen a rollout, the scales, and observations near their middle.

    The first column has been an indicator so far, the second one constant; the others vary.
    """
    spec = PolicySpec(4, Discrete(2), (16, 16), (16, 16), "relu", FAMILIES[family], attention_heads=2)
    model, rng = ActorCritic(spec), np.random.default_rng(0)
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    before, scales = [weight.detach().clone() for weight, _ in first_layers(model)], ObservationScales(model)
    seen = rng.normal(5.0, 10.0, (400, 4)).astype(np.float32)
    seen[:, 0], seen[:, 1] = rng.integers(0, 2, 400), 7.0
    scales.learn([observing(spec, seen)])
    assert all(torch.equal(a, b) for a, (b, _) in zip(before, first_layers(model), strict=True)), "nothing was played"
    return model, scales, seen[:50]


def first_layers(model):
    return [model.layers(part)[0] for part in ("actor", "critic")]


@pytest.mark.parametrize("family", ["mingru", "transformer"])
def test_a_policy_with_memory_keeps_its_outputs_where_a_deviation_shrinks(family):
    model, scales, seen = learned_scales(family)
    before, narrow = heads(model, seen), np.tile(seen, (20, 1))
    narrow[:, 2:] = 5.0 + 0.1 * (narrow[:, 2:] - 5.0)
    scale = model.tensors["observation_scale"].clone()
    scales.learn([observing(model.spec, narrow)])
    assert (model.tensors["observation_scale"][2:] > 1.2 * scale[2:]).all(), "the deviation has shrunk"
    for a, b in zip(before, heads(model, seen), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-4)


def test_weights_stay_where_a_deviation_grows_and_where_a_column_begins_to_vary():
    model, scales, seen = learned_scales("mingru")
    before, wide = [(w.detach().clone(), b.detach().clone()) for w, b in first_layers(model)], 10.0 * seen
    wide[:, 1] = np.random.default_rng(1).normal(7.0, 0.01, len(wide))
    scales.learn([observing(model.spec, wide)])
    for (w, b), (new_w, new_b) in zip(before, first_layers(model), strict=True):
        assert torch.equal(w, new_w)
        assert torch.equal(b, new_b)


def test_observations_that_were_read_beside_the_update_count_once():
    """The same statistics to the bit, and those of the next rollout are its own."""
    (model, beside, seen), (_, alone, _) = learned_scales("mlp"), learned_scales("mlp")
    for rollout, early in ((seen * 3.0, True), (seen - 1.0, False), (seen + 2.0, True)):
        trajectories = [observing(model.spec, rollout), observing(model.spec, rollout[:20])]
        if early:
            beside.observe(trajectories)
        beside.learn(trajectories)
        alone.learn(trajectories)
        assert beside.arrays().keys() == alone.arrays().keys()
        for name, array in alone.arrays().items():
            assert beside.arrays()[name].tobytes() == array.tobytes(), name
    unscaled = ObservationScales(model, learns=False)
    unscaled.observe(trajectories)
    unscaled.learn(trajectories)
    assert unscaled.statistics.count == 0.0


def test_a_policy_without_memory_moves_with_its_scales():
    """Whether it helps such policies: research/learning/defaults.md, outputs that stay."""
    model, scales, seen = learned_scales("mlp")
    before = [w.detach().clone() for w, _ in first_layers(model)]
    scales.learn([observing(model.spec, 0.1 * seen)])
    assert all(torch.equal(w, new) for w, (new, _) in zip(before, first_layers(model), strict=True))


def runaway_scales(family="mlp", forgets=True):
    """Return scales that have seen a stream run away, their model, what it plays now and how often they forgot."""
    spec = PolicySpec(2, Discrete(2), (16, 16), (16, 16), "relu", FAMILIES[family], attention_heads=2)
    model, rng, calls = ActorCritic(spec), np.random.default_rng(0), []
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    scales = ObservationScales(model, forget=[lambda: calls.append(1)] if forgets else [])
    scales.learn([observing(spec, rng.normal(0.0, 1_000.0, (400, 2)).astype(np.float32))], is_natural=[True])
    return scales, model, rng.normal(12.0, 4.0, (400, 2)).astype(np.float32), calls


def test_scales_begin_anew_once_natural_episodes_stay_together():
    """The first layers say the same of them as before, and the scale is soon that of these observations."""
    scales, model, now, calls = runaway_scales()
    rollout, count = [observing(model.spec, now)], 0
    while not calls:
        before = heads(model, now)
        scales.learn(rollout, is_natural=[True])
        count += 1
    assert count < 20
    for a, b in zip(before, heads(model, now), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-3)
    for _ in range(200):
        scales.learn(rollout, is_natural=[True])
    assert len(calls) <= 4, "from 1,000 to 4 in steps of at least four"
    np.testing.assert_allclose(1.0 / model.tensors["observation_scale"], now.std(axis=0), rtol=1.0)


def test_excursions_neither_keep_old_scales_nor_cause_new_ones():
    """They bring the beginning back, from which they start; natural episodes alone decide."""
    scales, model, now, calls = runaway_scales()
    far = observing(model.spec, 100.0 * now)
    for _ in range(20):
        scales.learn([observing(model.spec, now), far], is_natural=[True, False])
    assert calls
    scales, model, now, calls = runaway_scales()
    for _ in range(20):
        scales.learn([observing(model.spec, now), far], is_natural=[True, True])
    assert not calls
    scales, calls = ObservationScales(model, forget=[lambda: calls.append(1)]), []
    for _ in range(100):
        scales.learn([observing(model.spec, now), far], is_natural=[True, False])
    assert not calls, "natural episodes have always been alike"


@pytest.mark.parametrize(("family", "forgets"), [("mlp", False), ("mingru", True)])
def test_scales_do_not_begin_anew_without_growing_rollouts_or_with_memory(family, forgets):
    scales, model, now, calls = runaway_scales(family, forgets)
    for _ in range(20):
        scales.learn([observing(model.spec, now)], is_natural=[True])
    assert not calls
    assert (model.tensors["observation_scale"] < 1.0 / 100.0).all()
    assert not any(name.startswith(("recent.", "natural")) for name in scales.arrays())


def test_scales_begin_anew_at_the_same_rollout_after_a_checkpoint():
    (scales, model, now, calls), (other, resumed, _, later) = runaway_scales(), runaway_scales()
    for _ in range(3):
        scales.learn([observing(model.spec, now)], is_natural=[True])
    resumed.flat.copy_(model.flat)
    other.restore({name: array.copy() for name, array in scales.arrays().items()})
    calls.clear()
    for _ in range(20):
        for each, of in ((scales, model), (other, resumed)):
            each.learn([observing(of.spec, now)], is_natural=[True])
        assert (len(calls), model.flat.tolist()) == (len(later), resumed.flat.tolist())
    assert calls


def test_outputs_stay_where_a_model_went_back_to_parameters_with_older_scales():
    scales, model, now, calls = runaway_scales()
    rollout, before = [observing(model.spec, now)], model.flat.clone()
    while not calls:
        scales.learn(rollout, is_natural=[True])
    model.flat.copy_(before)
    said, forgot = heads(model, now), len(calls)
    scales.learn(rollout, is_natural=[True])
    assert len(calls) == forgot + 1, "moments are those of the old scales again"
    assert (model.tensors["observation_scale"] > 1.0 / 500.0).all(), "they are the new ones again"
    for a, b in zip(said, heads(model, now), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-3)
