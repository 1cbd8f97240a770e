"""What crosses the wire: nothing is lost, bytes are few, and the cheaper of the two forms is chosen."""

import numpy as np
import pytest

pytest.importorskip("pydantic")

from helpers.specs import mlp_spec

from longstride.errors import UserError
from longstride.rollout.hosts.choose_form import Costs, FormChoice, choose_form
from longstride.rollout.hosts.dispatch import Traffic
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
    columns, into = pack(rows, "rows", spec), allocate(spec, STEPS, np.empty, cuts=3)
    write(columns, into)
    for name, column, expected in zip(rows._fields, into, rows, strict=True):
        assert column.tobytes() == expected.tobytes(), name
        assert unpack(columns, name).shape == expected.shape, name


def test_a_decision_is_five_bytes_as_an_action():
    spec = mlp_spec((5, 8, 3), (5, 8, 1))
    columns = pack(trajectory_of(spec), "actions", spec)
    assert sum(data.nbytes for *_, data in columns.values()) == 5 * STEPS
    assert columns.keys() == {"actions", "log_probs", "states"}


def test_constant_columns_are_sent_once():
    spec = mlp_spec((5, 8, 3), (5, 8, 1))
    columns = pack(trajectory_of(spec, constant=True), "rows", spec)
    assert columns["elapsed"][3].nbytes == 8 and columns["masks"][3].nbytes == 3


@pytest.mark.parametrize(
    ("space", "dtype"),
    [(Discrete(2), "u1"), (Discrete(256), "u1"), (Discrete(257), "u2"), (MultiDiscrete([3, 70_000]), "u4")],
)
def test_actions_take_the_smallest_integers(space, dtype):
    assert smallest_dtype(space) == np.dtype(dtype)


def test_whole_rows_come_where_the_wire_is_fast_and_actions_where_it_is_slow():
    """500 bytes at 1 GB/s are 0.5 µs; rebuilding takes 4 µs on 4 threads, 1 µs. At 0.1 GB/s the rows take 5 µs."""
    form, line = choose_form(Costs(500.0, 5.0, 4e-6, 4, 1e9))
    assert form == "rows" and "take 0.50 µs" in line and "on 4 threads 1.00" in line
    assert choose_form(Costs(500.0, 5.0, 4e-6, 4, 1e8))[0] == "actions"


def test_auto_chooses_after_the_first_rollout_and_says_so_once():
    spec = mlp_spec((5, 8, 3), (5, 8, 1))
    rows = trajectory_of(spec)
    choice = FormChoice("auto", spec, compiled=True)
    choice.bandwidth = 1e12
    assert choice.form == "actions" and choice.may_rebuild
    for _ in range(2):
        choice.learn(rows, STEPS, Traffic(received_bytes=5 * STEPS, store_seconds=1e-3), 2)
    assert choice.form == "rows" and len(choice.take_lines()) == 1 and choice.take_lines() == []


def test_environments_of_python_send_rows():
    spec = mlp_spec((5, 8, 3), (5, 8, 1))
    assert FormChoice("auto", spec, compiled=False).form == "rows"
    with pytest.raises(UserError, match="ROLLOUT_WIRE is 'actions', but an environment of Gymnasium"):
        FormChoice("actions", spec, compiled=False)
