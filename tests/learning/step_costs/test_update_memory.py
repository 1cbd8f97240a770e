"""The power-of-two minibatch, and the predicted bytes against a real step."""

import numpy as np
import pytest
import torch
from helpers.peak_memory import PeakBytes
from helpers.real_steps import bytes_of, last_gradient, optimizer_moments, prepared_step, prepared_update, rollout_of
from helpers.specs import mlp_spec
from hypothesis import given
from hypothesis import strategies as st

from longstride.hardware.planning.choices import auto_batch_size
from longstride.hardware.planning.update_memory import LARGEST_BATCH, SAFETY, workspace_bytes
from longstride.learning.batch.critic_values import values_of
from longstride.learning.device_transfer import upload
from longstride.learning.step_costs.columns import column_bytes
from longstride.learning.step_costs.update_memory import bytes_of_a_sample, estimate_memory, fixed_bytes
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete


@given(st.integers(1, 10**7), st.integers(0, 2 * 10**11), st.integers(1, 10**5), st.integers(1, 65_536))
def test_the_batch_is_the_largest_power_of_two_within_every_limit(samples, free, per_sample, largest):
    batch = auto_batch_size(samples, int(free * SAFETY) // per_sample, largest)
    assert batch & (batch - 1) == 0
    assert batch >= 1
    limits = (samples, largest, 65_536, free * SAFETY / per_sample)
    assert batch == 1 or batch <= min(limits)
    assert 2 * batch > min(limits) - 1, "twice as much would break a limit"


@pytest.mark.parametrize(
    ("samples", "free", "per_sample", "largest", "expected"),
    [
        (62_000, 10**12, 7000, 65_536, 32_768),  # the samples limit
        (65_536, 10**12, 7000, 65_536, 65_536),
        (10**6, 10**12, 7000, 10**6, 65_536),  # 65,536 whatever the user says
        (62_000, 10**12, 7000, 5000, 4096),  # BATCH_SIZE limits
        (62_000, 10**8, 7000, 65_536, 8192),  # 0.7 * 10^8 / 7000 = 10,000 fit
        (62_000, 0, 7000, 65_536, 1),
    ],
)
def test_the_batch_by_hand(samples, free, per_sample, largest, expected):
    assert auto_batch_size(samples, int(free * SAFETY) // per_sample, largest) == expected
    assert LARGEST_BATCH == 65_536


def test_bytes_of_a_sample_by_hand():
    """At the critic's widest layer on the way back: 8 observations and (64 + 64 + 32) hidden units, 4 gradients of
    logits, and the gradient of 64 units before and after the activation, 4 bytes each; those of 32 are gone."""
    assert bytes_of_a_sample(mlp_spec((8, 64, 4), (8, 32, 64, 1)), half=False) == 4 * (8 + 160 + 4 + 2 * 64)


def test_components_by_hand():
    """Weights of the actor 8 * 4 + 4 + 4 * 2 + 2, of the critic 8 * 3 + 3 + 3 + 1, normalisation 2 * 8 + 2: 95."""
    shape = mlp_spec((8, 4, 2), (8, 3, 1), space=Discrete(2), action_features=3)
    found = estimate_memory(shape, False, samples=100, batch=40, microbatch=20, pieces=2, workspace=7)
    assert (found.parameters, found.optimizer) == (4 * (95 + 3), 8 * (95 + 3)), "and 3 weights of action features"
    assert found.gradients == 2 * found.parameters, "the parameters' and the sum of two microbatches"
    row = 8 * 4 + 8 + 4 + 2 + 2 * 3 * 4 + 4 + 4 + 4  # observation, action, log-probability, mask, features, ...
    assert (found.rollout, found.indices) == (100 * row, 100 * 12)
    assert found.joining == 100 * (46 + 2 * 24 - row), "features twice, with the 46 bytes before them"
    assert found.snapshots == 2 * (found.parameters + found.optimizer), "the last good state, and that before"
    assert found.held == found.parameters + found.gradients + found.optimizer + found.snapshots + 7
    assert found.values == 100 * 4 * 3 * 8, "observations, shifted and scaled: more than a layer's"
    assert found.peak == found.held + found.rollout + max(found.indices + found.activations, found.values)
    assert estimate_memory(shape, False, 100, 40, 40, 2).gradients == found.parameters
    assert (found.crossing, found.playing) == (0, 0)
    assert estimate_memory(shape, False, 100, 40, 40, 2, on_card=True, plays=True).crossing == found.parameters
    assert estimate_memory(shape, False, 100, 40, 10, 2).gradients == 3 * found.parameters


def test_on_the_host_one_trajectory_is_not_copied():
    """Of a sample: advantage, return and value, two float64 discounts; and 40 bytes while advantages are estimated."""
    shape = mlp_spec((8, 4, 2), (8, 3, 1), space=Discrete(2), action_features=3)
    one, two = (estimate_memory(shape, False, 10_000, 4, 4, pieces, host=True) for pieces in (1, 2))
    assert (one.rollout, one.joining) == (10_000 * (3 * 4 + 16), 10_000 * 40)
    assert one.peak == one.held + 10_000 * 68
    row = 8 * 4 + 8 + 4 + 2 + 2 * 3 * 4 + 4 + 4 + 4
    assert (two.rollout, two.joining) == (10_000 * (row + 16), 10_000 * 29), "an epoch's split: 29 bytes"


def test_microbatches_that_are_worked_on_at_once_need_as_much_each():
    shape = mlp_spec((8, 4, 2), (8, 3, 1), space=Discrete(2))
    one = estimate_memory(shape, False, 100, 40, 10, 1)
    assert estimate_memory(shape, False, 100, 40, 10, 1, workers=3).activations == 3 * one.activations
    assert estimate_memory(shape, False, 100, 40, 10, 1, workers=9).activations == 4 * one.activations, "there are four"


LAYERS = [
    ((32, 128, 128, 128), (32, 256, 256, 256)),
    ((8, 64, 64), (8, 64, 64)),
    ((151, 128, 128, 128), (151, 256, 256, 256)),
    ((16, 512, 512), (16, 32, 32)),
    ((20, 32), (20, 512, 64, 16)),
    ((400, 32, 32), (400, 32, 32)),
    ((4, 16), (4, 16)),
]
SPACES = [
    Discrete(8),
    Discrete(62),
    MultiDiscrete([2] * 10),
    Discrete(300),
    MultiDiscrete([30, 20]),
    MultiDiscrete([100, 150]),
    Box([-1.0] * 6, [1.0] * 6),
    Box([-1.0] * 6, [1.0] * 6, squashed=True),
    Box([-1.0] * 40, [1.0] * 40, squashed=True),
]


def real_and_predicted(
    layers, space, precision, samples, microbatch, features=0, activation="relu", checkpointing=False
):
    """Return the bytes that a step adds to what is there before it, and those held before: real and predicted."""
    shape = mlp_spec((*layers[0], space.outputs), (*layers[1], 1), space=space, action_features=features)
    stepper, rollout, indices, weights = prepared_step(
        shape, precision, samples, microbatch, activation, checkpointing=checkpointing
    )
    copies = [] if stepper._read._copy is None else [stepper._read._copy]
    held = [stepper.model.flat, last_gradient(stepper), *optimizer_moments(stepper), *copies]
    known = [*rollout.tensors, indices, weights, *held, *stepper._state()]
    with PeakBytes(*known) as real:
        stepper.step(rollout, indices, weights)
    predicted = estimate_memory(
        shape, precision != "fp32", samples, samples, microbatch, 1, checkpointing=checkpointing
    )
    fresh = predicted.activations + predicted.gradients - 4 * shape.layout.size
    held_bytes = bytes_of([*held, *rollout.tensors, indices, weights])
    in_a_step = predicted.held + predicted.rollout + predicted.indices + predicted.activations
    return (real.peak, fresh), (held_bytes, in_a_step - predicted.snapshots - fresh)


def check(*case, **changes):
    added, held = real_and_predicted(*case, **changes)
    assert added[1] == pytest.approx(added[0], rel=0.1)
    assert held[1] == pytest.approx(held[0], rel=0.01, abs=4 * 200), "normalisations have no gradient"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("layers", LAYERS, ids=str)
@pytest.mark.parametrize("samples", [512, 4096])
def test_the_prediction_is_within_a_tenth_of_a_real_step(layers, precision, samples):
    check(layers, Discrete(8), precision, samples, samples)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_for_every_kind_of_action(space, precision):
    check(((32, 64, 64), (32, 96, 96)), space, precision, 2048, 2048)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("features", [1, 5])
def test_with_action_features(features, precision):
    check(LAYERS[2], Discrete(62), precision, 2048, 2048, features)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("microbatch", [256, 512, 1024])
def test_in_microbatches(microbatch, precision):
    """Wide layers and small microbatches: gradients of weights are as large as activations."""
    check(((16, 256, 256), (16, 512, 512)), Discrete(4), precision, 1024, microbatch)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("microbatch", [512, 2048])
@pytest.mark.parametrize("layers", LAYERS, ids=str)
def test_with_checkpointing(layers, microbatch, precision):
    check(layers, Discrete(62), precision, 2048, microbatch, features=2, checkpointing=True)


@pytest.mark.parametrize("space", SPACES[2::5], ids=str)
def test_with_checkpointing_for_other_actions(space):
    check(LAYERS[0], space, "fp32", 2048, 2048, checkpointing=True)


def test_with_tanh():
    check(LAYERS[0], Discrete(8), "fp32", 1024, 1024, activation="tanh")


def test_the_columns_of_a_rollout_are_those_that_go_up():
    shape = mlp_spec((8, 4, 5), (8, 3, 1), space=MultiDiscrete([2, 3]), action_features=2)
    rollout = rollout_of(shape, 7)
    sizes = {name: bytes_of([column]) // 7 for name, column in rollout.columns.items()}
    assert column_bytes(shape) == {name: sizes[name] for name in column_bytes(shape)}
    assert sum(sizes.values()) - sum(column_bytes(shape).values()) in (0, 4), "values of the critic, where they go up"


@pytest.mark.parametrize("features", [0, 9])
def test_joining_trajectories_needs_the_largest_column_twice(features):
    shape, pieces, steps = mlp_spec((8, 4, 30), (8, 3, 1), space=Discrete(30), action_features=features), 4, 50
    rows = rollout_of(shape, steps)
    with PeakBytes(*rows.tensors) as real:
        joined = [upload([getattr(rows, name).numpy()] * pieces, torch.device("meta")) for name in column_bytes(shape)]
    predicted = estimate_memory(shape, False, pieces * steps, 64, 64, pieces)
    assert bytes_of(joined) == predicted.rollout
    assert real.peak == predicted.rollout + predicted.joining


@pytest.mark.parametrize("width", [16, 64, 1024])
def test_the_peak_is_within_a_tenth_of_a_whole_updates(width):
    """All that an update does, with the states to go back to: half of the bytes where the network is wide."""
    updater, played, predicted = prepared_update(width)
    model = updater.model
    good = updater.guard._good
    states = [*updater.stepper._state(), good.flat, *good.optimizer, last_gradient(updater.stepper)]
    held = {t.untyped_storage()._cdata: t for t in (model.flat, *states)}
    with PeakBytes(*held.values()) as real:
        updater.update(*played, np.random.default_rng(2))
    assert predicted.peak == pytest.approx(bytes_of(held.values()) + real.peak, rel=0.1)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("layers", LAYERS, ids=str)
def test_what_the_plan_reserves_is_never_less_than_the_footprint(layers, half):
    """And not much more, where activations matter: a plan counts a line where the footprint counts moments."""
    shape = mlp_spec((*layers[0], 62), (*layers[1], 1), space=Discrete(62), action_features=2)
    for batch, microbatch in ((8192, 8192), (8192, 512), (256, 256)):
        predicted = estimate_memory(shape, half, 100_000, batch, microbatch, 6, workspace_bytes((9, 0)))
        reserved = fixed_bytes(shape, 100_000) + microbatch * bytes_of_a_sample(shape, half)
        assert predicted.held + predicted.rollout + predicted.indices + predicted.activations <= reserved
        assert reserved < 1.15 * predicted.peak


def test_the_figures_of_the_documentation():
    """The rule of thumb against a step, in docs/explanation/predictions.md; the loan desk's sizes by hand."""
    space = Discrete(62)
    for width, critic, rule, real in ((128, 256, 1, 8), (4096, 4096, 275, 132)):
        shape = mlp_spec((167, *[width] * 3, 62), (167, *[critic] * 3, 1), space=space, action_features=2)
        assert round(4 * shape.layout.size / 1000 / 1000) == rule
        assert round(bytes_of_a_sample(shape, False) / 1000) == real


class OnCard(torch.Tensor):
    """Rows that say that they lie on a GPU."""

    is_cuda = True


def test_values_before_the_update_need_no_more_than_its_steps():
    """A critic of 512 units, microbatches of 64: two layers of 4,096 samples are 16 MiB, a step has 1."""
    shape = mlp_spec((16, 32, 4), (16, 512, 512, 1), space=Discrete(4))
    stepper, rollout, *_ = prepared_step(shape, "fp32", 4096, 64)
    with PeakBytes(*rollout.tensors, stepper.model.flat) as real:
        values_of(stepper, rollout.observations.as_subclass(OnCard))
    predicted = estimate_memory(shape, False, 4096, 64, 64, 1)
    assert real.peak <= 1.1 * (predicted.activations + predicted.gradients + predicted.indices + predicted.values)
