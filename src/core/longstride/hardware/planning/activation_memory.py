"""Bytes that are alive at each stage of an update's step: the peak is the largest.

A step gathers the samples of a microbatch, normalises their observations, runs actor and critic, evaluates the
distribution of the actions and the loss, and goes back through the critic and then the actor. Autograd keeps what the
backward pass reads and releases it on the way back, while gradients grow.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from longstride.policies.families.transformer.family import block
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import ActionSpace, Box, MultiDiscrete

_SCALARS = 16 * 4
"""Bytes of a sample's single numbers in the loss: log-probability, ratio, value and what follows from them."""

_QUADRATURE_POINTS = 16
"""Points of the quadrature for the entropy of a squashed Gaussian."""


class MemoryStage(NamedTuple):
    """Bytes alive at one stage: for each sample of the microbatch, and independent of their number."""

    per_sample: int
    fixed: int

    def bytes(self, samples: int) -> int:
        """Return the bytes with a microbatch of some samples."""
        return self.per_sample * samples + self.fixed


REMEMBERED, REMEMBERING = 33, 28
"""Bytes of a unit with memory that the backward pass reads: its input and eight numbers more; and those of its products
and of the scan at the peak. A block's queries, keys, values and their turns take as much at the peak."""


class LayerBytes(NamedTuple):
    """Bytes of a sample in a layer with memory, or a transformer's block."""

    kept: int  # what the backward pass reads
    working: int  # beside it at the peak


def layer_bytes(spec: PolicySpec, units: int, half: bool) -> LayerBytes:
    """Return the bytes of a layer with memory, or of a block, of so many units."""
    if spec.family.name != "transformer":
        return LayerBytes((REMEMBERED + (2 if half else 0)) * units, REMEMBERING * units)
    number, hidden = 2 if half else 4, spec.feed_forward_factor * units
    before = spec.context_length / (spec.context + spec.chunk)  # keys and values before the chunk, for each of its rows
    kept = units * (7 * number + 8) + round(2 * number * before * units) + number * hidden
    working = max(REMEMBERING * units, 2 * number * hidden + 8 * units) + round(8 * before * units)
    return LayerBytes(kept, working)


def mask_bytes(spec: PolicySpec, half: bool) -> int:
    """Return the bytes of a row of what a transformer's steps see, which all blocks of a network share."""
    if spec.family.name != "transformer":
        return 0
    return (2 if half else 4) * (spec.context_length + spec.context + spec.chunk)


def parameter_count(matrices: Sequence[tuple[int, int]]) -> int:
    """Return the number of parameters of layers whose weights have so many rows and columns."""
    return sum((inputs + 1) * outputs for inputs, outputs in matrices)


def column_bytes(spec: PolicySpec) -> dict[str, int]:
    """Return the bytes of a sample in each column of a rollout on the device, in the order in which they go up."""
    space, listed = spec.action_space, spec.expected_actions if spec.scores_actions else spec.mask_size
    numbers = space.outputs if isinstance(space, Box) else 2 * len(space.choices)  # float32 numbers or int64 choices
    return {
        "observations": 4 * spec.actor_sizes[0],
        "actions": 4 * numbers,
        "log_probs": 4,
        "masks": spec.mask_size,
        "features": round(4 * listed * spec.action_features),
        "advantages": 4,
        "returns": 4,
        "values": 4,
        **({"lists": 24} if spec.scores_actions else {}),
        **(
            {"begins": 1, "chunks": math.ceil(12 * spec.rows_per_sample + 8 / spec.chunk) + _kept_bytes(spec)}
            if spec.has_memory
            else {}
        ),
    }


def _kept_bytes(spec: PolicySpec) -> int:
    """Return the bytes a sample of states that are kept before every chunk; with steps of context none are."""
    return 0 if spec.context else 4 * -(-state_sizes(spec) // spec.chunk)


def state_sizes(spec: PolicySpec) -> int:
    """Return the values of the states before a chunk, of actor and critic."""
    return spec.state_size + spec.critic_state_size


def step_memory_stages(spec: PolicySpec, half: bool, checkpointing: bool = False) -> list[MemoryStage]:
    """Return the stages of one microbatch that can be the peak, in half precision or not.

    Not counted are parameters, the gradients that they hold from the step before, the optimiser's state, the rollout.
    ``checkpointing``: the backward pass computes a network's activations again.
    """
    return [*_forward(spec, half, checkpointing), *_backward(spec, half, checkpointing)]


def _forward(spec: PolicySpec, half: bool, checkpointing: bool) -> Iterator[MemoryStage]:
    """Yield the bytes alive while the loss is computed: the gathered samples, and more with every layer."""
    columns = column_bytes(spec)
    observation, number = columns["observations"], 2 if half else 4
    alive = sum(columns.values()) + (4 * -(-state_sizes(spec) // spec.chunk) if spec.context else 0)
    yield MemoryStage(alive + 2 * observation, 0)  # shifted and scaled
    alive += observation  # normalised
    copy = _half_row(spec) if half else 0  # in half precision, for each network
    for sizes in (spec.actor_sizes, spec.critic_sizes):
        kept = alive
        alive += copy + mask_bytes(spec, half)
        for layer, (inputs, units) in enumerate(pairwise(sizes[:-1])):
            if spec.has_memory and layer:
                kept_here, working = layer_bytes(spec, units, half)
                yield MemoryStage(alive + kept_here + working, 0)
                alive += 4 * units if checkpointing else kept_here
                continue
            yield MemoryStage(alive + 2 * number * units, 0)  # before and after the activation
            alive += number * (units - (inputs if checkpointing and layer else 0))
        head = 4 * sizes[-2] if half else 0  # computes in float32
        yield MemoryStage(alive + head + 4 * sizes[-1], 0)
        alive = (kept if checkpointing else alive + head) + 4 * sizes[-1]
    for distribution in [_listed_bytes(spec)] if spec.scores_actions else _distribution(spec.action_space):
        yield MemoryStage(alive + distribution, 0)


def _distribution(space: ActionSpace) -> Iterator[int]:
    """Yield the bytes of a sample at the stages of log-probability and entropy, and of the loss that follows."""
    if isinstance(space, Box):
        yield 4 * 4 * space.outputs  # difference, z, and two temporaries of the square
        if space.squashed:
            yield 4 * (2 + 5 * _QUADRATURE_POINTS) * space.outputs
        yield 4 * 2 * space.outputs + _SCALARS
        return
    kept = 0
    for size in space.choices:
        yield kept + 4 * 4 * size  # log-probabilities, probabilities, their products, and those without forbidden ones
        kept += 4 * 2 * size + 8
    yield kept + 4 * len(space.choices) * isinstance(space, MultiDiscrete) + _SCALARS


def _backward(spec: PolicySpec, half: bool, checkpointing: bool) -> Iterator[MemoryStage]:
    """Yield the bytes alive in the backward pass: fewer activations and more gradients with every layer."""
    columns, number = column_bytes(spec), 2 if half else 4
    networks = spec.actor_sizes, spec.critic_sizes
    alive = columns["features"] + columns["observations"]  # normalised, or two half-precision copies
    alive += 4 * spec.actor_sizes[-1]  # the gradient of the logits
    alive += _listed_bytes(spec) if spec.scores_actions else 0
    alive += 0 if checkpointing else sum(_hidden_bytes(spec, sizes, half) for sizes in networks)
    gradients = 0  # of the parameters: in half precision those of hidden layers, as their copies are
    for part, sizes in (("critic", spec.critic_sizes), ("actor", spec.actor_sizes)):
        if checkpointing:
            alive += _hidden_bytes(spec, sizes, half) + (_half_row(spec) if half else 0)
        gradients += 4 * parameter_count(spec.matrices[part][-1:])
        yield MemoryStage(alive + 4 * sizes[-2], gradients)
        alive -= 4 * sizes[-2] if half else 0
        yield MemoryStage(alive + (4 + number) * sizes[-2], gradients)  # cast, or through the activation
        for layer, (inputs, units) in reversed(list(enumerate(pairwise(sizes[:-1])))):
            if spec.has_memory and layer:
                kept_here, working = layer_bytes(spec, units, half)
                yield MemoryStage(alive + working, gradients)
                alive -= kept_here
                matrices = block(spec, units) if spec.family.name == "transformer" else [(inputs, 3 * units)]
                gradients += number * parameter_count(matrices)
                continue
            yield MemoryStage(alive + 2 * number * units, gradients)  # the gradient before and after the activation
            alive -= number * units
            below = number * inputs if layer else 0  # observations need no gradient
            gradients += number * (inputs + 1) * units
            yield MemoryStage(alive + number * units + below, gradients)
    yield MemoryStage(0, gradients + 4 * sum(map(parameter_count, spec.matrices.values())))  # and as one flat tensor


def _hidden_bytes(spec: PolicySpec, sizes: Sequence[int], half: bool) -> int:
    """Return the bytes of a sample's activations in the hidden layers, with the head's copy of the last in float32."""
    without_memory = sizes[1:2] if spec.has_memory else sizes[1:-1]
    remembered = mask_bytes(spec, half)
    if spec.has_memory:
        remembered += sum(layer_bytes(spec, units, half).kept for units in sizes[2:-1])
    return (2 if half else 4) * sum(without_memory) + remembered + (4 * sizes[-2] if half else 0)


def _listed_bytes(spec: PolicySpec) -> int:
    """Return the bytes of a sample's feasible actions: descriptions, hidden layers, scores, as autograd keeps them."""
    return round(4 * spec.expected_actions * (3 * spec.action_features + 6 * spec.score_units + 16)) + _SCALARS


def _half_row(spec: PolicySpec) -> int:
    """Return the bytes of a sample's observations in half precision, filled up to rows of 16 bytes."""
    return 2 * -(-spec.observation_size // 8) * 8


def half_copies(spec: PolicySpec) -> int:
    """Return the bytes of the copies of all hidden layers in half precision."""
    layers = [matrix for matrices in spec.matrices.values() for matrix in matrices[:-1]]
    filled = -spec.observation_size % 8 * (spec.actor_sizes[1] + spec.critic_sizes[1])
    return 2 * (sum((inputs + 1) * units for inputs, units in layers) + filled)
