"""Whether a step can be captured: the host waits for nothing, copies nothing, and every step is like the one before."""

import sys

import pytest
import torch
from helpers.random_rollouts import SPACES, random_model, random_rollout
from helpers.toy_runs import columns_of, toy_coefficients, toy_stepper
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from longstride.learning.steps.cuda_graph import GraphBuffers
from longstride.learning.steps.interface import report_columns
from longstride.policies.networks import ActorCritic

READS = {"_local_scalar_dense", "item", "is_nonzero", "equal", "allclose", "is_pinned", "_pin_memory"}
DEPENDS_ON_DATA = {
    *("nonzero", "nonzero_numpy", "masked_select", "unique", "_unique2", "unique_dim", "unique_consecutive"),
    *("repeat_interleave", "bincount", "histc", "argwhere"),
}
FROM_THE_HOST = {"lift_fresh", "lift_fresh_copy", "from_file"}
"""What torch.tensor and torch.from_numpy come down to."""


class Capturable(TorchDispatchMode):
    """Refuses what a capture cannot hold, and writes down what is left, with shapes, formats and places.

    Attributes:
        operations: name, and of each tensor among arguments and results shape, dtype and stride.
    """

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if name in READS | DEPENDS_ON_DATA | FROM_THE_HOST:
            raise AssertionError(f"a capture cannot hold {func}")
        if name.startswith("index") and any(t.dtype in (torch.bool, torch.uint8) for t in tensors[1:]):
            raise AssertionError(f"the shape of {func} by a mask depends on data")
        if name in ("_to_copy", "copy_", "to") and kwargs.get("device") not in (None, *(t.device for t in tensors)):
            raise AssertionError(f"{func} copies from one device to another")
        result = func(*args, **kwargs)
        tensors += [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        self.operations.append((str(func), [(t.shape, t.dtype, t.stride()) for t in tensors]))
        return result


def buffers_for(stepper, device):
    return GraphBuffers.empty(4, 64, len(report_columns(stepper.algorithm)), torch.device(device))


def prepared(space, **changes):
    """Return a stepper that has taken a step, slots with minibatches in them, and a rollout."""
    model = random_model(space, features=2 if space == "discrete" else 0)
    stepper, rollout = toy_stepper(model, **{"microbatch": 16, **changes}), random_rollout(model, 128)
    slots = buffers_for(stepper, "cpu")
    slots.step(stepper, rollout)
    slots.indices.copy_(torch.arange(256).reshape(4, 64) % 128)
    slots.weights.fill_(1 / 64)
    return stepper, slots, rollout


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("microbatch", [64, 24])
@pytest.mark.parametrize("space", SPACES)
def test_a_step_is_capturable_and_like_every_other(space, microbatch, precision):
    stepper, slots, rollout = prepared(space, precision=precision, microbatch=microbatch)
    steps = []
    for advantage in (1.0, torch.inf, -1.0):  # also where it is skipped
        rollout.advantages[3] = advantage
        with Capturable() as mode:
            slots.step(stepper, rollout)
        steps.append(mode.operations)
    assert len(steps[0]) > 100
    assert steps[0] == steps[1] == steps[2]
    skipped = columns_of(stepper, slots.reports)["skipped"].tolist()
    assert skipped == [1.0, 0.0 if precision != "fp16" else skipped[1], 1.0, 0.0]


@pytest.mark.parametrize("space", SPACES)
def test_what_changes_between_steps_lies_where_it_lay(space):
    """Weights, moments, scale, learning rates, coefficients and slots: a graph has their addresses."""
    stepper, slots, rollout = prepared(space, precision="fp16")

    def places():
        rates = [adam.param_groups[0]["lr"] for adam in stepper.optimizer._optimizers.values()]
        tensors = *stepper.model.parameters(), *stepper._state(), *stepper._coefficients, *rates
        return [t.data_ptr() for t in (*tensors, *slots, stepper.scaler._scale, stepper.scaler._growth_tracker)]

    before = places()
    for number in (0.1, 0.2):
        stepper.set_coefficients(toy_coefficients(number, clip_range=number, entropy_coefficient=number))
        slots.step(stepper, rollout)
        stepper.load_optimizer_tensors({n: t.clone() for n, t in stepper.optimizer_tensors().items()})
        stepper.scaler.load_state_dict(stepper.scaler.state_dict())
    assert places() == before


@pytest.mark.parametrize("space", SPACES)
def test_everything_that_a_step_makes_lies_on_the_device(space, monkeypatch):
    """On the device "meta", which has no numbers to read and mixes with no tensor of the host."""
    optimizers = sys.modules["torch.optim.optimizer"]
    monkeypatch.setattr(optimizers, "_get_fused_kernels_supported_devices", lambda: ["meta"])
    host = random_model(space)
    model = ActorCritic(host.spec, "meta")
    stepper = toy_stepper(model, microbatch=16)
    rollout = random_rollout(host, 64).map(lambda column: column.to("meta"))
    slots = buffers_for(stepper, "meta")
    for _ in range(2):
        with Devices() as mode:
            slots.step(stepper, rollout)
    assert mode.seen == {"meta"}


class Devices(TorchDispatchMode):
    """Writes down where the tensors of operations lie; Adam's kernel, which this device has not, is left out."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        adam = func.overloadpacket is torch.ops.aten._fused_adam_
        result = None if adam else func(*args, **(kwargs or {}))
        tensors = tree_leaves((args, kwargs) if adam else result)
        self.seen |= {x.device.type for x in tensors if isinstance(x, torch.Tensor)}
        return result


@pytest.mark.parametrize(
    "forbidden",
    [
        lambda x: x[0].item(),
        lambda x: bool(x[0] > 0),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: torch.tensor([1.0, 2.0]),
        lambda x: x.to("meta"),
        lambda x: x.masked_select(x > 0),
    ],
)
def test_the_guard_finds_what_cannot_be_captured(forbidden):
    x = torch.randn(4)
    with pytest.raises(AssertionError), Capturable():
        forbidden(x)
