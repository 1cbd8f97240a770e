"""Copies of parameters in half precision: against autocast, what stays in float32."""

import pytest
import torch
from helpers.random_rollouts import SPACES, random_rollout
from helpers.specs import mlp_spec
from helpers.toy_runs import toy_stepper

from longstride.learning.algorithms.interface import PolicyOutputs
from longstride.policies.networks import ActorCritic, initialise

SAMPLES = 96
NARROW = (6, 16, 24), (6, 24)
"""Layers of actor and critic but their last."""


def step_of(space="discrete", layers=NARROW, features=0, precision="bf16", **changes):
    """Return a stepper of a model with such layers, and the arguments of its steps."""
    sizes = (*layers[0], SPACES[space].outputs), (*layers[1], 1)
    model = ActorCritic(mlp_spec(*sizes, "tanh", space=SPACES[space], action_features=features))
    generator = torch.Generator().manual_seed(0)
    initialise(model, "orthogonal", generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    weights = torch.rand(SAMPLES, generator=generator)
    stepper = toy_stepper(model, microbatch=SAMPLES, precision=precision, **changes)
    return stepper, (random_rollout(model, SAMPLES), torch.arange(SAMPLES), weights / weights.sum())


def under_autocast(stepper, samples, weights):
    """Return the model's gradients by name where autocast computes the hidden layers."""
    model = stepper.model

    def network(part):
        *hidden, (weight, bias) = model.layers(part)
        x = model.normalise(samples.observations)
        with torch.autocast("cpu", torch.bfloat16):
            for w, b in hidden:
                x = model.activation(torch.addmm(b, x, w))
        return torch.addmm(bias, x.float(), weight)

    logits, values = network("actor"), network("critic").squeeze(-1)
    if model.spec.action_features:
        logits = logits + torch.einsum("bok,k->bo", samples.features, model.tensors["actor.feature_weights"])
    evaluated = model.distribution(logits, model.log_std, samples.masks, samples.actions)
    outputs = PolicyOutputs(logits, *evaluated, values)
    total = stepper.algorithm.loss(outputs, samples, weights, stepper.algorithm.coefficients).total
    names = [name for part in ("actor", "critic") for name in model.layout.names(part)]
    return dict(zip(names, torch.autograd.grad(total, [model.tensors[name] for name in names]), strict=True))


def gradients_of(stepper, arguments):
    flat, layout = stepper.gradients(*arguments)[0], stepper.model.layout
    return {name: layout.view(flat, name) for part in ("actor", "critic") for name in layout.names(part)}


@pytest.mark.parametrize("layers", [NARROW, ((8, 16, 24), (8, 24)), ((13, 16, 16, 16), (13, 32))], ids=str)
@pytest.mark.parametrize(("space", "features"), [("discrete", 0), ("discrete", 3), ("gaussian", 0), ("squashed", 0)])
def test_gradients_are_those_of_autocast(space, features, layers):
    """To the bit where no features are summed up in another order."""
    stepper, arguments = step_of(space, layers, features)
    expected = under_autocast(stepper, arguments[0], arguments[2])
    found = gradients_of(stepper, arguments)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert gradient.abs().max() > 1e-4, name
        torch.testing.assert_close(found[name], gradient, rtol=2e-2, atol=1e-3 * float(gradient.abs().max()), msg=name)
    if not features:
        assert [name for name, gradient in expected.items() if not torch.equal(found[name], gradient)] == []


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_hidden_layers_may_have_any_width(precision):
    stepper, arguments = step_of(layers=((6, 20, 20), (6, 20, 20)), precision=precision)
    assert stepper.gradients(*arguments)[1].isfinite().all()


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_networks_without_hidden_layers_compute_in_float32(precision):
    stepper, arguments = step_of("gaussian", layers=((6,), (6,)), precision=precision)
    exact, _ = step_of("gaussian", layers=((6,), (6,)), precision="fp32")
    assert all(leaf is stepper.model.tensors[name] for name, leaf in stepper._read.leaves.items())
    scale = stepper.scaler.get_scale() if precision == "fp16" else 1.0
    expected = gradients_of(exact, arguments)
    for name, gradient in gradients_of(stepper, arguments).items():
        torch.testing.assert_close(gradient / scale, expected[name], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("space", "features"), [("discrete", 2), ("gaussian", 0), ("squashed", 0), ("choices", 0)])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_heads_deviations_and_weights_of_features_stay_in_float32(space, features, precision):
    stepper, _ = step_of(space, features=features, precision=precision)
    leaves, tensors = stepper._read.leaves, stepper.model.tensors
    hidden = {f"actor.{i}.{kind}" for i in (0, 1) for kind in ("weight", "bias")} | {"critic.0.weight", "critic.0.bias"}
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    assert {name for name, leaf in leaves.items() if leaf.dtype == half} == hidden
    assert all(leaves[name] is tensors[name] for name in leaves.keys() - hidden)
    assert {"actor.log_std", "actor.feature_weights"} & tensors.keys() <= leaves.keys()


def test_in_float32_the_parameters_are_read_themselves():
    stepper, _ = step_of(precision="fp32")
    assert all(leaf is stepper.model.tensors[name] for name, leaf in stepper._read.leaves.items())


def test_copies_follow_the_parameters():
    """Also those that are restored or loaded, which no step tells of."""
    stepper, arguments = step_of()
    for change in (lambda: stepper.step(*arguments), lambda: stepper.model.flat.data.mul_(1.5)):
        before = stepper.model.tensors["actor.1.weight"].detach().clone()
        change()
        stepper.gradients(*arguments)
        assert not torch.equal(before, stepper.model.tensors["actor.1.weight"])
        for name, leaf in stepper._read.leaves.items():
            parameter = stepper.model.tensors[name].detach()
            assert torch.equal(leaf, parameter.to(leaf.dtype)), name


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("space", "features"), [("discrete", 2), ("gaussian", 0), ("squashed", 0), ("choices", 0)])
def test_gradients_are_copied_as_cuda_does_in_one_launch(space, features, precision, checkpointing, monkeypatch):
    """Equal sizes and strides, one number format on each side (foreach_tensor_copy_list_kernel_cuda_)."""
    copy, lists = torch._foreach_copy_, []
    monkeypatch.setattr(torch, "_foreach_copy_", lambda *both: lists.append(both) or copy(*both))
    stepper, arguments = step_of(space, features=features, precision=precision, checkpointing=checkpointing)
    stepper.step(*arguments)
    assert len(lists) == {"fp32": 1, "bf16": 2}[precision]
    for targets, sources in lists:
        assert len({t.dtype for t in targets}) == len({s.dtype for s in sources}) == 1
        for target, source in zip(targets, sources, strict=True):
            assert (target.shape, target.stride()) == (source.shape, source.stride())
            assert target.is_contiguous()
