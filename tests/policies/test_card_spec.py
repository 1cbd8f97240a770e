"""The shapes of a policy on a GPU, computed on the CPU, against the policy as it is."""

import pytest
import torch
from helpers.random_rollouts import SPACES, random_rollout
from helpers.specs import mlp_spec
from helpers.toy_runs import toy_stepper

from longstride.learning.device_transfer import DeviceBuffers, ModelTransfer
from longstride.policies.card_spec import ALIGNMENT, card_spec
from longstride.policies.networks import ActorCritic, initialise
from longstride.simulators.spaces import Discrete

SAMPLES = 64
CASES = {
    "desk": mlp_spec((151, 32, 62), (151, 64, 1), space=Discrete(62), action_features=5),
    "odd widths": mlp_spec((6, 12, 5), (6, 20, 1), space=Discrete(5), action_features=2),
    **{
        name: mlp_spec((6, 12, SPACES[name].outputs), (6, 20, 1), space=SPACES[name])
        for name in ("choices", "squashed")
    },
}


def filled(column, width, card_width):
    """Return a column on the card: rows filled up."""
    if width == card_width or column.dim() < 2 or column.shape[1] != width:
        return column
    return DeviceBuffers(torch.device("cpu")).upload([column.numpy()], width=card_width)


def both(spec):
    """Return steppers of a policy and of its shapes on a GPU, the arguments of their steps, and the transfer."""
    host = ActorCritic(spec)
    initialise(host, "orthogonal", torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in host.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    card = ActorCritic(spec, on_card=True)
    transfer = ModelTransfer(host, card)
    transfer.to_device()
    samples, on_card = random_rollout(host, SAMPLES), card_spec(spec)
    columns = {name: samples.columns[name] for name in ("masks", "features")}
    wide = samples._replace(
        observations=filled(samples.observations, spec.observation_size, on_card.observation_size),
        **{name: filled(column, spec.mask_size, on_card.mask_size) for name, column in columns.items()},
    )
    card.normalise_on_card(wide.observations)  # as a rollout is once it is there
    rest = torch.arange(SAMPLES), torch.full((SAMPLES,), 1 / SAMPLES)
    steppers = [toy_stepper(model, microbatch=SAMPLES, precision="fp32") for model in (host, card)]
    return steppers, [(samples, *rest), (wide, *rest)], transfer


def test_rows_are_multiples_of_16_bytes_in_every_format():
    spec = card_spec(CASES["desk"])
    assert (spec.observation_size, spec.action_space.n, spec.mask_size) == (152, 64, 64)
    assert card_spec(spec) == spec
    assert card_spec(CASES["choices"]).action_space == CASES["choices"].action_space


@pytest.mark.parametrize("name", CASES)
def test_tensors_begin_at_lines_of_the_cache(name):
    layout, plain = card_spec(CASES[name]).layout.aligned(ALIGNMENT), card_spec(CASES[name]).layout
    assert all(offset % 32 == 0 for offset in layout.offsets.values())
    assert not plain.has_gaps
    assert layout.has_gaps == (name != "desk")
    ends = [layout.offsets[n] + torch.Size(shape).numel() for n, shape in layout.shapes.items()]
    assert all(end <= begin for end, begin in zip(ends, [*layout.offsets.values()][1:], strict=False))
    assert layout.size == ends[-1]


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_policy_and_0_elsewhere(name):
    (plain, card), (arguments, on_card), _ = both(CASES[name])
    expected, report = plain.gradients(*arguments)
    found, same = card.gradients(*on_card)
    torch.testing.assert_close(same, report, rtol=1e-5, atol=1e-7)
    rest = found.clone()
    for part in ("actor", "critic"):
        for parameter in card.model.layout.names(part):
            gradient = card.model.own_part(card.model.layout.view(found, parameter), parameter)
            own = plain.model.layout.view(expected, parameter)
            assert own.abs().max() > 0
            torch.testing.assert_close(gradient, own, rtol=1e-4, atol=1e-6)
            card.model.own_part(card.model.layout.view(rest, parameter), parameter).zero_()
        assert not rest[card.model.layout.slice_of(part)].any()


@pytest.mark.parametrize("name", CASES)
def test_steps_and_the_way_back_are_those_of_the_policy(name):
    (plain, card), (arguments, on_card), transfer = both(CASES[name])
    expected = ActorCritic(CASES[name])
    expected.flat.copy_(plain.model.flat.detach())
    reference = toy_stepper(expected, microbatch=SAMPLES, precision="fp32")
    for _ in range(5):
        reference.step(*arguments)
        card.step(*on_card)
    transfer.to_host()
    torch.testing.assert_close(plain.model.flat, expected.flat, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_checkpoints_do_not_tell_a_card_from_a_cpu(name):
    """Moments by name have the shapes of the policy itself, and go either way."""
    (plain, card), (_, on_card), _ = both(CASES[name])
    card.step(*on_card)
    saved = card.optimizer_tensors()
    plain.load_optimizer_tensors(saved)
    loaded = plain.optimizer_tensors()
    assert saved.keys() == loaded.keys()
    for tensor in saved:
        assert torch.equal(saved[tensor], loaded[tensor])
    card.load_optimizer_tensors({})
    assert card.optimizer_tensors() == {}
    card.load_optimizer_tensors(loaded)
    assert all(torch.equal(tensor, saved[each]) for each, tensor in card.optimizer_tensors().items())


def test_the_place_of_a_rollout_is_kept_with_its_zeros():
    buffers, rows = DeviceBuffers(torch.device("cpu")), torch.ones(3, 5).numpy()
    buffers.use(keep=True)
    first = buffers.upload([rows, 2 * rows], "observations", 8)
    again = buffers.upload([3 * rows], "observations", 8)
    assert first.data_ptr() == again.data_ptr()
    assert torch.equal(again[:, :5], torch.full((3, 5), 3.0))
    assert not again[:, 5:].any()
