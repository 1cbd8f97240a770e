"""A policy on NumPy arrays: what the loops decide to the bit, what torch computes, and what is refused."""

from functools import cache

import numpy as np
import pytest
import torch
from helpers.specs import mlp_spec
from helpers.toy_runs import SEED, actor_weights, toy_episodes, toy_model

from longstride.errors import UserError
from longstride.policies.compiled.forward import build_forward, workspace
from longstride.policies.compiled.sampling import build_place
from longstride.policies.loaded_policy import LoadedPolicy
from longstride.seeding import stream
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete

KINDS = ["shop", "choices", "tracker", "squashed", "bandit"]


@cache
def recorded(kind):
    """Return a toy's policy and the recorded arrays of two of its episodes."""
    model = toy_model(kind)
    episodes = []
    for episode in toy_episodes(kind, model, 2):
        t, n = episode.trajectory, episode.trajectory.steps
        masked = model.spec.action_space.choices
        rows = t.observations[:n], t.masks[:n] if masked else None, t.features[:n] if t.features.size else None
        episodes.append((*(None if a is None else a.copy() for a in rows), t.actions[:n].copy()))
    return LoadedPolicy(model.spec, actor_weights(model)), model, episodes


def rows_of(arrays, t):
    return [None if array is None else array[t] for array in arrays]


def as_received(space, drawn):
    """Return what step receives for what the trajectory keeps."""
    if not isinstance(space, Box):
        return drawn
    place = build_place(space)
    return np.array([[place(x, i) for i, x in enumerate(row)] for row in drawn])


@pytest.mark.parametrize("kind", KINDS)
def test_a_recorded_episode_is_drawn_again_to_the_bit(kind):
    policy, _, episodes = recorded(kind)
    for number, (*arrays, drawn) in enumerate(episodes):
        policy.reset(stream(SEED, "policy", number))
        actions = [policy.act(*rows_of(arrays, t), greedy=False) for t in range(len(drawn))]
        np.testing.assert_array_equal(actions, as_received(policy.spec.action_space, drawn))
        policy.reset(stream(SEED, "policy", number))
        np.testing.assert_array_equal(policy.act(*arrays, greedy=False), actions, strict=True)


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_actions_are_those_of_the_compiled_forward_pass_and_of_torch(kind):
    policy, model, episodes = recorded(kind)
    observations, masks, features, _ = episodes[0]
    space, forward, scratch = policy.spec.action_space, build_forward(policy.spec), workspace(policy.spec)
    no_state = np.zeros(policy.spec.state_size, np.float32)
    actions = [policy.act(*rows_of(episodes[0][:3], t)) for t in range(len(observations))]
    np.testing.assert_array_equal(policy.act(observations, masks, features), actions, strict=True)
    compiled = np.array([forward(actor_weights(model), row, no_state, scratch).copy() for row in observations])
    with torch.no_grad():
        rows = torch.from_numpy(observations)
        by_torch = model.logits(model.normalise(rows), None if features is None else torch.from_numpy(features)).numpy()
    if isinstance(space, Box):
        np.testing.assert_array_equal(actions, as_received(space, compiled).astype(np.float32))
        np.testing.assert_allclose(actions, as_received(space, by_torch), atol=1e-5)
        return
    if features is not None:
        compiled = compiled + features @ model.tensors["actor.feature_weights"].detach().numpy()
    ends = np.cumsum(space.choices)[:-1]
    for outputs in (compiled, by_torch):
        allowed = np.split(np.where(masks, outputs, -np.inf), ends, axis=1)
        best = np.stack([part.argmax(axis=1) for part in allowed], axis=1)
        np.testing.assert_array_equal(np.reshape(actions, best.shape), best)


@pytest.mark.parametrize("kind", ["shop", "bandit"])
def test_decide_returns_the_greedy_action_and_the_probabilities_of_torch(kind):
    policy, model, episodes = recorded(kind)
    observations, masks, features, _ = episodes[0]
    found = [policy.decide(*rows_of(episodes[0][:3], t)) for t in range(len(observations))]
    np.testing.assert_array_equal([action for action, _ in found], policy.act(observations, masks, features))
    with torch.no_grad():
        given = None if features is None else torch.from_numpy(features)
        logits = model.logits(model.normalise(torch.from_numpy(observations)), given)
        expected = torch.softmax(logits.masked_fill(~torch.from_numpy(masks), -torch.inf), dim=1)
    np.testing.assert_allclose([each for _, each in found], expected.numpy(), atol=1e-5)
    assert not any(each[~mask].any() for (_, each), mask in zip(found, masks, strict=True))


def test_decide_refuses_what_act_refuses():
    policy = random_policy(Discrete(4))
    assert policy.decide(np.zeros(3, np.float32), np.arange(4) == 1)[1].tolist() == [0.0, 1.0, 0.0, 0.0]
    with pytest.raises(UserError, match="mask allows no action; every choice needs an allowed value"):
        policy.decide(np.zeros(3, np.float32), np.zeros(4, np.bool_))
    with pytest.raises(UserError, match=r"observation\[0\] is nan"):
        policy.decide(np.full(3, np.nan, np.float32))
    with pytest.raises(UserError, match="decide is for Discrete actions"):
        random_policy(MultiDiscrete([3, 2])).decide(np.zeros(3, np.float32))
    with pytest.raises(UserError, match="memory must be 0 finite numbers"):
        policy.memory = np.zeros(2, np.float32)


def random_policy(space, observations=3, seed=0, **changes):
    spec = mlp_spec((observations, 16, space.outputs), space=space)
    params = np.random.default_rng(5).normal(0.0, 0.5, 2_000).astype(np.float32)
    for index, value in changes.items():
        params[int(index.removeprefix("at_"))] = value
    return LoadedPolicy(spec, params, seed)


def test_types_and_shapes_of_actions():
    one, batch = np.zeros(3, np.float32), np.zeros((20, 3), np.float32)
    discrete, several = random_policy(Discrete(4)), random_policy(MultiDiscrete([3, 2]))
    box = random_policy(Box([-1.0, 0.0], [1.0, 0.1]))
    assert type(discrete.act(one)) is int
    for policy, dtype, shape in ((discrete, np.int64, ()), (several, np.int64, (2,)), (box, np.float32, (2,))):
        for greedy in (True, False):
            actions = policy.act(batch, greedy=greedy)
            assert (actions.dtype, actions.shape) == (dtype, (20, *shape))
            assert policy.act(batch[:0], greedy=greedy).shape == (0, *shape)
        first = policy.act(one)
        kept = np.copy(first)
        policy.act(one + 5.0)
        np.testing.assert_array_equal(first, kept)  # no view of a buffer
        assert np.asarray(first).dtype == dtype
    low, high = box.spec.action_space.bounds
    drawn = box.act(np.random.default_rng(0).normal(size=(200, 3)), greedy=False)
    assert (drawn >= low).all()
    assert (drawn <= high).all()
    assert len(np.unique(drawn[:, 0])) > 20


def test_a_mask_counts_for_its_own_call_only():
    policy = random_policy(Discrete(4))
    observation = np.array([0.5, -1.0, 2.0], np.float32)
    best = policy.act(observation)
    without = np.arange(4) != best
    assert policy.act(observation, without) != best
    assert policy.act(np.stack([observation] * 2)).tolist() == [best, best]
    assert policy.act(observation) == best
    assert policy.act(np.stack([observation] * 9), np.stack([without] * 9)).tolist() != [best] * 9


def test_other_real_numbers_are_converted():
    policy = random_policy(Discrete(4))
    numbers = np.array([1.0, -2.0, 3.0])
    expected = policy.act(numbers.astype(np.float32))
    frozen = numbers.astype(np.float32)
    frozen.flags.writeable = False
    for same in (numbers, numbers.astype(np.int64), [1, -2, 3], np.stack([numbers, numbers])[:, ::1][0], frozen):
        assert policy.act(same) == expected
    assert policy.act(np.tile(numbers, (2, 2))[:, :3]).tolist() == [expected] * 2
    assert policy.act(np.repeat(numbers, 2)[::2]) == expected


def test_seeds_name_the_draws():
    observation = np.zeros(3, np.float32)

    def draws(policy, count=30):
        return [policy.act(observation, greedy=False) for _ in range(count)]

    policy = random_policy(Discrete(4), seed=3)
    first = draws(policy)
    assert len(set(first)) > 1
    policy.reset()
    assert draws(policy) != first, "reset begins an episode and continues the draws"
    policy.reset(3)
    assert draws(policy) == first
    assert draws(random_policy(Discrete(4), seed=4)) != first
    policy.reset(3)
    for action in first:
        policy.act(observation)
        assert policy.act(observation, greedy=False) == action, "greedy actions draw nothing"


ROW, BATCH, NAN = np.zeros(3, np.float32), np.zeros((2, 3), np.float32), np.full(3, np.nan)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((np.zeros(4),), "observation must be float32[3] or float32[B, 3], not float64[4]."),
        ((np.zeros((2, 2, 3)),), "observation must be float32[3] or float32[B, 3], not float64[2, 2, 3]."),
        ((np.zeros(3, complex),), "observation must be float32[3] or float32[B, 3], not complex128[3]."),
        ((np.array(["a", "b", "c"]),), "observation must be float32[3] or float32[B, 3], not <U1[3]."),
        ((1.0,), "observation must be float32[3] or float32[B, 3], not float64[]."),
        (([[1.0], [1.0, 2.0]],), "observation is a list of lists of different lengths; pass one NumPy array."),
        ((NAN,), "observation[0] is nan; numbers must be finite."),
        ((np.full(3, np.inf),), "observation[0] is inf; numbers must be finite."),
        (
            (np.array([0.0, 1e300, 0.0]),),
            "observation[1] is 1e+300, which is too large for float32 (at most 3.4e+38); scale it or clip it.",
        ),
        (
            (np.stack([ROW, NAN]),),
            "observation[1, 0] is nan; numbers must be finite.",
        ),
        ((ROW, np.ones(4, np.int8)), "mask must be bool[4], not int8[4]."),
        ((ROW, np.ones((1, 4), bool)), "mask must be bool[4], not bool[1, 4]."),
        ((BATCH, np.ones(4, bool)), "mask must be bool[2, 4], not bool[4]."),
        ((ROW, np.zeros(4, bool)), "mask allows no action; every choice needs an allowed value."),
        (
            (BATCH, np.array([[True] * 4, [False] * 4])),
            "mask allows no action in row 1 of the batch; every choice needs an allowed value.",
        ),
        ((ROW, None, np.zeros((4, 2))), "The policy was trained without action features; leave features out."),
    ],
)
def test_wrong_arguments_get_one_sentence(arguments, sentence):
    policy = random_policy(Discrete(4))
    expected = policy.act(ROW)
    with pytest.raises(UserError) as error:
        policy.act(*arguments)
    assert str(error.value) == sentence
    assert policy.act(ROW) == expected, "nothing of a refused call stays"


def test_wrong_features_and_masks_of_other_spaces():
    with_features, several = recorded("shop")[0], random_policy(MultiDiscrete([3, 2]))
    features, row, batch = np.zeros((4, 2), np.float32), np.zeros(4, np.float32), np.zeros((2, 4), np.float32)
    assert 0 <= with_features.act(row, features=features) < 4
    for policy, arguments, sentence in (
        (
            with_features,
            (row,),
            "The policy was trained with action features: pass features=float32[4, 2], what the simulator's "
            "action_features writes.",
        ),
        (with_features, (row, None, features.T), "features must be float32[4, 2], not float32[2, 4]."),
        (with_features, (batch, None, features), "features must be float32[2, 4, 2], not float32[4, 2]."),
        (with_features, (row, None, features + np.nan), "features[0, 0] is nan; numbers must be finite."),
        (several, (ROW, np.arange(5) < 3), "mask allows no action; every choice needs an allowed value."),
        (
            random_policy(Box([-1.0, 0.0], [1.0, 0.1])),
            (ROW, np.ones(2, bool)),
            "The policy's actions are real numbers, which take no mask; leave mask out.",
        ),
    ):
        with pytest.raises(UserError) as error:
            policy.act(*arguments)
        assert str(error.value) == sentence


def test_parameters_that_have_exploded():
    with pytest.raises(UserError, match="The parameters of the policy are not finite; load an earlier checkpoint"):
        random_policy(Discrete(4), at_10=np.nan)
    overflowing = LoadedPolicy(random_policy(Discrete(4)).spec, np.full(2_000, -1e30, np.float32))
    with pytest.raises(UserError, match="The outputs of the policy are not finite; load an earlier checkpoint"):
        overflowing.act(np.ones(3, np.float32))
