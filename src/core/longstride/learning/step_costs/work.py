"""Work of an update by the policy and the way of its steps.

The work is that of eager steps: operations and the bytes that each reads and writes, as if nothing stayed in the cache.
Captured steps differ by their launches, compiled ones by launches and by what their fused kernels do not write and read
again. All of it is counted (:mod:`longstride.learning.step_costs.count`) and grows with the rows.
"""

from collections.abc import Callable, Iterator, Mapping

from longstride.hardware.planning.work import Work
from longstride.hardware.types import CAPTURED, COMPILED_BY_TORCH, Execution
from longstride.learning.step_costs.columns import column_bytes
from longstride.learning.step_costs.count import count_gradient, count_step, count_values
from longstride.learning.step_costs.update_memory import value_rows
from longstride.policies.card_spec import card_spec
from longstride.policies.spec import PolicySpec


def step_work(
    spec: PolicySpec,
    half: bool,  # whether matrix products run in BF16 or FP16
    batch: int,  # samples of the minibatch
    microbatch: int,  # most samples in one forward pass
    execution: Execution = "eager",
    checkpointing: bool = False,  # whether the backward pass computes activations again
    on_card: bool = True,  # whether in the shapes and with the loss of a GPU's steps; else as autograd steps on a CPU
    triton: bool = False,  # whether Triton's kernels replace operations of torch
) -> Work:
    """Return the work of one minibatch."""
    parts, rows = -(-batch // microbatch), batch * spec.rows_per_sample
    costs = count_gradient(card_spec(spec) if on_card else spec, half, checkpointing, on_card, triton)
    part = costs.compiled if execution in COMPILED_BY_TORCH else costs.eager.total
    step = count_step(spec, half, triton)
    operations = [*part.at(rows / parts, parts), *step.once.at(rows), *step.joining.at(rows, parts - 1)]
    count, captured = round(sum(times for times, _ in operations)), execution in CAPTURED
    return Work(operations, 1 if captured else count, 1, 0, count if captured else 0)


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
    values, pieces = count_values(spec).total, -(-samples // value_rows(spec, samples))
    of_steps = [(steps * times, need) for times, need in step.operations]
    return Work(
        operations=[*of_steps, *values.at(samples / pieces, pieces)],
        launches=step.launches * steps + values.launches * pieces,
        steps=steps,
        transfers=sum(column_bytes(spec).values()) * samples + 2 * 4 * spec.layout.size,
        replayed=step.replayed * steps,
    )


def update_flops(spec: PolicySpec, half: bool, samples: int, epochs: int) -> int:
    """Return the floating-point operations of an update, the critic's values of all samples included."""
    part, values = count_gradient(spec, half, False).eager.total, count_values(spec).total
    rows = epochs * samples * spec.rows_per_sample
    return part.sums.flops.of(rows) + part.sums.wide_flops.of(rows) + values.sums.wide_flops.of(samples)


def step_launches(spec: PolicySpec, half: bool) -> int:
    """Return the operations of an eager step in one piece."""
    return step_work(spec, half, 1, 1).launches


class ByPrecision(Mapping[bool, int]):
    """A figure by whether half precision is used, counted when it is asked for."""

    def __init__(self, figure: Callable[[bool], int]) -> None:
        self._figure = figure

    def __getitem__(self, half: bool) -> int:
        return self._figure(half)

    def __iter__(self) -> Iterator[bool]:
        return iter((False, True))

    def __len__(self) -> int:
        return 2
