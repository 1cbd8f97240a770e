"""A transformer's chunks against its formulas one step after the other; resets, rings, derivatives."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.memory_models import memory_model, some_begins
from helpers.transformer_models import transformer_spec
from oracles.slow_transformer import SlowTransformer, turns_per_step

from longstride.policies.families.mlp.family import MLP
from longstride.policies.families.torch_family import HiddenInputs
from longstride.policies.families.transformer import network
from longstride.policies.families.transformer.rotary import rotations
from longstride.policies.memory import Memory, Steps
from longstride.policies.networks import ActorCritic, initialise
from longstride.policies.spec import CHUNK
from longstride.policies.spec_json import spec_from_json, spec_to_json

SPECS = {
    "usual": transformer_spec(),
    "relu, three blocks": transformer_spec(3, widths=(12, 8), layers=3, activation="relu", attention=(7, 2, 1)),
    "one head of all": transformer_spec(2, widths=(6, 2), layers=1, attention=(16, 1, 4)),
    "the present alone": transformer_spec(attention=(1, 2, 2)),
}


def observed(spec, steps, seed=0):
    """Return observations of which some are clipped."""
    observations = np.random.default_rng(seed).normal(0, 2, (steps, spec.observation_size)).astype(np.float32)
    observations[::11] *= np.float32(50.0)
    return observations


def last_block(model, part, observations, memory, after=None, dtype=torch.float64):
    """Return the head's outputs and the states after some steps; everything is computed in a number format."""
    layers = [tuple(tensor.detach().to(dtype) for tensor in pair) for pair in model.layers(part)]
    mean, scale = (model.tensors[f"observation_{name}"].to(dtype) for name in ("mean", "scale"))
    limit = model.spec.observation_limit if part == "actor" else 10.0
    normalised = ((torch.from_numpy(observations).to(dtype) - mean) * scale).clamp(-limit, limit)
    memory = memory._replace(states=memory.states.to(dtype))
    hidden, states = network.hidden(HiddenInputs(model.spec, normalised, layers[:-1], model.activation, memory, after))
    return torch.addmm(layers[-1][1], hidden, layers[-1][0]), states


def no_state(spec, part="actor", chunks=1):
    """Return the states with which episodes begin."""
    return torch.zeros(chunks, spec.state_size if part == "actor" else spec.critic_state_size)


def all_after(chunks, *places):
    """Return one step of each chunk."""
    return Steps(torch.arange(chunks), torch.tensor([*places]))


PLACES = {"none": (), "the first": (0,), "the last": (39,), "one after another": (11, 12, 13), "all": range(40)}


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("name", SPECS)
def test_a_network_is_its_formulas_step_by_step(name, places, dtype, error):
    """Over many times the window, for which the oracle knows neither ring nor turned keys."""
    model, begins = memory_model(SPECS[name]), some_begins(40, *places)
    observations = observed(model.spec, 40)
    for part in ("actor", "critic"):
        memory = Memory(no_state(model.spec, part), torch.from_numpy(begins))
        outputs, _ = last_block(model, part, observations, memory, dtype=dtype)
        slow = SlowTransformer(model, part).play(observations, begins)
        assert np.abs(outputs.numpy() - slow).max() < error * max(np.abs(slow).max(), 1.0)
        assert outputs.dtype == dtype


@pytest.mark.parametrize("seed", range(6))
def test_any_number_of_chunks_steps_and_resets_from_states_that_are_not_zero(seed):
    """Each stream makes some steps one after another, as in play; the rest are a chunk that begins with its state."""
    rng, model = np.random.default_rng(seed), memory_model(SPECS["usual"], seed)
    chunks, steps = int(rng.integers(1, 4)), int(rng.integers(1, 90))
    before = [int(count) for count in rng.integers(1, 45, chunks)]
    pieces, states, expected = [], [], []
    for stream, count in enumerate(before):
        observations, begins = observed(model.spec, count + steps, stream), rng.random((count + steps, 1)) < 0.1
        begins[0] = True
        memory = Memory(no_state(model.spec), torch.from_numpy(begins[:count]))
        states.append(last_block(model, "actor", observations[:count], memory, all_after(1, count - 1))[1])
        pieces.append((observations[count:], begins[count:]))
        expected.append(SlowTransformer(model, "actor").play(observations, begins)[count:])
    observations, begins = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    memory = Memory(torch.cat(states), torch.from_numpy(begins))
    outputs, _ = last_block(model, "actor", observations, memory)
    assert np.abs(outputs.numpy() - np.concatenate(expected)).max() < 1e-11


@pytest.mark.parametrize("cuts", [(64,), (1, 2, 50), (40, 80), (5, 10, 15)])
def test_chunks_that_begin_with_the_states_before_them_are_the_whole(cuts):
    model, begins = memory_model(SPECS["usual"]), some_begins(120, 30, 80)
    observations = observed(model.spec, 120)
    whole, end = last_block(
        model,
        "critic",
        observations,
        Memory(no_state(model.spec, "critic"), torch.from_numpy(begins)),
        all_after(1, 119),
    )
    state, outputs = no_state(model.spec, "critic"), []
    for rows, of in zip(*(np.split(each, cuts) for each in (observations, begins)), strict=True):
        found, state = last_block(
            model, "critic", rows, Memory(state, torch.from_numpy(of)), all_after(1, len(rows) - 1)
        )
        outputs.append(found)
    assert (torch.cat(outputs) - whole).abs().max() < 1e-12
    assert (state - end).abs().max() < 1e-12


@pytest.mark.parametrize("name", SPECS)
def test_steps_of_context_take_the_place_of_the_state(name):
    """So many that nothing depends on what was before them, and not one less."""
    model = memory_model(SPECS[name])
    spec, observations, begins = model.spec, observed(SPECS[name], 100), torch.from_numpy(some_begins(100))
    whole, _ = last_block(model, "actor", observations, Memory(no_state(spec), begins))
    assert spec.context == len(spec.actor_hidden) * (spec.context_length - 1)
    for context in {spec.context, max(spec.context - 1, 0)}:
        rows = observations[60 - context :]
        found, _ = last_block(model, "actor", rows, Memory(no_state(spec), begins[60 - context :]))
        same = (found[context:] - whole[60:]).abs().amax(dim=1) < 1e-12
        assert bool(same.all()) == (context == spec.context)


@pytest.mark.parametrize("place", [1, 17, 63])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_from_before_a_reset_is_left_to_the_bit(place, dtype):
    """The state before is changed, too, and is large."""
    model, begins = memory_model(SPECS["usual"]), torch.from_numpy(some_begins(64, place))
    observations, state = observed(model.spec, 64), torch.randn(no_state(model.spec).shape)
    state[:, -1] = 13.0
    other, other_state = observations.copy(), 1e3 * state
    other[:place] = 30.0 * np.random.default_rng(1).normal(size=(place, 6))
    other_state[:, -1] = 8.0
    end = all_after(1, 63)
    one, after = last_block(model, "actor", observations, Memory(state, begins), end, dtype)
    two, other_after = last_block(model, "actor", other, Memory(other_state, begins), end, dtype)
    assert torch.equal(one[place:], two[place:])
    assert torch.equal(after, other_after)
    assert not torch.equal(one[:place], two[:place])


@pytest.mark.parametrize("place", [1, 17, 30])
def test_no_gradient_crosses_a_reset_and_none_comes_from_later_steps(place):
    spec = SPECS["usual"]
    layers = [tuple(tensor.detach().double() for tensor in pair) for pair in memory_model(spec).layers("actor")[:-1]]
    x = torch.randn(32, 6, dtype=torch.float64, requires_grad=True)
    state = torch.randn(1, spec.state_size, dtype=torch.float64)
    state[:, -1] = 9.0
    state.requires_grad_()
    begins = torch.from_numpy(some_begins(32, place))
    outputs, _ = network.hidden(HiddenInputs(spec, x, layers, torch.tanh, Memory(state, begins)))
    after = torch.autograd.grad(outputs[place:].cos().sum(), (x, state), retain_graph=True)
    assert not after[0][:place].any()
    assert not after[1].any()
    assert (after[0][place:] != 0.0).any(dim=1).all()
    before = torch.autograd.grad(outputs[:place].cos().sum(), (x, state))
    assert (before[0][:place] != 0.0).any(dim=1).all()
    assert before[1].any()
    assert not before[0][place:].any()


def test_the_derivatives_are_those_of_differences():
    """By observations, parameters and the state before the chunks, across a reset and the end of the window."""
    spec = transformer_spec(2, widths=(4, 4), attention=(3, 1, 1))
    layers = [tensor.detach().double() for pair in memory_model(spec).layers("actor")[:-1] for tensor in pair]
    state, x = torch.randn(2, spec.state_size, dtype=torch.float64), torch.randn(12, 2, dtype=torch.float64)
    begins, ages = torch.from_numpy(some_begins(12, 8)), torch.tensor([[4.0], [2.0]], dtype=torch.float64)

    def outputs(x, state, *tensors):
        pairs = list(zip(tensors[::2], tensors[1::2], strict=True))
        memory = Memory(torch.cat([state, ages], dim=1), begins)
        return network.hidden(HiddenInputs(spec, x, pairs, torch.tanh, memory, all_after(2, 5, 4)))

    inputs = [tensor.clone().requires_grad_() for tensor in (x, state[:, :-1], *layers)]
    assert torch.autograd.gradcheck(outputs, inputs)


@pytest.mark.parametrize("age", [0, 1, 4, 5, 9, 19, 20, 123_457])
def test_the_age_of_a_state_goes_in_a_circle_that_changes_nothing(age):
    """After 4 windows it goes back to 2: the slots and the turns are the same."""
    spec, rng = SPECS["usual"], np.random.default_rng(age)
    window, model = spec.context_length, memory_model(spec)
    small = age if age < 4 * window else 2 * window + age % (2 * window)
    state = torch.from_numpy(rng.normal(size=(1, spec.state_size)))
    observations, begins = observed(spec, 20), torch.from_numpy(some_begins(20))
    found = []
    for number in (age, small):
        state[0, -1] = number
        found.append(last_block(model, "actor", observations, Memory(state, begins), all_after(1, 19)))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
    assert found[0][1][0, -1] < 4 * window


@pytest.mark.parametrize(("window", "size"), [(1, 2), (5, 8), (20, 32), (64, 32)])
def test_a_product_of_turned_values_depends_on_their_distance_alone(window, size):
    cosines, sines = rotations(window, size)
    turned = cosines + 1j * sines
    assert turned.shape == (2 * window, size // 2)
    for step in (0, 1, window - 1, 3 * window + 2):
        for back in range(window):
            product = turned[step % (2 * window)] * np.conj(turned[(step - back) % (2 * window)])
            np.testing.assert_allclose(product, np.exp(1j * turns_per_step(window, size) * back), atol=1e-12)


def test_without_a_memory_each_observation_begins_an_episode():
    model = memory_model(SPECS["usual"])
    rows = torch.randn(9, 6, generator=torch.Generator().manual_seed(0))
    every = Memory(no_state(model.spec), torch.ones(9, 1, dtype=torch.bool))
    torch.testing.assert_close(model.logits(rows), model.logits(rows, memory=every), rtol=0, atol=1e-6)


def test_initial_blocks_add_little_to_the_residual_values():
    """Each matrix is drawn for itself; what is added, in four places here, has half the size."""
    model = ActorCritic(transformer_spec())
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    for number, (weight, bias) in enumerate(model.layers("actor")[1:-1]):
        for block in torch.split(weight.detach(), 16, dim=1) if number % 4 == 0 else [weight.detach()]:
            gains = torch.linalg.svdvals(block)
            torch.testing.assert_close(gains, torch.full_like(gains, 2.0**0.5 * (0.5 if number % 2 else 1.0)))
        assert not bias.any()


def test_a_spec_goes_through_json_and_knows_its_sizes():
    spec = transformer_spec()
    assert spec_from_json(spec_to_json(spec)) == spec
    assert spec.state_size == 2 * 2 * 5 * 16 + 1
    assert spec.critic_state_size == 2 * 2 * 5 * 24 + 1
    assert spec.matrices["actor"] == [(6, 16), *2 * [(16, 48), (16, 16), (16, 32), (32, 16)], (16, 5)]
    assert (spec.has_memory, spec.chunk, spec.context) == (True, CHUNK, 8)


def test_states_are_kept_where_context_would_be_longer_than_a_chunk():
    short, longer = transformer_spec(attention=(65, 2, 1)), transformer_spec(attention=(66, 2, 1))
    assert (short.context, short.kept_states(300), short.kept_states(0)) == (128, 1, 0)
    assert (longer.context, longer.kept_states(300)) == (0, 3)
    assert replace(short, family=MLP).context == 0
