"""The power-of-two minibatch, and the predicted bytes against a real step."""

import pytest
import torch
from helpers.peak_memory import PeakBytes
from helpers.toy_runs import toy_stepper
from hypothesis import given
from hypothesis import strategies as st

from core.hardware.memory import LARGEST_BATCH, SAFETY, auto_batch_size, sample_bytes
from core.policy.networks import ActorCritic, initialise
from core.simulators.spaces import Box, MultiDiscrete
from core.update.loss import Batch
from core.update.step import gather


@given(st.integers(1, 10**7), st.integers(0, 2 * 10**11), st.integers(1, 10**5), st.integers(1, 65_536))
def test_the_batch_is_the_largest_power_of_two_within_every_limit(samples, free, per_sample, largest):
    batch = auto_batch_size(samples, free, per_sample, largest)
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
    assert auto_batch_size(samples, free, per_sample, largest) == expected
    assert LARGEST_BATCH == 65_536


def test_bytes_of_a_sample_by_hand():
    """Observation 8 x 4; hidden (64 + 64 + 32) x 4; 4 logits x 25 + 64; two gradients of 64 x 4: together 1348."""
    assert sample_bytes((8, 64, 4), (8, 64, 32, 1), half=False) == 32 + 640 + 164 + 512


def real_step(actor, critic, precision, samples, space=None):
    """Return bytes a sample at the peak of a step and of what autograd keeps, both without weights and gradients."""
    model = ActorCritic(actor, critic, "relu", space=space)
    space = model.space
    generator = torch.Generator().manual_seed(0)
    initialise(model, "orthogonal", generator)
    rollout = Batch(
        observations=torch.randn(samples, actor[0], generator=generator),
        actions=torch.zeros(samples, *space.shape, dtype=torch.int64 if space.choices else torch.float32),
        log_probs=torch.full((samples,), -1.0),
        masks=torch.ones(samples, sum(space.choices), dtype=torch.bool),
        advantages=torch.randn(samples, generator=generator),
        returns=torch.randn(samples, generator=generator),
        values=torch.randn(samples, generator=generator),
        features=torch.zeros(samples, sum(space.choices), 0),
        weights=torch.empty(0),
    )
    indices, weights = torch.arange(samples), torch.full((samples,), 1 / samples)
    stepper = toy_stepper(model, microbatch=samples, precision=precision)
    known = {tensor.untyped_storage()._cdata for tensor in (model.flat, *rollout, indices, weights)}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in known and tensor.shape[:1] == (samples,):
            kept[storage._cdata] = storage.nbytes()
        return tensor

    with PeakBytes(model.flat, *rollout, indices, weights) as peak:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            total = stepper.loss(gather(rollout, indices, weights)).total
        torch.autograd.grad(total, list(model.parameters()))
    return (peak.peak - 4 * model.layout.size) / samples, sum(kept.values()) / samples


SIZES = [
    ((32, 128, 128, 128, 8), (32, 256, 256, 256, 1)),
    ((8, 64, 64, 4), (8, 64, 64, 1)),
    ((20, 256, 256, 16), (20, 512, 512, 1)),
]


@pytest.mark.parametrize(("actor", "critic"), SIZES)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_prediction_is_within_a_quarter_of_a_real_step(actor, critic, precision):
    peak, kept = real_step(actor, critic, precision, 4096)
    predicted = sample_bytes(actor, critic, precision != "fp32")
    assert kept < peak, "the measure itself"
    assert predicted == pytest.approx(peak, rel=0.25)
    assert predicted > kept


def test_many_actions_and_observations_are_not_predicted_too_low():
    sizes = (200, 64, 64, 100), (200, 64, 64, 1)
    assert sample_bytes(*sizes, half=False) > 0.9 * real_step(*sizes, "fp32", 2048)[0]


@pytest.mark.parametrize(
    "space",
    [
        MultiDiscrete([2] * 10),
        MultiDiscrete([30, 20]),
        Box([-1.0] * 6, [1.0] * 6),
        Box([-1.0] * 6, [1.0] * 6, squashed=True),
        Box([-1.0] * 40, [1.0] * 40, squashed=True),
    ],
    ids=str,
)
def test_other_actions_are_not_predicted_too_low(space):
    actor, critic = (32, 128, 128, space.outputs), (32, 256, 256, 1)
    peak, _ = real_step(actor, critic, "fp32", 4096, space)
    predicted = sample_bytes(actor, critic, False, space)
    assert 0.9 * peak < predicted < 1.5 * peak
