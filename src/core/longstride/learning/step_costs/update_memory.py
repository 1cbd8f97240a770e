"""Predicted bytes of an update."""

import math
from dataclasses import dataclass
from itertools import accumulate

from longstride.hardware.planning.update_memory import ADVANTAGES, DISCOUNTS, workspace_bytes
from longstride.learning.step_costs.columns import column_bytes, state_sizes
from longstride.learning.step_costs.count import count_gradient, count_values
from longstride.policies.card_spec import ALIGNMENT, card_spec
from longstride.policies.spec import PolicySpec
from longstride.rollout.batched.arrays import half_batches

_VALUE_BYTES = 1 << 27
"""Bytes that the values of observations may take at once: 30,000 of the loan desk's, a few launches for a rollout."""

_INDEX = 8 + 4
"""Bytes of a sample's index in the permutation of an epoch, and of its sample weight."""

_SPLIT = 8 + 1 + 8 + _INDEX
"""Further bytes of a sample on the host while an epoch is split into minibatches."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Predicted bytes of an update, by component."""

    parameters: int  # parameters of actor and critic, with the normalisations, and copies in half precision
    gradients: int  # the last step's; with several microbatches also the sum so far and that of the last one
    optimizer: int  # the two moments of Adam
    snapshots: int  # parameters and moments of the last good state, and those that the update began with
    activations: int  # activations of a microbatch at the peak of its step, with the gradients made by then
    # observations, actions, log-probabilities, masks, action features, advantages and returns. On the host with the
    # discounts, and without the columns that a single trajectory holds already
    rollout: int
    indices: int  # permutation of an epoch, with the weights of the samples
    workspace: int  # workspace of the library of matrix products
    # second copy of a rollout's column while trajectories are joined, less the columns that do not exist yet; there
    # are no activations then. On the host, nothing is copied: the needs of advantages and minibatches
    joining: int
    values: int  # of a GPU's critic, for the observations that it values at once before the first step
    crossing: int = 0  # a GPU's parameters once more, in the layout of the host, in which they cross the bus
    playing: int = 0  # of a policy that plays on the same GPU, from playing_bytes

    @property
    def before_steps(self) -> int:
        """Bytes needed beside the rollout before the first step."""
        return max(self.joining, self.values)

    @property
    def held(self) -> int:
        """Bytes that stay from one update to the next."""
        learning = self.parameters + self.gradients + self.optimizer + self.snapshots
        return learning + self.workspace + self.crossing + self.playing

    @property
    def peak(self) -> int:
        """Most bytes alive at once: in a step, or while the rollout is joined."""
        return self.held + self.rollout + max(self.indices + self.activations, self.before_steps)


def estimate_memory(
    spec: PolicySpec,
    half: bool,  # whether matrix products run in BF16 or FP16
    samples: int,  # of the rollout
    batch: int,  # samples of a minibatch
    microbatch: int,  # most samples in one forward pass
    pieces: int,  # trajectories that are joined to the rollout
    workspace: int = 0,  # bytes from workspace_bytes
    workers: int = 1,  # microbatches that are computed at once
    checkpointing: bool = False,  # whether the backward pass computes a network's activations again
    host: bool = False,  # whether the update is on the CPU, beside the trajectories: a single one is not copied there
    on_card: bool = False,  # whether it is on a GPU, in the shapes and with the loss of a GPU's steps
    plays: bool = False,  # whether the policy plays on the same GPU
) -> MemoryEstimate:
    """Predict the bytes of an update."""
    crossing, playing = 4 * spec.layout.size if on_card else 0, playing_bytes(spec, pieces) if plays else 0
    spec = card_spec(spec) if on_card else spec
    parameters, columns = 4 * spec.layout.aligned(ALIGNMENT if on_card else 1).size, column_bytes(spec)
    parts = -(-batch // microbatch)
    rows = math.ceil(min(microbatch, batch) * spec.rows_per_sample)
    peak = count_gradient(spec, half, checkpointing, on_card).eager.peak(rows)
    rollout, before = sum(columns.values()), accumulate(columns.values(), initial=0)
    joining = max(2 * column + joined for column, joined in zip(columns.values(), before, strict=False)) - rollout
    joining = max(joining, 0) if pieces > 1 else 0
    if host:
        computed = sum(columns[name] for name in ("advantages", "returns", "values"))
        rollout, joining = (rollout, _SPLIT) if pieces > 1 else (computed, ADVANTAGES)
        rollout += DISCOUNTS
    return MemoryEstimate(
        parameters=parameters + (parameters // 2 if half else 0),
        gradients=parameters * min(parts, 3),
        optimizer=2 * parameters,
        snapshots=2 * 3 * parameters,
        activations=peak * min(workers, parts),
        rollout=rollout * samples + (4 * state_sizes(spec) * pieces if spec.context else 0),
        indices=_INDEX * samples,
        workspace=workspace,
        joining=joining * samples,
        values=0 if host else math.prod(_values_at_once(spec, samples)),
        crossing=crossing,
        playing=playing,
    )


def value_rows(spec: PolicySpec, samples: int) -> int:
    """Return how many observations a GPU's critic values at once before an update.

    No gradients need memory then, and small pieces would be launches without work.
    """
    rows, _ = _values_at_once(spec, samples)
    return rows


def _values_at_once(spec: PolicySpec, samples: int) -> tuple[int, int]:
    """Return how many observations are valued at once, and the bytes of each."""
    each = 4 * spec.observation_size + math.ceil(max(peak.per_row for peak in count_values(spec).peaks))
    return min(samples, max(_VALUE_BYTES // each, 1)), each


def playing_bytes(spec: PolicySpec, instances: int) -> int:
    """Return the bytes of a policy that plays on a GPU with so many instances.

    They are its parameters, the states of all rows, and the copy of those that an unfinished rollout begins with.
    """
    halves, rows = half_batches(instances)
    return 4 * (spec.layout.actor_size + 2 * halves * rows * spec.state_size)


def fixed_bytes(spec: PolicySpec, samples: int) -> int:
    """Return the bytes of an update that do not depend on the minibatch, at most (whatever precision and microbatch).

    They are the rollout, its indices, and for each parameter: itself, a copy in half precision and one in the layout of
    the host, three gradients, two moments of Adam, two copies of parameter and moments to go back to, and one to spare.
    """
    rollout = (sum(column_bytes(spec).values()) + _INDEX) * samples
    return rollout + (4 * (6 + 6 + 2) + 2) * spec.layout.size + workspace_bytes((9, 0))


def bytes_of_a_sample(spec: PolicySpec, half: bool, checkpointing: bool = False) -> int:
    """Return the bytes that one sample of a microbatch needs at the peak of a step."""
    most = max(each.per_row for each in count_gradient(spec, half, checkpointing).eager.peaks)
    return math.ceil(most * spec.rows_per_sample)
