"""The work of a step and of an update against what is counted while a real step runs."""

import numpy as np
import pytest
import torch
from helpers.counted_work import CountedWork
from helpers.real_steps import prepared_step
from helpers.specs import mlp_spec
from torch.utils.flop_counter import FlopCounterMode

from longstride.hardware.planning.gpu_catalog import find_card
from longstride.hardware.planning.roofline import binding, seconds
from longstride.learning.step_costs.columns import column_bytes
from longstride.learning.step_costs.count import count_gradient
from longstride.learning.step_costs.counter import OperationCounter, total
from longstride.learning.step_costs.work import step_work, update_work
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete


def of_a_product(bias, inputs, weight, **_):
    """Return the operations of a product with its activation, which torch's counter does not list."""
    return 2 * inputs[0] * inputs[1] * weight[1]


PRODUCTS = {torch.ops.aten._addmm_activation: of_a_product}

SHAPES = {
    "small": mlp_spec((32, 128, 128, 128, 8), (32, 256, 256, 256, 1), space=Discrete(8)),
    "features": mlp_spec((151, 64, 64, 62), (151, 96, 96, 1), space=Discrete(62), action_features=5),
    "wide": mlp_spec((16, 512, 512, 4), (16, 32, 32, 1), space=Discrete(4)),
    "desk": mlp_spec((151, *(128,) * 3, 62), (151, *(256,) * 3, 1), space=Discrete(62), action_features=2),
    "choices": mlp_spec((32, 64, 50), (32, 96, 1), space=MultiDiscrete([30, 20])),
    "many choices": mlp_spec((32, 64, 64, 20), (32, 96, 96, 1), space=MultiDiscrete([2] * 10)),
    "box": mlp_spec((32, 64, 64, 6), (32, 96, 96, 1), space=Box([-1.0] * 6, [1.0] * 6)),
    "squashed": mlp_spec((32, 64, 64, 6), (32, 96, 96, 1), space=Box([-1.0] * 6, [1.0] * 6, squashed=True)),
}


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("name", SHAPES)
def test_the_work_of_a_step_is_what_is_counted(name, precision, parts, checkpointing):
    shape, batch = SHAPES[name], 512
    stepper, rollout, indices, weights = prepared_step(
        shape, precision, batch, batch // parts, checkpointing=checkpointing, on_card=True
    )
    with CountedWork() as real, FlopCounterMode(display=False, custom_mapping=PRODUCTS) as flops:
        stepper.step(rollout, indices, weights)
    predicted = step_work(shape, precision != "fp32", batch, batch // parts, checkpointing=checkpointing)
    assert predicted.launches == pytest.approx(real.launches, rel=0.02)
    assert predicted.traffic == pytest.approx(real.traffic, rel=0.02)
    products = 6 * batch * 64 * 5 if shape.action_features else 0  # of action features, not predicted
    assert flops.get_total_flops() - products <= predicted.flops + predicted.wide_flops + products
    assert predicted.flops + predicted.wide_flops <= flops.get_total_flops()


def test_kernels_read_what_was_there_and_write_what_stays():
    """Three operations in two launches: neither of what lies between them is read or written."""
    x, weights = torch.ones(101, 4), torch.ones(4)
    counter = OperationCounter({101: 1.0}, half=False)
    with counter:
        sums = counter.in_kernels(lambda x: ((x + 1.0) * weights).sum(dim=1), 2)(x)
        torch.neg(sums)
    costs = total(counter.operations)
    assert costs.launches == 2 + 1
    assert costs.sums.traffic == (4 * (4 + 1) + 4 * 2, 4 * 4)


def test_a_storage_at_the_address_of_a_freed_one_is_counted():
    """NumPy's arrays come in without an operation, and allocators reuse their addresses at once."""
    counter = OperationCounter({101: 1.0}, half=False)
    with counter:
        results = [torch.from_numpy(np.ones(64)) + 1.0 for _ in range(50)]
    assert max(counter.alive).fixed == 8 * 64 * len(results)


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("name", ["small", "features", "squashed"])
def test_the_launches_of_captured_steps_are_one_and_the_rest_is_replayed(name, parts):
    sizes = SHAPES[name], False, 512, 512 // parts
    for captured, plain in (("graph", "eager"), ("torch_compile_graph", "torch_compile")):
        one, many = step_work(*sizes, captured), step_work(*sizes, plain)
        assert (one.launches, one.replayed, many.replayed) == (1, many.launches, 0)
        assert (one.flops, one.traffic) == (many.flops, many.traffic)


@pytest.mark.parametrize(("name", "kernels"), [("small", 14 + 22), ("features", 11 + 16), ("squashed", 12 + 16)])
def test_the_launches_of_compiled_steps_are_near_those_of_the_cpus_code(name, kernels):
    """Fused kernels and matrix products that torch 2.13 made for a CPU in float32, and what it leaves outside."""
    shape = SHAPES[name]
    stepper, rollout, indices, weights = prepared_step(shape, "fp32", 512, 512)
    with CountedWork() as step:
        stepper.step(rollout, indices, weights)
    samples = rollout.at(indices)
    with CountedWork() as inside:
        torch.autograd.grad(stepper.loss(samples, weights).total, list(stepper.model.parameters()))
    outside = step.launches - inside.launches
    assert step_work(shape, False, 512, 512, "torch_compile").launches == pytest.approx(outside + kernels, rel=0.1)


@pytest.mark.parametrize(
    ("name", "half", "counted"),
    [
        *(("small", False, 55_140), ("small", True, 31_780), ("box", False, 15_940), ("box", True, 9_860)),
        *(("desk", False, 63_190), ("desk", True, 38_650)),
    ],
)
def test_the_traffic_of_compiled_steps_is_that_of_the_compilers_code(name, half, counted):
    """Bytes a sample that torch 2.13's compiler counts for the code that it makes of the loss and its gradient.

    From ``metrics.num_bytes_accessed`` of torch._inductor, with minibatches of 512 and 1,024 on a CPU.
    """
    gathered = 2 * sum(column_bytes(SHAPES[name]).values())
    assert count_gradient(SHAPES[name], half, False).compiled.sums.traffic.per_row - gathered == pytest.approx(
        counted, rel=0.05
    )


def test_an_update_by_hand():
    """100 samples in minibatches of 30 are 4 of 25, three times over; the critic's values once, in one piece."""
    shape = mlp_spec((8, 4, 16), (8, 5, 1), space=Discrete(16))
    work, step = update_work(shape, False, 100, 30, 30, 3), step_work(shape, False, 25, 30)
    assert work.steps == 12
    products, biases = 2 * (2 * 8 * 4 + 2 * 8 * 5) + 3 * (2 * 4 * 16 + 2 * 5), 2 * (4 + 16 + 5)
    assert work.flops == 12 * step.flops == 12 * 25 * (products + biases)
    assert work.wide_flops == 100 * 2 * (8 * 5 + 5)
    in_half = update_work(shape, True, 100, 30, 30, 3)
    heads = 12 * 25 * (3 * (2 * 4 * 16 + 2 * 5) + 2 * 16)
    assert in_half.wide_flops == heads + work.wide_flops, "heads stay in float32"
    assert work.launches == 12 * step.launches + 3 + 2 * 2 - 1, "shifted, scaled, clipped; two products, one activation"
    row = 8 * 4 + 8 + 4 + 16 + 4 + 4 + 4
    parameters = 8 * 4 + 4 + 4 * 16 + 16 + 8 * 5 + 5 + 5 + 1 + 2 * 8 + 2
    assert work.transfers == 100 * row + 2 * 4 * parameters


@pytest.mark.parametrize(
    ("shape", "card", "batch", "precision", "binds"),
    [
        (SHAPES["small"], "H100", 8192, "bf16", "launches"),
        (SHAPES["small"], "L4", 65_536, "bf16", "traffic"),  # 2.6 GB at 300 GB/s, and 196 launches
        (mlp_spec((64, 4096, 4096, 8), (64, 4096, 4096, 1), space=Discrete(8)), "H100", 8192, "fp32", "arithmetic"),
    ],
)
def test_what_binds(shape, card, batch, precision, binds):
    work = update_work(shape, precision != "fp32", 60_000, batch, batch, 1)
    assert binding(seconds(work, find_card(card), precision, False)) == binds
