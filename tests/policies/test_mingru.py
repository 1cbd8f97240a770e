"""A layer with memory against its formulas one step after the other; resets, derivatives, and both ways to scan."""

import numpy as np
import pytest
import torch
from helpers.memory_models import memory_model, memory_spec, some_begins
from oracles.slow_memory import SlowNetwork, layer_in_order

from longstride.errors import UserError
from longstride.policies.families.mingru.network import _Scan, remember, scan
from longstride.policies.memory import Memory, Steps
from longstride.policies.networks import ActorCritic, initialise
from longstride.policies.spec import CHUNK
from longstride.policies.spec_json import spec_from_json, spec_to_json

BY_ROUNDS, BY_STEPS = "rounds", "steps"


@pytest.fixture(params=[BY_ROUNDS, BY_STEPS])
def scanned(request, monkeypatch):
    """Choose how the steps of a chunk are scanned."""
    if request.param == BY_ROUNDS:
        monkeypatch.setattr("longstride.policies.families.mingru.network._step_by_step", lambda tensor: False)
    return request.param


def layer(steps, units=5, chunks=1, dtype=torch.float64, seed=0):
    """Return inputs, weight, bias and start states of a layer, all random."""
    rng = np.random.default_rng(seed)
    shapes = (chunks * steps, units), (units, 3 * units), (3 * units,), (chunks, units)
    scales = 1.0, units**-0.5, 0.5, 1.0
    return [torch.from_numpy(rng.normal(0, s, shape)).to(dtype) for shape, s in zip(shapes, scales, strict=True)]


def expected_of(arguments, begins, chunks):
    """Return outputs and states of a layer by the oracle, from chunks of the same length."""
    x, weight, bias, start = (tensor.double().numpy() for tensor in arguments)
    pieces = zip(np.split(x, chunks), np.split(begins, chunks), start, strict=True)
    found = [layer_in_order(rows, weight, bias, state, begin) for rows, begin, state in pieces]
    return np.concatenate([outputs for outputs, _ in found]), np.stack([states for _, states in found])


PLACES = {
    "none": [()],
    "the first": [(0,)],
    "the last": [(-1,)],
    "one after another": [(3, 4, 5)],
    "all": [range(40)],
    "of several chunks": [(0, 1, 7), (), (2, -1)],
}


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("steps", [1, 2, 3, 16, 37])
def test_a_layer_is_its_formulas_step_by_step(scanned, dtype, error, places, steps):
    arguments, chunks = layer(steps, chunks=len(places), dtype=dtype, seed=steps), len(places)
    begins = np.concatenate([some_begins(steps, *(p % steps for p in each)) for each in places])
    outputs, states = remember(*arguments, torch.from_numpy(begins))
    slow_outputs, slow_states = expected_of(arguments, begins, chunks)
    assert np.abs(outputs.numpy() - slow_outputs).max() < error
    assert np.abs(states.numpy() - slow_states).max() < error
    assert (outputs.dtype, states.dtype, states.shape) == (dtype, dtype, (chunks, steps, 5))


@pytest.mark.parametrize("seed", range(6))
def test_any_number_of_chunks_steps_units_and_resets(scanned, seed):
    rng = np.random.default_rng(seed)
    chunks, steps, units = int(rng.integers(1, 5)), int(rng.integers(1, 140)), int(rng.integers(1, 9))
    begins = rng.random((chunks * steps, 1)) < 0.1
    arguments = layer(steps, units, chunks, seed=seed)
    outputs, states = remember(*arguments, torch.from_numpy(begins))
    slow_outputs, slow_states = expected_of(arguments, begins, chunks)
    assert np.abs(outputs.numpy() - slow_outputs).max() < 1e-12
    assert np.abs(states.numpy() - slow_states).max() < 1e-12


def test_thousands_of_steps_in_float32(scanned):
    """Some units keep a state for longer than the chunk."""
    arguments = layer(4096, units=16, dtype=torch.float32)
    arguments[2][:4] = -9.0
    begins = some_begins(4096, 700)
    outputs, states = remember(*arguments, torch.from_numpy(begins))
    slow_outputs, slow_states = expected_of(arguments, begins, 1)
    assert np.abs(outputs.numpy() - slow_outputs).max() < 1e-5
    assert np.abs(states.numpy() - slow_states).max() < 1e-5


@pytest.mark.parametrize("cuts", [(64,), (1, 2, 50), (40, 80)])
def test_chunks_that_begin_with_the_states_before_them_are_the_whole(scanned, cuts):
    x, weight, bias, start = layer(120)
    begins = torch.from_numpy(some_begins(120, 30, 80))
    whole, states = remember(x, weight, bias, start, begins)
    state, outputs = start, []
    for rows, of in zip(*(torch.tensor_split(t, cuts) for t in (x, begins)), strict=True):
        found, after = remember(rows, weight, bias, state, of)
        state = after[:, -1]
        outputs.append(found)
    assert (torch.cat(outputs) - whole).abs().max() < 1e-12
    assert (state - states[:, -1]).abs().max() < 1e-12


@pytest.mark.parametrize("place", [1, 17, 63])
def test_nothing_from_before_a_reset_is_left_to_the_bit(scanned, place):
    """The states before are changed, too, and are large."""
    x, weight, bias, start = layer(64, dtype=torch.float32)
    begins = torch.from_numpy(some_begins(64, place))
    one, states = remember(x, weight, bias, start, begins)
    other_x = x.clone()
    other_x[:place] = 1e3 * torch.randn(place, 5, generator=torch.Generator().manual_seed(1))
    other, other_states = remember(other_x, weight, bias, 1e6 * start, begins)
    assert torch.equal(one[place:], other[place:])
    assert torch.equal(states[:, place:], other_states[:, place:])
    assert not torch.equal(one[:place], other[:place])


@pytest.mark.parametrize("place", [1, 17, 63])
def test_no_gradient_crosses_a_reset(scanned, place):
    x, weight, bias, start = layer(64)
    x, start = x.requires_grad_(), start.requires_grad_()
    outputs, _ = remember(x, weight, bias, start, torch.from_numpy(some_begins(64, place)))
    after = torch.autograd.grad(outputs[place:].square().sum(), (x, start), retain_graph=True)
    assert not after[0][:place].any()
    assert not after[1].any()
    assert (after[0][place:] != 0.0).any(dim=1).all()
    before = torch.autograd.grad(outputs[:place].square().sum(), (x, start))
    assert before[0][:place].any()
    assert before[1].any()
    assert not before[0][place:].any(), "and what comes later has no influence"


@pytest.mark.parametrize("steps", [1, 2, 5, 8])
def test_the_derivatives_of_the_scan_are_those_of_differences(scanned, steps):
    generator = torch.Generator().manual_seed(steps)
    kept, added = (torch.randn(2, steps, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    start = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    kept[0, steps // 2] = 0.0
    inputs = [tensor.requires_grad_() for tensor in (kept, added, start)]
    assert torch.autograd.gradcheck(_Scan.apply, inputs)


@pytest.mark.parametrize("places", [(), (0,), (2, 3), (5,)])
def test_the_derivatives_of_a_layer_are_those_of_differences(scanned, places):
    arguments = [tensor.requires_grad_() for tensor in layer(3, units=3, chunks=2)]
    begins = torch.from_numpy(some_begins(6, *places))
    assert torch.autograd.gradcheck(lambda *inputs: remember(*inputs, begins), arguments)


def test_both_scans_have_the_same_derivatives(monkeypatch):
    found = []
    for by_steps in (True, False):
        monkeypatch.setattr(
            "longstride.policies.families.mingru.network._step_by_step", lambda tensor, chosen=by_steps: chosen
        )
        arguments = [tensor.requires_grad_() for tensor in layer(100, chunks=3)]
        outputs, states = remember(*arguments, torch.from_numpy(some_begins(300, 10, 100, 150, 299)))
        found.append(torch.autograd.grad(outputs.square().sum() + states.sin().sum(), arguments))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)


def test_a_scan_of_a_view_of_the_steps_backwards():
    """The gradient that torch hands over need not lie in one piece."""
    kept, added = (torch.rand(2, 7, 3, dtype=torch.float64) for _ in range(2))
    start = torch.rand(2, 3, dtype=torch.float64)
    inputs = [tensor.requires_grad_() for tensor in (kept, added, start)]
    of_a_view = torch.autograd.grad((_Scan.apply(*inputs).transpose(0, 1)[::2] ** 2).sum(), inputs)
    by_torch = torch.autograd.grad((scan(*inputs).transpose(0, 1)[::2] ** 2).sum(), inputs)
    for one, other in zip(of_a_view, by_torch, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("part", ["actor", "critic"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_network_is_its_layers_one_after_another(scanned, part, activation):
    """From states that are not 0, with observations beyond the clip."""
    model = memory_model(memory_spec(activation=activation))
    rng, slow = np.random.default_rng(2), SlowNetwork(model, part)
    observations, start = (rng.normal(0, s, shape).astype(np.float32) for s, shape in ((5, (50, 6)), (1, (1, 48))))
    start, begins = start[:, : slow.state_size], some_begins(50, 20, 21)
    memory = Memory(torch.from_numpy(start), torch.from_numpy(begins))
    with torch.no_grad():
        normalised = model.normalise(torch.from_numpy(observations))
        found = model.logits(normalised, memory=memory) if part == "actor" else model.values(normalised, memory=memory)
    expected = slow.play(observations, begins, start[0].astype(np.float64)).outputs
    np.testing.assert_allclose(found.numpy().reshape(50, -1), expected, rtol=1e-4, atol=2e-5)


def test_the_states_of_the_critic_after_each_step():
    model = memory_model(memory_spec())
    observations, begins = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32), some_begins(30, 0, 12)
    memory = Memory(torch.zeros(1, 48), torch.from_numpy(begins))
    every = Steps(torch.zeros(30, dtype=torch.int64), torch.arange(30))
    values, states = model.values_and_states(model.normalise(torch.from_numpy(observations)), memory, every)
    slow = SlowNetwork(model, "critic").play(observations, begins)
    np.testing.assert_allclose(states.detach().numpy(), slow.states[1:], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(values.detach().numpy(), slow.outputs[:, 0], rtol=1e-4, atol=1e-5)


def test_without_a_memory_each_observation_begins_an_episode():
    model = memory_model(memory_spec())
    rows = torch.randn(9, 6, generator=torch.Generator().manual_seed(0))
    every = Memory(torch.zeros(1, 32), torch.ones(9, 1, dtype=torch.bool))
    torch.testing.assert_close(model.logits(rows), model.logits(rows, memory=every), rtol=0, atol=1e-6)


def test_units_remember_for_one_to_a_chunk_of_steps():
    """The logarithms of the times are uniform: half of them are below the root of a chunk."""
    model = ActorCritic(memory_spec(actor=(512, 512)))
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    for _, bias in model.layers("actor")[1:-1]:
        times = (-bias[:512]).detach().exp()
        assert 1.0 <= times.min() < 1.1
        assert 0.9 * CHUNK < times.max() <= CHUNK + 1e-3
        assert float(times.median()) == pytest.approx(CHUNK**0.5, rel=0.3)
        assert not bias[512:].any()


def test_the_blocks_of_a_matrix_are_drawn_each_for_itself():
    model = ActorCritic(memory_spec())
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    for weight, _ in model.layers("actor")[1:-1]:
        for block in torch.split(weight.detach(), 16, dim=1):
            torch.testing.assert_close(block.T @ block, 2.0 * torch.eye(16), rtol=0, atol=1e-5)


def test_a_spec_with_memory_goes_through_json_and_one_of_before_has_none():
    spec = memory_spec()
    assert spec_from_json(spec_to_json(spec)) == spec
    values = {name: value for name, value in spec_to_json(spec).items() if name != "family"}
    assert not spec_from_json(values).has_memory
    assert (spec.state_size, spec.critic_state_size, spec.chunk) == (32, 48, CHUNK)
    assert spec.matrices["actor"] == [(6, 16), (16, 48), (16, 48), (16, 5)]


def test_layers_of_different_widths_are_refused_by_the_compiled_actor():
    from longstride.policies.compiled.forward import build_forward

    with pytest.raises(UserError, match="one width"):
        build_forward(memory_spec(actor=(16, 8)))
