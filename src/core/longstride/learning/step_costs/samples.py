"""Samples and a stepper of any policy to count with: their sizes tell what grows with their number."""

from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor

from longstride.learning.algorithms.interface import Samples
from longstride.learning.algorithms.ppo import Ppo, PpoCoefficients
from longstride.learning.listed.lists import Lists
from longstride.learning.memory.chunks import Chunks
from longstride.learning.steps.clipped_adam import ClippedAdam
from longstride.learning.steps.interface import UpdateSettings
from longstride.learning.steps.torch_step import TorchStepper
from longstride.policies.networks import ActorCritic
from longstride.policies.spec import PolicySpec

PPO = Ppo(0.9, PpoCoefficients(clip_range=0.2, entropy_coefficient=0.01, value_coefficient=0.5))
"""The algorithm whose loss is counted, with all of its usual terms."""

_LARGE, _FEW = 1_000_000, 100
"""About how many samples tensors without numbers have, and those with numbers."""

_MOST_PARAMETERS = 1_000_000
"""Parameters of a policy whose step is counted with numbers, in some ten milliseconds."""


class Sizes(NamedTuple):
    """Where costs are counted, and with how many samples.

    Attributes:
        device: the meta device, whose tensors have no numbers, or the CPU.
        units: samples of the minibatch, or chunks for a policy with memory: a prime that divides no size of the policy.
        listed: feasible actions in the lists of all samples, another such prime.
        steps: of a chunk, 1 for a policy without memory.
        rows: for both sizes the part of it that is a row, of which a chunk has some for its context, too.
    """

    device: torch.device
    units: int
    listed: int
    steps: int
    rows: dict[int, float]


def sizes_for(spec: PolicySpec, steps: int) -> Sizes:
    """Return where and with how many samples a policy's costs are counted, for chunks of so many steps.

    The first operations on the meta device make torch import its compiler, a second that runs with compiled update
    kernels do not need. So their policies are counted with numbers, if they are small.
    """
    is_small = spec.family.update_kernels and spec.layout.size <= _MOST_PARAMETERS
    units, listed = _primes(spec, _FEW if is_small else _LARGE)
    rows = {units: 1.0 / (steps + spec.context), listed: max(spec.expected_actions, 1.0)}
    return Sizes(torch.device("cpu" if is_small else "meta"), units, listed, steps, rows)


def _primes(spec: PolicySpec, least: int) -> tuple[int, int]:
    """Return two primes from a number on that divide no size of the policy."""
    layout = spec.layout
    parts = (layout.slice_of(part) for part in ("actor", "critic"))
    sizes = {layout.size, *(part.stop - part.start for part in parts), spec.state_size, spec.critic_state_size}
    sizes |= {size for shape in layout.shapes.values() for size in shape} | {spec.context + spec.chunk, spec.mask_size}
    fitting = (p for p in _primes_from(least) if all(size % p or not size for size in sizes))
    return next(fitting), next(fitting)


def _primes_from(least: int) -> Iterator[int]:
    return (n for n in count(least) if all(n % d for d in range(2, int(n**0.5) + 1)))


def new_samples(spec: PolicySpec, sizes: Sizes) -> Samples:
    """Return a rollout of zeros that is one minibatch."""

    def new(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=sizes.device)

    steps, kept = sizes.units * sizes.steps, 1 if spec.context else sizes.units
    columns = {
        "observations": new(steps, spec.observation_size),
        "actions": new(steps, *spec.action_space.shape, dtype=_dtype_of_actions(spec)),
        "masks": new(steps, spec.mask_size, dtype=torch.bool),
        "features": new(steps, spec.mask_size, spec.action_features),
        **{name: new(steps) for name in ("log_probs", "advantages", "returns", "values")},
    }
    chunks, lists, rows = None, None, (sizes.units, spec.context + sizes.steps)
    if spec.scores_actions:
        ids = (new(n, dtype=torch.int64) for n in (0, steps, steps))
        lists = Lists(new(sizes.listed, spec.action_features), *ids)
    if spec.has_memory:
        chunks = Chunks(
            states=new(kept, spec.state_size),
            critic_states=new(kept, spec.critic_state_size),
            begins=new(steps, 1, dtype=torch.bool),
            rows=new(*rows, dtype=torch.int64),
            valid=new(*rows),
            starts=new(sizes.units, dtype=torch.int64),
        )
    return Samples(**columns, chunks=chunks, lists=lists)


def _dtype_of_actions(spec: PolicySpec) -> torch.dtype:
    return torch.int64 if spec.action_space.choices else torch.float32


class NoAdam:
    """Stands for the optimiser where none is counted: making torch's own imports its compiler."""

    def __init__(self, *_: object) -> None:
        pass

    def set_rates(self, rates: object) -> None:
        """Do nothing."""


def new_stepper(
    spec: PolicySpec,
    sizes: Sizes,
    half: bool,
    checkpointing: bool,
    optimizer: Any = ClippedAdam,
    on_card: bool = False,
) -> TorchStepper:
    """Return a stepper of a policy whose parameters are zeros."""
    settings = UpdateSettings(
        epochs=1,
        batch_size=sizes.units,
        learning_rate_actor=1e-3,
        learning_rate_critic=1e-3,
        max_grad_norm=0.5,
        microbatch=sizes.units,
        precision="bf16" if half else "fp32",
        checkpointing=checkpointing,
    )
    return TorchStepper(ActorCritic(spec, sizes.device, on_card=on_card), PPO, settings, new_optimizer=optimizer)
