"""What crosses the wire: nothing is lost, and bytes are few."""

import numpy as np
import pytest

pytest.importorskip("pydantic")

from helpers.specs import mlp_spec

from longstride.rollout.hosts.wire import pack, smallest_dtype, unpack, write
from longstride.rollout.trajectory import allocate
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete

STEPS = 37


def trajectory_of(spec, constant=False):
    """Return a trajectory of random bits; elapsed times and masks may be the same in all steps."""
    rng = np.random.default_rng(0)
    rows = allocate(spec, STEPS, np.zeros, cuts=3)
    for column in rows:
        column.view(np.uint8)[...] = rng.integers(0, 2 if column.dtype == bool else 256, column.view(np.uint8).shape)
    if isinstance(spec.action_space, Discrete):
        rows.actions[:] = rng.integers(0, spec.action_space.n, STEPS)
    if constant:
        rows.elapsed[:], rows.masks[:] = 0.25, [True, False, True]
    return rows


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("space", [Discrete(3), Box([-1.0, -2.0], [1.0, 2.0])])
def test_every_column_comes_back_to_the_bit(space, constant):
    spec = mlp_spec((5, 8, space.outputs), (5, 8, 1), space=space)
    rows = trajectory_of(spec, constant and isinstance(space, Discrete))
    columns, into = pack(rows, spec), allocate(spec, STEPS, np.empty, cuts=3)
    write(columns, into)
    for name, column, expected in zip(rows._fields, into, rows, strict=True):
        assert column.tobytes() == expected.tobytes(), name
        assert unpack(columns, name).shape == expected.shape, name


def test_constant_columns_are_sent_once():
    spec = mlp_spec((5, 8, 3), (5, 8, 1))
    columns = pack(trajectory_of(spec, constant=True), spec)
    assert columns["elapsed"][3].nbytes == 8 and columns["masks"][3].nbytes == 3


@pytest.mark.parametrize(
    ("space", "dtype"),
    [(Discrete(2), "u1"), (Discrete(256), "u1"), (Discrete(257), "u2"), (MultiDiscrete([3, 70_000]), "u4")],
)
def test_actions_take_the_smallest_integers(space, dtype):
    assert smallest_dtype(space) == np.dtype(dtype)
