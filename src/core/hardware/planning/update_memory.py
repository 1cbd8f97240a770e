"""Predicted bytes of an update, and the power-of-two minibatch that follows."""

from dataclasses import dataclass
from itertools import accumulate

from core.hardware.planning.activation_memory import column_bytes, step_memory_stages
from core.policies.parameter_layout import layout_of
from core.policies.spec import PolicySpec

SAFETY = 0.7
"""Share of the free memory that is planned for; the rest covers the allocator and what the prediction leaves out."""

LARGEST_BATCH = 65_536

CONTEXT = 1 << 29
"""Bytes that CUDA takes for a process before its first tensor: about 0.5 GiB, unconfirmed; it differs by driver, card
and by the kernels that are loaded, and it is no part of what torch calls allocated."""

_INDEX = 8 + 4
"""Bytes of a sample's place in the permutation of an epoch, and of its weight."""

_DISCOUNTS = 8 + 8
"""Bytes of a sample's discount and of the critic's lambda, which stay on the host."""

_ADVANTAGES, _SPLIT = 40, 8 + 1 + 8 + _INDEX
"""Bytes of a sample that NumPy needs on the host besides: while the advantages of one long trajectory are estimated
(each sum of float32 and float64 makes a float64), and while an epoch is split into minibatches."""

BESIDE_A_GPU = _DISCOUNTS + _ADVANTAGES + 3 * 4
"""Bytes of a sample on the host while a GPU's update is prepared: the same, with values, advantages and returns."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Predicted bytes of an update, by component.

    Attributes:
        weights: of actor and critic, with the normalisations.
        gradients: those that the parameters hold and, where there are several microbatches, their sum and the last
            microbatch's.
        optimizer: the two moments of Adam.
        snapshots: the weights with their moments that training can go back to, and those that the update began with.
        activations: of a microbatch at the peak of its step, with the gradients that it has made by then.
        rollout: observations, actions, log-probabilities, masks, action features, advantages and returns. On the host
            with the discounts, and without what a single trajectory has already.
        indices: of an epoch's permutation, with the weights of the samples.
        workspace: of the library of matrix products.
        joining: the second copy of a column of the rollout while the episodes are joined, less the columns that are
            not there yet; there are no activations then. On the host, what advantages and minibatches need while they
            are made: nothing is there twice.
    """

    weights: int
    gradients: int
    optimizer: int
    snapshots: int
    activations: int
    rollout: int
    indices: int
    workspace: int
    joining: int

    @property
    def held(self) -> int:
        """Bytes that are there from one update to the next."""
        return self.weights + self.gradients + self.optimizer + self.snapshots + self.workspace

    @property
    def peak(self) -> int:
        """Most bytes alive at once: in a step, or while the rollout is put together."""
        return self.held + self.rollout + max(self.indices + self.activations, self.joining)


def estimate_memory(
    spec: PolicySpec,
    half: bool,
    samples: int,
    batch: int,
    microbatch: int,
    pieces: int,
    workspace: int = 0,
    workers: int = 1,
    checkpointing: bool = False,
    host: bool = False,
) -> MemoryEstimate:
    """Predict the bytes of an update.

    Args:
        spec: of the policy.
        half: whether matrix products run in BF16 or FP16.
        samples: of the rollout.
        batch: samples of a minibatch.
        microbatch: most samples in one forward pass.
        pieces: trajectories that are joined to the rollout.
        workspace: from :func:`workspace_bytes`.
        workers: microbatches worked on at once.
        checkpointing: whether the backward pass computes a network's activations again.
        host: whether it runs on the CPU, beside the trajectories: one alone is read where it lies.
    """
    weights = 4 * policy_size(spec)
    columns = column_bytes(spec).values()
    parts = -(-batch // microbatch)
    at_once = min(workers, parts)
    peak = max(moment.bytes(min(microbatch, batch)) for moment in step_memory_stages(spec, half, checkpointing))
    before = accumulate(columns, initial=0)
    joining = max(2 * column + there for column, there in zip(columns, before, strict=False)) - sum(columns)
    rollout, joining = sum(columns), max(joining, 0) if pieces > 1 else 0
    if host:
        made = sum(column_bytes(spec)[name] for name in ("advantages", "returns", "values"))
        rollout, joining = (rollout, _SPLIT) if pieces > 1 else (made, _ADVANTAGES)
        rollout += _DISCOUNTS
    return MemoryEstimate(
        weights=weights,
        gradients=weights * min(parts, 3),
        optimizer=2 * weights,
        snapshots=2 * 3 * weights,
        activations=peak * at_once,
        rollout=rollout * samples,
        indices=_INDEX * samples,
        workspace=workspace,
        joining=joining * samples,
    )


def policy_size(spec: PolicySpec) -> int:
    """Return the number of float32 values of a policy: layers, log-deviations, feature weights, normalisations."""
    return layout_of(spec).size


def workspace_bytes(capability: tuple[int, int]) -> int:
    """Return what torch's cuBLAS handles take, one for the forward and one for the backward thread.

    Torch's defaults, not measured here: 32 MiB each from compute capability 9.0, else 8 MiB and 128 KiB.
    """
    return 2 * ((1 << 25) if capability >= (9, 0) else (1 << 23) + (1 << 17))


def fixed_bytes(spec: PolicySpec, samples: int) -> int:
    """Return the bytes of an update that do not depend on the minibatch, at most (whatever precision and microbatch).

    The rollout, its indices, and for each weight: itself, up to three gradients, two moments of Adam, and twice the
    weight and its moments to go back to.
    """
    rollout = (sum(column_bytes(spec).values()) + _INDEX) * samples
    step = max(moment.fixed for half in (False, True) for moment in step_memory_stages(spec, half))
    return rollout + 4 * (6 + 6) * policy_size(spec) + step + workspace_bytes((9, 0))


def bytes_of_a_sample(spec: PolicySpec, half: bool, checkpointing: bool = False) -> int:
    """Return the bytes that one sample of a microbatch needs at the peak of a step."""
    return max(moment.per_sample for moment in step_memory_stages(spec, half, checkpointing))


def auto_batch_size(samples: int, room: int, largest: int) -> int:
    """Return the largest power of two that is at most ``samples``, ``largest``, 65,536 and what memory holds.

    Args:
        samples: of a rollout, >= 1.
        room: samples that memory holds at once.
        largest: the user's limit, >= 1.
    """
    limit = max(1, min(samples, largest, LARGEST_BATCH, room))
    return 1 << (limit.bit_length() - 1)
