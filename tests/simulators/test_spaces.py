"""Action spaces: what they refuse, what they say of themselves, and simulators that they do not fit."""

import json

import numpy as np
import pytest
from oracles.toy_simulators import Bandit, Choices, Tracker

from longstride.errors import UserError
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete, description
from longstride.simulators.validate import require_complete


@pytest.mark.parametrize(
    "make",
    [
        lambda: Discrete(0),
        lambda: MultiDiscrete([]),
        lambda: MultiDiscrete([2, 0]),
        lambda: MultiDiscrete([2.0]),
        lambda: Box([], []),
        lambda: Box([0.0], [1.0, 2.0]),
        lambda: Box([1.0], [1.0]),
        lambda: Box([np.nan], [1.0]),
        lambda: Box([1.0], [1.0 + 1e-9]),  # equal as float32
        lambda: Box([0.0], [np.inf], squashed=True),
        lambda: Box([-1e300], [1e300], squashed=True),  # infinite as float32
        lambda: Box([0.0], [1.0], squashed=True, scale=[0.5]),
        lambda: Box([0.0], [1.0], scale=[0.0]),
        lambda: Box([0.0], [1.0], scale=[]),
        lambda: Box([0.0], [1.0], scale=[np.inf]),
        lambda: Box([0.0], [1.0], scale=[1.0, 1.0]),
    ],
)
def test_impossible_spaces_are_refused(make):
    with pytest.raises(ValueError, match="needs"):
        make()


@pytest.mark.parametrize(
    ("space", "choices", "outputs", "shape", "dtype"),
    [
        (Discrete(4), (4,), 4, (), np.int64),
        (MultiDiscrete([3, 2, 4]), (3, 2, 4), 9, (3,), np.int64),
        (Box([-1, 0], [1, 9]), (), 2, (2,), np.float32),
    ],
)
def test_what_a_space_says_of_itself(space, choices, outputs, shape, dtype):
    assert (space.choices, space.outputs, space.shape, space.dtype) == (choices, outputs, shape, dtype)


@pytest.mark.parametrize(
    ("box", "centre", "scale"),
    [
        (Box([-1.0], [1.0]), 0.0, 1.0),
        (Box([0.0], [500.0]), 250.0, 250.0),
        (Box([0.0], [500.0], scale=[20]), 250.0, 20.0),
        (Box([5.0], [np.inf]), 5.0, 1.0),
        (Box([2.0], [np.inf], scale=[100.0]), 2.0, 100.0),
        (Box([-np.inf], [3.0]), 3.0, 1.0),
        (Box([-np.inf], [np.inf]), 0.0, 1.0),
        (Box([-3.4e38], [3.4e38]), 0.0, 1.0),
        (Box([0.0], [1e9]), 0.0, 1.0),
        (Box([0.0], [1e9], squashed=True), 5e8, 5e8),
    ],
    ids=str,
)
def test_a_gaussian_begins_where_usual_numbers_are(box, centre, scale):
    assert (box.centre.tolist(), box.scales.tolist()) == ([centre], [scale])


def test_descriptions_tell_spaces_apart_and_survive_json():
    spaces = [Discrete(4), Discrete(5), MultiDiscrete([4]), MultiDiscrete([2, 2]), Box([-1], [1])]
    spaces += [Box([-1], [np.inf]), Box([-1], [1], scale=[2]), Box([-1], [1], squashed=True)]
    descriptions = [description(space) for space in spaces]
    assert len(set(map(str, descriptions))) == len(spaces)
    assert description(Box([-1], [1])) == "Box(low=(-1.0,), high=(1.0,), squashed=False)", "as of earlier versions"
    assert json.loads(json.dumps(descriptions)) == descriptions


def changed(simulator, **attributes):
    return type("Changed", (simulator,), attributes)()


@pytest.mark.parametrize(
    ("simulator", "attributes", "sentence"),
    [
        (Bandit, {"action_space": 4}, "must be Discrete(n), MultiDiscrete(sizes) or Box(low, high) .* not 4"),
        (Tracker, {"action_mask": Bandit.action_mask}, "cannot be masked: remove action_mask"),
        (Tracker, {"initial_logits": np.zeros(2)}, "has no logits: remove initial_logits"),
        (Choices, {"initial_logits": np.zeros(3)}, "must be an array of 9 numbers"),
        (Bandit, {"initial_logits": np.zeros(3)}, "must be an array of 4 numbers"),
    ],
)
def test_what_does_not_go_with_a_space_is_a_sentence(simulator, attributes, sentence):
    with pytest.raises(UserError, match=sentence.replace("(", r"\(").replace(")", r"\)")) as caught:
        require_complete(changed(simulator, **attributes))
    assert "\n" not in str(caught.value)


def test_initial_logits_of_choices_are_as_many_as_their_values():
    require_complete(changed(Choices, initial_logits=np.zeros(9)))


def test_sizes_are_integers_of_any_kind_and_become_int():
    space = Discrete(np.array([5, 9]).argmax() + 1)
    assert (space, type(space.n)) == (Discrete(2), int)
    several = MultiDiscrete(np.array([[1, 3], [2, 0]]).max(axis=1))
    assert (several, {type(n) for n in several.sizes}) == (MultiDiscrete([3, 2]), {int})
    for wrong in (np.float64(2.0), np.bool_(True), np.int64(0), "2"):
        with pytest.raises(ValueError, match="needs a positive integer, not"):
            Discrete(wrong)
