"""A policy's spec: JSON there and back, equality, layouts."""

import json
import math

import pytest
from helpers.specs import mlp_spec
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.toy_simulators import Shop, Tracker

from longstride.errors import UserError
from longstride.policies.families.mlp.family import MLP
from longstride.policies.make_spec import spec_for
from longstride.policies.spec import PolicySpec
from longstride.policies.spec_json import spec_from_json, spec_to_json
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete

SPACES = [
    Discrete(5),
    MultiDiscrete([3, 1, 4]),
    Box([-1.0, 0.25], [1.0, 2.0]),
    Box([-math.inf, 0.0], [math.inf, math.inf], scale=[2.0, 100.0]),
    Box([-2.0], [1.0], squashed=True),
]


def spec_of(space, **changes) -> PolicySpec:
    values = {
        "actor_hidden": (16, 8),
        "critic_hidden": (32,),
        "activation": "tanh",
        "family": MLP,
        "action_features": 2,
    }
    return PolicySpec(7, space, **{**values, **changes})


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_json_and_back_is_the_same_spec(space):
    spec = spec_of(space)
    text = json.dumps(spec_to_json(spec), allow_nan=False)
    read = spec_from_json(json.loads(text))
    assert read == spec
    assert hash(read) == hash(spec)
    assert read.action_space == space
    assert read.layout == spec.layout


def test_a_policy_of_version_0_2_has_the_wide_limit():
    values = spec_to_json(spec_of(SPACES[0], observation_limit=4.0))
    assert spec_from_json(values).observation_limit == 4.0
    del values["observation_limit"]
    assert spec_from_json(values).observation_limit == 10.0


@pytest.mark.parametrize("limit", ["4.0); int evil = (1", True, None, [4.0], math.nan, math.inf, -1.0])
def test_a_limit_that_is_no_number_is_refused_before_it_is_written_into_a_program(limit):
    with pytest.raises(TypeError, match="observation_limit"):
        spec_from_json(spec_to_json(spec_of(SPACES[0])) | {"observation_limit": limit})


def test_a_policy_whose_numbers_were_not_scaled_is_of_an_earlier_version():
    old = spec_to_json(spec_of(Box([-2.0], [2.0])))
    same = spec_to_json(spec_of(Box([-1.0], [1.0])))
    for values in (old, same):
        del values["action_space"]["box"]["scale"]
    assert spec_from_json(same).action_space == Box([-1.0], [1.0])
    with pytest.raises(UserError, match="An earlier version"):
        spec_from_json(old)


@given(
    low=st.lists(st.floats(-1e3, 1e3) | st.just(-math.inf), min_size=1, max_size=4),
    width=st.floats(0.01, 1e3) | st.just(math.inf),
)
@settings(max_examples=60, deadline=None)
def test_any_box_survives_json(low, width):
    box = Box(low, [x + width if math.isfinite(x) else width for x in low])
    text = json.dumps(spec_to_json(spec_of(box)), allow_nan=False)
    assert spec_from_json(json.loads(text)).action_space == box


def test_specs_are_keys_and_differ_where_anything_does():
    changes = [{}, {"actor_hidden": (16,)}, {"critic_hidden": (16,)}, {"activation": "relu"}, {"action_features": 0}]
    specs = {spec_of(space, **change) for space in SPACES for change in changes}
    assert len(specs) == len(SPACES) * len(changes)
    assert spec_of(SPACES[0]) in specs


def test_widths_follow_the_action_space():
    assert spec_of(MultiDiscrete([3, 1, 4])).actor_sizes == (7, 16, 8, 8)
    assert spec_of(Box([-1.0, 0.0], [1.0, 1.0])).actor_sizes == (7, 16, 8, 2)
    assert spec_of(Discrete(5)).critic_sizes == (7, 32, 1)
    assert [spec_of(space).is_gaussian for space in SPACES] == [False, False, True, True, True]
    assert spec_of(Discrete(5)).state_size == 0


def test_a_spec_for_a_simulator_has_its_sizes():
    shop = Shop()
    spec = spec_for(shop, (8,), (4,), "relu")
    assert (spec.observation_size, spec.action_space) == (shop.observation_size, shop.action_space)
    assert spec.action_features == shop.action_feature_size > 0
    assert spec.layout.feature_weights_offset == spec.layout.offsets["actor.feature_weights"]
    tracker = spec_for(Tracker(), (8,), (4,), "relu")
    assert tracker.layout.log_std_offset == tracker.layout.offsets["actor.log_std"]
    assert (spec.layout.log_std_offset, tracker.layout.feature_weights_offset) == (0, 0)


@pytest.mark.parametrize(
    "broken",
    [
        {"action_space": {"circle": 3}},
        {"actor_hidden": None},
        {"unknown": 1},
        {"action_space": {}},
    ],
)
def test_values_that_describe_no_spec_are_refused(broken):
    values = spec_to_json(mlp_spec((4, 8, 2), (4, 8, 1)))
    with pytest.raises((KeyError, TypeError, ValueError)):
        spec_from_json({**values, **broken})
