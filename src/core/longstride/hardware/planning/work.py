"""Work of an update by the policy and the way of its steps: arithmetic, memory traffic, launches, transfers.

The work is that of eager steps: operations and the bytes that each reads and writes, as if nothing stayed in the cache.
Captured steps differ by their launches, compiled ones by launches and by what their fused kernels do not write and read
again.
"""

from dataclasses import dataclass
from itertools import pairwise

from longstride.hardware.planning.activation_memory import column_bytes
from longstride.hardware.planning.update_memory import value_rows
from longstride.hardware.types import CAPTURED, COMPILED_BY_TORCH, Execution
from longstride.policies.parameter_layout import layout_of
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import Box, MultiDiscrete

_SAMPLE_TRAFFIC = 700
"""Bytes for each sample of the loss's single numbers."""

_BASE_LAUNCHES, _ONCE_A_STEP = 125, 17
"""Operations of a step beside those of the hidden layers; of them, those that microbatches do not repeat."""

_LAUNCHES_OF_LISTS = 40
"""Operations that gather lists of actions and score them, about, not measured."""

_LAUNCHES_OF_MEMORY, _TRAFFIC_OF_MEMORY = 121, 1060
"""Operations of a layer with memory, and the bytes that they read and write for each of its units and samples, counted
with the scan of a GPU; its product of matrices is counted as that of another layer."""

_AROUND_A_FORWARD, _AROUND_STATES, _FORWARD_OF_MEMORY = 6, 1, 21
_AROUND_BLOCKS, _FORWARD_OF_BLOCK = 47, 59
"""Operations of an actor's forward pass for single steps: beside its hidden layers, for states, and of a layer with
memory; beside the blocks of a transformer, and of a block. Counted on the fake card."""

_FORWARD_SHARE = 0.43
"""Share of both that is the forward pass."""

_LAUNCHES_OF_BLOCK, _LAUNCHES_OF_BLOCK_AGAIN, _LAUNCHES_OF_CASTS = 93, 37, 14
"""Operations of a transformer's block, of its second forward pass, and of its casts in half precision."""

_TRAFFIC_OF_BLOCK, _TRAFFIC_OF_HIDDEN, _TRAFFIC_OF_MASK = 640, 47, 8
"""Bytes that they read and write for each unit, hidden unit and step that can be seen of a row, with its products of
matrices; counted on the CPU."""

_LAUNCHES_OF_VIEW = 38
"""Operations that say what the steps of a network see of each other, once for all blocks."""

_OUTSIDE_LOSS = 32
"""Operations of a step that torch's compiler does not see: gathering, adding up, clipping, Adam."""


@dataclass(frozen=True)
class Work:
    """Work of an update."""

    flops: int  # floating-point operations of matrix products in the planned precision
    wide_flops: int  # floating-point operations in float32, of the heads and of the values before the update
    traffic: int  # bytes that operations read and write in the card's memory
    launches: int  # by the host
    steps: int  # of the optimiser
    transfers: int  # bytes over the bus
    replayed: int = 0  # operations of graphs, which the host does not launch one by one


def step_work(
    spec: PolicySpec,
    half: bool,  # whether matrix products run in BF16 or FP16
    batch: int,  # samples of the minibatch
    microbatch: int,  # most samples in one forward pass
    execution: Execution = "eager",
    checkpointing: bool = False,  # whether the backward pass computes activations again
) -> Work:
    """Return the work of one minibatch."""
    parts = -(-batch // microbatch)
    hidden, heads = _matrix_flops(spec)
    again = _computed_again(spec, half) if checkpointing else (0, 0, 0)
    once = compiled_launches(spec) if execution in COMPILED_BY_TORCH else step_launches(spec, half)
    operations = once + (parts - 1) * (once - _ONCE_A_STEP) + parts * again[2]
    captured = execution in CAPTURED
    per_sample = (compiled_traffic if execution in COMPILED_BY_TORCH else sample_traffic)(spec, half)
    rows = round(batch * spec.rows_per_sample)
    return Work(
        flops=(hidden + again[0]) * rows,
        wide_flops=heads * rows,
        traffic=(per_sample + again[1]) * rows + _parameter_traffic(spec, half, parts, checkpointing),
        launches=1 if captured else operations,
        steps=1,
        transfers=0,
        replayed=operations if captured else 0,
    )


def update_work(
    spec: PolicySpec,
    half: bool,
    samples: int,
    batch: int,
    microbatch: int,
    epochs: int,
    execution: Execution = "eager",
    checkpointing: bool = False,
) -> Work:
    """Return the work of an update: the critic's values of all samples, then the epochs; see :func:`step_work`."""
    steps = epochs * -(-samples // batch)
    step = step_work(spec, half, -(-samples // -(-samples // batch)), microbatch, execution, checkpointing)
    critic = spec.matrices["critic"]
    values = sum(4 * (a + 3 * b) for a, b in critic) + 24 * spec.critic_sizes[0]
    return Work(
        flops=step.flops * steps,
        wide_flops=step.wide_flops * steps + sum(2 * a * b for a, b in critic) * samples,
        traffic=step.traffic * steps + values * samples,
        launches=step.launches * steps + (4 + 2 * len(critic)) * -(-samples // value_rows(spec, samples)),
        steps=steps,
        transfers=sum(column_bytes(spec).values()) * samples + 2 * 4 * layout_of(spec).size,
        replayed=step.replayed * steps,
    )


def step_launches(spec: PolicySpec, half: bool) -> int:
    """Return the operations of an eager step in one piece."""
    layers = len(spec.actor_sizes) + len(spec.critic_sizes) - 4
    if spec.scores_actions:
        return _BASE_LAUNCHES + (8 if half else 0) + layers * 6 + _LAUNCHES_OF_LISTS
    launches = _BASE_LAUNCHES + (8 if half else 0) + layers * 6 + _launches_of_memory(spec, half)
    if isinstance(spec.action_space, Box):
        return launches + (39 if spec.action_space.squashed else 4)
    multiple = 5 + 23 * (len(spec.action_space.choices) - 1) if isinstance(spec.action_space, MultiDiscrete) else 0
    return launches + multiple + (5 if spec.action_features else 0)


def forward_operations(spec: PolicySpec) -> int:
    """Return the operations of the actor's forward pass for a batch of single steps, copies over the bus included."""
    layers = len(spec.matrices["actor"]) - 1
    if not spec.has_memory:
        return _AROUND_A_FORWARD + 2 * layers
    if spec.family.name == "transformer":
        return _AROUND_A_FORWARD + _AROUND_BLOCKS + _FORWARD_OF_BLOCK * len(spec.actor_hidden)
    return _AROUND_A_FORWARD + 2 + _AROUND_STATES + _FORWARD_OF_MEMORY * (layers - 1)


def compiled_launches(spec: PolicySpec) -> int:
    """Return about how many operations a step in one piece has whose loss torch compiles.

    The matrix products stay; about two fused kernels a layer replace the rest of loss and gradient. That is what torch
    2.13 makes for the CPU (10 to 13 kernels for 6 layers, 14 to 18 for 8), taken for a GPU's.
    """
    layers = len(spec.actor_sizes) + len(spec.critic_sizes) - 2
    return _OUTSIDE_LOSS + (3 * layers - 2) + 2 * layers + _launches_of_memory(spec, False)


def sample_traffic(spec: PolicySpec, half: bool) -> int:
    """Return the bytes that the operations of a step read and write for each sample.

    A hidden layer reads its input and writes its output; the activation reads and writes. The backward pass does the
    same twice, and the bias adds the gradients up. The first layer has no gradient of its input.
    """
    observation = (32 + (12 if half else 0)) * spec.observation_size  # gathered, shifted, scaled, clipped; cast twice
    return _layer_traffic(spec, half, 24 if half else 12) + observation + _distribution_traffic(spec) + _SAMPLE_TRAFFIC


def compiled_traffic(spec: PolicySpec, half: bool) -> int:
    """Return the same where torch compiles the loss: what lies between the products of matrices is fused.

    Within 3 % of the bytes that torch 2.13's compiler counts for its own code, to which the gathering is added.
    """
    outputs, features = spec.action_space.outputs, spec.action_features
    fused = 12 * spec.observation_size + outputs * (45 + 16 * features) + 350
    return _layer_traffic(spec, half, 16 if half else 12) + fused + 2 * sum(column_bytes(spec).values())


def _layer_traffic(spec: PolicySpec, half: bool, head: int) -> int:
    """Return the bytes a sample of all layers; ``head`` are those of a unit before a head, with the casts around it."""
    number, total = 2 if half else 4, 0
    for sizes in (spec.actor_sizes, spec.critic_sizes):
        for layer, (inputs, units) in enumerate(pairwise(sizes[:-1])):
            if layer and spec.family.name == "transformer":
                total += _block_traffic(spec, half, units)
                continue
            total += number * (2 * inputs + 8 * units + (inputs + units if layer else 0))
        total += head * sizes[-2] + (_TRAFFIC_OF_MEMORY * sum(sizes[2:-1]) if spec.family.name == "mingru" else 0)
    return total


def _launches_of_memory(spec: PolicySpec, half: bool) -> int:
    """Return the operations of layers with memory, or of blocks, beyond those of other layers."""
    layers = len(spec.actor_hidden) + len(spec.critic_hidden)
    if spec.family.name == "transformer":
        return layers * (_LAUNCHES_OF_BLOCK - 6 + (_LAUNCHES_OF_CASTS if half else 0)) + 2 * _LAUNCHES_OF_VIEW
    return layers * _LAUNCHES_OF_MEMORY if spec.has_memory else 0


def _block_traffic(spec: PolicySpec, half: bool, units: int) -> int:
    """Return the bytes a row of a transformer's block; half-precision copies save a little."""
    seen = spec.context_length + spec.context + spec.chunk
    hidden = spec.feed_forward_factor * units
    whole = _TRAFFIC_OF_BLOCK * units + _TRAFFIC_OF_HIDDEN * hidden + _TRAFFIC_OF_MASK * seen
    return round(0.95 * whole) if half else whole


def _attention_flops(spec: PolicySpec, units: int) -> int:
    """Return the floating-point operations a row, forward, of scores and of what the heads find."""
    return 4 * units * (spec.context_length + spec.context + spec.chunk) if spec.family.name == "transformer" else 0


def _distribution_traffic(spec: PolicySpec) -> int:
    """Return the bytes a sample of distribution and head outputs, counted operation by operation."""
    space, outputs = spec.action_space, spec.action_space.outputs
    if spec.scores_actions:
        return round(spec.expected_actions * (40 * spec.action_features + 48 * spec.score_units + 200))
    if isinstance(space, Box):
        return outputs * (2160 if space.squashed else 152)
    several = 88 * len(space.choices) + 8 * outputs if isinstance(space, MultiDiscrete) else 0
    return 174 * outputs + several + 38 * outputs * spec.action_features


def _matrix_flops(spec: PolicySpec) -> tuple[int, int]:
    """Return the floating-point operations a sample, forward and backward, of hidden layers and of heads."""
    hidden = heads = 0
    for part, matrices in spec.matrices.items():
        products = [2 * a * b for a, b in matrices]
        hidden += 3 * sum(products[:-1]) - products[0]  # no gradient of the observations
        heads += 3 * products[-1]
        widths = spec.actor_hidden if part == "actor" else spec.critic_hidden
        hidden += round(3.5 * sum(_attention_flops(spec, units) for units in widths))  # scores are computed again
    if spec.scores_actions:
        heads += round(6 * spec.expected_actions * spec.score_units * (spec.action_features + spec.score_units + 1))
    return hidden, heads


def _computed_again(spec: PolicySpec, half: bool) -> tuple[int, int, int]:
    """Return operations, bytes and launches of the hidden layers' second forward pass: a sample, a sample, a piece."""
    number, traffic, launches = 2 if half else 4, 0, 0
    flops = 2 * spec.actor_sizes[-2] * spec.actor_sizes[-1] if spec.action_features else 0  # of what they are added to
    if spec.family.name == "transformer":
        return _blocks_again(spec, half, flops)
    for sizes in (spec.actor_sizes, spec.critic_sizes):
        layers = list(pairwise(sizes[:-1]))
        remembering = len(layers) - 1 if spec.has_memory else 0
        flops += sum(2 * a * b for a, b in layers) + sum(4 * a * b for a, b in layers[1:] if remembering)
        traffic += sum(number * (a + 3 * b) for a, b in layers) + (6 * (sizes[0] + sizes[-2]) if half else 0)
        launches += len(layers) * 2 + (2 if half else 0) + round(_FORWARD_SHARE * _LAUNCHES_OF_MEMORY) * remembering
        traffic += round(_FORWARD_SHARE * _TRAFFIC_OF_MEMORY) * sum(sizes[2:-1]) if remembering else 0
    return flops, traffic, launches


def _blocks_again(spec: PolicySpec, half: bool, flops: int) -> tuple[int, int, int]:
    """Return the same of a transformer: operations beyond some, bytes, launches."""
    traffic = launches = 0
    for part, sizes in (("actor", spec.actor_sizes), ("critic", spec.critic_sizes)):
        flops += sum(2 * a * b for a, b in spec.matrices[part][:-1])
        flops += sum(_attention_flops(spec, units) for units in sizes[2:-1])
        traffic += round(_FORWARD_SHARE * sum(_block_traffic(spec, half, units) for units in sizes[2:-1]))
        launches += (len(sizes) - 3) * _LAUNCHES_OF_BLOCK_AGAIN + _LAUNCHES_OF_VIEW
    return flops, traffic, launches


def _parameter_traffic(spec: PolicySpec, half: bool, parts: int, checkpointing: bool) -> int:
    """Return the bytes of parameters, gradients and Adam's moments in a step."""
    number = 2 if half else 4
    once = (1 + 7) * 4 + (4 + 2 if half else 0)  # norm, Adam, copies in half precision
    each = 3 * number + number + 4 + (number if checkpointing else 0)  # products, and their gradients made one tensor
    return layout_of(spec).size * (once + each * parts + 3 * 4 * (parts - 1))
