"""Runs a real minibatch step, and the forward passes around updates, once under the counter of operations."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from longstride.hardware.operations import Amount, Cost, Operations
from longstride.learning.algorithms.interface import Loss, Samples
from longstride.learning.step_costs.counter import OperationCounter, total
from longstride.learning.step_costs.fusion import fused
from longstride.learning.step_costs.line import Line
from longstride.learning.step_costs.samples import PPO, NoAdam, new_samples, new_stepper, sizes_for
from longstride.learning.steps.interface import report_columns
from longstride.learning.steps.loss_slopes.choose import LAUNCHES, Kernels
from longstride.policies.batched_forward import build_step
from longstride.policies.card_spec import card_spec
from longstride.policies.families.torch_families import TORCH_FAMILIES
from longstride.policies.memory import Memory
from longstride.policies.networks import ActorCritic
from longstride.policies.spec import PolicySpec


class Costs(NamedTuple):
    """What some operations cost, and the bytes that they hold at their peaks beside what was there before."""

    total: Operations
    peaks: tuple[Amount, ...]

    def peak(self, rows: float) -> int:
        """Return the most bytes that the operations hold with a number of rows."""
        return max(each.of(rows) for each in self.peaks)


class GradientCosts(NamedTuple):
    """What a microbatch's gradient costs, operation by operation, and with loss and gradient compiled by torch."""

    eager: Costs
    compiled: Operations


@cache
def count_gradient(
    spec: PolicySpec, half: bool, checkpointing: bool, on_card: bool = False, triton: bool = False
) -> GradientCosts:
    """Return the costs of a microbatch's gradient, in half precision or not, as a GPU computes it or a CPU.

    The spec has the shapes of that device. With ``checkpointing`` the backward pass computes activations again; with
    ``triton`` kernels replace the operations of torch for which there are some.
    """
    loops = TORCH_FAMILIES[spec.family.name].loops
    lengths = Line.counted if loops else (spec.chunk,)
    few, *longer = (_gradient(spec, steps, half, checkpointing, on_card, triton) for steps in lengths)
    if not longer:
        return few
    line, [more] = Line(spec.chunk), longer
    eager = Costs(line.total(few.eager.total, more.eager.total), line.peaks(few.eager.peaks, more.eager.peaks))
    return GradientCosts(eager, line.total(few.compiled, more.compiled))


def _gradient(
    spec: PolicySpec, steps: int, half: bool, checkpointing: bool, on_card: bool = False, triton: bool = False
) -> GradientCosts:
    """Return the same, counted with chunks of so many steps."""
    sizes = sizes_for(spec, steps)
    rollout = new_samples(spec, sizes)
    indices = torch.arange(sizes.units, device=sizes.device)
    weights = torch.zeros(sizes.units, device=sizes.device)
    stepper = new_stepper(spec, sizes, half, checkpointing, NoAdam, on_card)
    with OperationCounter(sizes.rows, half, sizes.listed) as counter, torch.enable_grad():
        begins: list[int] = []

        def loss_of(samples: Samples, weights: Tensor, tensors: Mapping[str, Tensor]) -> Loss:
            begins.append(len(counter.operations))
            return stepper.loss(samples, weights, tensors)

        stepper.use_loss(loss_of)
        loss = stepper.loss_of(rollout, indices, weights)
        gradients = stepper.gradients_of(loss)
        end = len(counter.operations)
        stepper.report_of(loss, gradients)
    [begin] = begins
    compiled = fused(counter.operations[begin:end])
    outside = (*counter.operations[:begin], *counter.operations[end:])
    if stepper.has_slopes:  # which torch's compiler is not given
        stepper.use_loss(None)
        stepper.microbatch_gradient(rollout, indices, weights)  # makes what is kept
        with OperationCounter(sizes.rows, half, sizes.listed) as counter, torch.enable_grad():
            stepper.kernels = _counted(counter) if triton else stepper.kernels
            stepper.microbatch_gradient(rollout, indices, weights)
    return GradientCosts(Costs(total(counter.operations), _peaks(counter.alive)), total(outside).plus(compiled))


def _counted(counter: OperationCounter) -> Kernels:
    """Return torch's operations, counted as the kernels that replace them."""
    functions = Kernels()._asdict()
    return Kernels(**{name: counter.in_kernels(functions[name], launches) for name, launches in LAUNCHES.items()})


class StepCosts(NamedTuple):
    """What a step costs beside the gradients of its microbatches: once, and for each of them but the first."""

    once: Operations
    joining: Operations


@cache
def count_step(spec: PolicySpec, half: bool, triton: bool = False) -> StepCosts:
    """Return the costs of a step on a GPU beside its gradients: copies of parameters, clipping, Adam, its report."""
    spec = card_spec(spec)
    sizes = sizes_for(spec, spec.chunk)
    stepper = new_stepper(spec, sizes, half, False, on_card=True)
    found, other = (
        (torch.zeros_like(stepper.model.flat), torch.zeros(len(report_columns(PPO)), device=sizes.device))
        for _ in range(2)
    )
    with OperationCounter(sizes.rows, half, sizes.listed) as counter:
        stepper.kernels = _counted(counter) if triton else stepper.kernels
        stepper.added(found, other)
        end = len(counter.operations)
        stepper.refresh()
        stepper.apply(*found)
    return StepCosts(once=total(counter.operations[end:]), joining=total(counter.operations[:end]))


@cache
def count_values(spec: PolicySpec) -> Costs:
    """Return the costs of the critic's values of observations, in float32 whatever is planned, without a gradient."""
    loops = TORCH_FAMILIES[spec.family.name].loops
    few, *longer = (_values(spec, steps) for steps in (Line.counted if loops else (spec.chunk,)))
    if not longer:
        return few
    line, [more] = Line(spec.chunk), longer
    return Costs(line.total(few.total, more.total), line.peaks(few.peaks, more.peaks))


def _values(spec: PolicySpec, steps: int) -> Costs:
    """Return the same, counted with chunks of so many steps."""
    sizes = sizes_for(spec, steps)
    observations, memory = new_samples(spec, sizes).observations, None
    model = ActorCritic(spec, sizes.device)
    if spec.has_memory:
        states = torch.zeros(sizes.units, spec.critic_state_size, device=sizes.device)
        memory = Memory(states, torch.zeros(len(observations), 1, dtype=torch.bool, device=sizes.device))
    with OperationCounter({sizes.units: 1.0 / sizes.steps}, half=True) as counter, torch.no_grad():
        model.values(model.normalise(observations), memory=memory)
    return Costs(total(counter.operations), _peaks(counter.alive))


@cache
def count_answers(spec: PolicySpec, bf16_states: bool = False) -> Operations:
    """Return the costs of the actor's answers to a batch of single steps, whose states may be in BF16.

    Copies over the bus are operations that move nothing in the card's memory.
    """
    sizes = sizes_for(spec, 1)
    step = build_step(spec, torch.zeros(spec.layout.actor_size, device=sizes.device))
    in_place, dtype = TORCH_FAMILIES[spec.family.name].in_place, torch.bfloat16 if bf16_states else torch.float32
    width = in_place.width(spec, dtype) if in_place else spec.state_size
    observations = torch.zeros(sizes.units, spec.observation_size, device=sizes.device)
    states = torch.zeros(sizes.units, width, dtype=dtype, device=sizes.device)
    begins = torch.zeros(sizes.units, 1, dtype=torch.bool, device=sizes.device)
    with OperationCounter({sizes.units: 1.0}, half=bf16_states) as counter, torch.no_grad():
        step(observations, begins, states)
    copies = [Cost()] * (2 + spec.has_memory)  # observations and outputs; the beginnings of episodes
    return total(counter.operations).plus(Operations.of(copies))


def _peaks(alive: Iterable[Amount]) -> tuple[Amount, ...]:
    """Return the amounts that are the largest ones for some number of rows, and perhaps others."""
    peaks: list[Amount] = []
    for each in sorted(alive, reverse=True):
        if not peaks or each.fixed > peaks[-1].fixed:
            peaks.append(each)
    return tuple(peaks)
