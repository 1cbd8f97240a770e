"""Shapes, dtypes and views of a trajectory."""

import numpy as np
import pytest

from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import PolicySpec
from longstride.rollout.trajectory import allocate, allocate_plain, pinned_bytes, trajectory_bytes
from longstride.simulators.spaces import Discrete


def spec(action_features=0):
    return PolicySpec(3, Discrete(2), (), (), "tanh", MLP, action_features)


def test_shapes_and_dtypes():
    trajectory = allocate(spec(7), 5)
    shapes = [a.shape for a in trajectory]
    assert shapes == [
        (6, 3),
        (5,),
        (5,),
        (5,),
        (5, 2),
        (5, 2, 7),
        (5, 0),
        (5, 0),
        (5, 0),
        (5,),
        (5,),
        (5,),
        (5,),
        (0, 3),
    ]
    assert [a.dtype.name for a in trajectory] == [
        "float32",
        "int64",
        "float32",
        "float32",
        "bool",
        "float32",
        "float32",
        "bool",
        "int64",
        "float64",
        "float32",
        "bool",
        "bool",
        "float32",
    ]
    assert trajectory.steps == 5


def test_first_keeps_the_observation_after_the_last_step():
    trajectory = allocate(spec(), 5)
    trajectory.observations[:] = np.arange(18).reshape(6, 3)
    part = trajectory.first(2)
    assert part.steps == 2
    assert part.observations.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert all(a.base is not None and np.shares_memory(a, b) for a, b in zip(part, trajectory, strict=True) if a.size)


def test_the_allocator_is_used_for_every_array():
    asked = []

    def new(shape, dtype):
        asked.append((shape, dtype))
        return np.full(shape, 1, dtype)

    trajectory = allocate(spec(1), 4, new)
    assert len(asked) == len(trajectory)
    assert all((a == 1).all() for a in trajectory)


def test_first_keeps_the_observations_after_the_cuts_before_its_last_step():
    trajectory = allocate(spec(), 5, cuts=5)
    trajectory.truncated[:] = [True, False, True, True, False]
    trajectory.cut_observations[:] = np.arange(15).reshape(5, 3)
    assert trajectory.first(5).cut_observations[:, 0].tolist() == [0, 3, 6]
    assert trajectory.first(3).cut_observations[:, 0].tolist() == [0], "the last step's is in row 3"
    assert trajectory.first(1).cut_observations.shape == (0, 3)


def test_what_a_device_does_not_read_has_an_allocator_of_its_own():
    asked = []

    def new(shape, dtype):
        asked.append(np.full(shape, 1, dtype))
        return asked[-1]

    trajectory = allocate(spec(1), 4, new, 4, allocate_plain)
    names = {name for name, array in trajectory._asdict().items() if any(array is other for other in asked)}
    assert names == {"observations", "actions", "log_probs", "masks", "features", "states", "begins"}
    assert len(asked) == 7


@pytest.mark.parametrize(
    ("arguments", "pinned", "beside"),
    [
        # observations 72 bytes, actions 40, log-probabilities 20, masks 10, nothing else that goes up;
        # rewards 20, elapsed 40, control variate 20, two flags of 5
        ({"steps": 5}, 128 + 64 + 32 + 16, 90),
        ({"steps": 5, "cuts": 5}, 128 + 64 + 32 + 16, 90 + 60),
        ({"steps": 5, "together": 3}, 256 + 128 + 64 + 32, 3 * 90),  # 216, 120, 60 and 30 bytes
        ({"steps": 8, "together": 2}, 256 + 128 + 64 + 32, 2 * 8 * 18),  # 216; the others are powers of two
    ],
)
def test_pinned_memory_is_given_in_powers_of_two(arguments, pinned, beside):
    assert pinned_bytes(spec(), **arguments) == pinned + beside


def test_bytes_of_a_trajectory_are_those_of_its_arrays():
    for cuts in (0, 5):
        assert trajectory_bytes(spec(7), 5, cuts) == sum(a.nbytes for a in allocate(spec(7), 5, cuts=cuts))
