"""CPU time of an update's minibatch step in every way that a CPU has, beside the step's matrix products alone.

The floor is the time of those products, one after another on one thread, by the faster of two libraries: SciPy's BLAS,
which the compiled kernels use, and torch's. What a step does beside them (gathering, biases, activations, losses,
clipping, Adam) is what it loses to the floor. `python benchmarks/update.py` calls this.
"""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit

from longstride.hardware.cpu import detect_bf16
from longstride.hardware.planning.choices import CPU_MICROBATCH
from longstride.learning.algorithms.interface import Samples
from longstride.learning.algorithms.ppo import Ppo, PpoCoefficients
from longstride.learning.minibatches import Minibatches
from longstride.learning.step_selection.executor import Executor
from longstride.learning.steps.cpu_kernels.mlp import hold_to_one_thread
from longstride.learning.steps.cpu_kernels.stepper import KernelStepper
from longstride.learning.steps.interface import UpdateSettings
from longstride.learning.steps.torch_step import TorchStepper
from longstride.policies.families.mlp.family import MLP
from longstride.policies.networks import ActorCritic, initialise
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import ActionSpace, Discrete

Network = tuple[tuple[int, ...], tuple[int, ...], str]
"""Sizes of actor and critic, and the activation function."""

SMALL: Network = ((4, 64, 64, 2), (4, 64, 64, 1), "tanh")
GUIDE: Network = ((32, 128, 128, 128, 8), (32, 256, 256, 256, 1), "relu")
DESK: Network = ((151, 128, 128, 128, 62), (151, 256, 256, 256, 1), "relu")
WIDE: Network = ((64, 1024, 1024, 1024, 16), (64, 1024, 1024, 1024, 1), "relu")

_LEAST_SECONDS = 0.2
"""Of one timing."""


class Row(NamedTuple):
    """What is measured: a network, samples of a minibatch, threads, and whether torch's compiler is worth its time."""

    name: str
    network: Network
    samples: int
    threads: int = 1
    by_torch: bool = True


ROWS = (
    Row("2 x 64 tanh", SMALL, 64, by_torch=False),
    Row("2 x 64 tanh", SMALL, 256),
    Row("2 x 256 tanh", ((16, 256, 256, 8), (16, 256, 256, 1), "tanh"), 256),
    Row("32-128-128-128-8, 32-256-256-256-1 relu", GUIDE, 8192),
    Row("the same, tanh", (*GUIDE[:2], "tanh"), 8192),
    Row("loan desk, defaults", DESK, 1024),
    Row("loan desk, defaults", DESK, 8192),
    Row("3 x 1,024 relu", WIDE, 2048),
    Row("2 x 64 tanh", SMALL, 256, threads=2, by_torch=False),
    Row("loan desk, defaults", DESK, 1024, threads=2),
)
WAYS = {
    "torch": (TorchStepper, "fp32", "eager"),
    "compile": (TorchStepper, "fp32", "torch_compile"),
    "compiled": (KernelStepper, "fp32", "numba"),
    "bf16": (TorchStepper, "bf16", "eager"),
    "bf16 compile": (TorchStepper, "bf16", "torch_compile"),
}
"""By name: the stepper, the format and the execution. The compiled kernels are this project's."""


def measure(row: Row, pairs: int) -> dict[str, Any]:
    """Return the medians of a row: CPU and wall milliseconds of each way and of the floor; ways take turns."""
    names = [n for n in WAYS if (row.by_torch or "compile" not in n.split()) and (detect_bf16() or "bf16" not in n)]
    sides = {name: stepping(row, *WAYS[name]) for name in names}
    blas, torchs, operations = products(row)
    every = [*sides.values(), blas, torchs]
    for side in every:
        side()
    times = np.median([[times_of(side) for side in every] for _ in range(pairs)], axis=0) * 1e3
    cpu, wall = (dict(zip([*names, "BLAS", "torch's products"], map(float, column), strict=True)) for column in times.T)
    floor = min(cpu.pop("BLAS"), cpu.pop("torch's products"))
    return {
        **{"name": row.name, "samples": row.samples, "threads": row.threads},
        **{"cpu_ms": cpu, "wall_ms": {name: wall[name] for name in names}, "floor_ms": floor},
        "gflops_of_floor": operations / floor / 1e6,
    }


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return a Markdown table of CPU milliseconds; the floor's share is that of the compiled kernels."""
    names = list(WAYS)
    lines = [
        f"| networks | samples | threads | {' | '.join(names)} | floor | GFLOP/s of the floor | floor / compiled |",
        "|---" * (len(names) + 6) + "|",
    ]
    for row in rows:
        times = " | ".join(f"{row['cpu_ms'][name]:.3g}" if name in row["cpu_ms"] else "-" for name in names)
        share = row["floor_ms"] / row["cpu_ms"]["compiled"]
        begin = f"| {row['name']} | {row['samples']:,} | {row['threads']} | {times}"
        lines.append(f"{begin} | {row['floor_ms']:.3g} | {row['gflops_of_floor']:.0f} | {share:.0%} |")
    return lines


def stepping(
    row: Row, kind: Any, precision: Any, execution: Any, space: ActionSpace | None = None
) -> Callable[[], Any]:
    """Return a function that takes a step on other samples each time."""
    actor, critic, activation = row.network
    space = space or Discrete(actor[-1])
    spec = PolicySpec(actor[0], space, tuple(actor[1:-1]), tuple(critic[1:-1]), activation, MLP)
    model, samples = ActorCritic(spec), row.samples
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    microbatch = min(samples, CPU_MICROBATCH if precision == "fp32" else 2 * CPU_MICROBATCH)  # as a plan chooses
    algorithm = Ppo(0.95, PpoCoefficients(0.2, 0.01, 0.5))
    settings = UpdateSettings(1, samples, 3e-4, 3e-4, 0.5, microbatch, precision, threads=row.threads)
    executor = Executor(kind(model, algorithm, settings), "numba" if execution == "numba" else "eager")
    if execution == "torch_compile":
        torch._dynamo.reset()  # what was compiled for other rows counts for torch's limit of recompilations
        executor.use("torch_compile")
    rollout, weights = made_up(model, 4 * samples), np.full((1, samples), 1.0 / samples, np.float32)
    rng = np.random.default_rng(1)

    def step() -> None:
        minibatches = Minibatches(rng.permutation(4 * samples)[None, :samples], weights)
        if execution == "torch_compile":
            executor.prepare(rollout, minibatches)
        executor.run(rollout, minibatches)

    return step


def made_up(model: ActorCritic, samples: int) -> Samples:
    """Return random samples, a fifth of whose actions are forbidden."""
    generator, space = torch.Generator().manual_seed(2), model.spec.action_space
    observations, *rest = (torch.randn(samples, n, generator=generator) for n in (model.spec.actor_sizes[0], 1, 1, 1))
    masks = torch.rand(samples, sum(space.choices), generator=generator) < 0.8
    actions = torch.randn(samples, space.outputs, generator=generator)
    if isinstance(space, Discrete):
        actions = torch.randint(0, space.n, (samples,), generator=generator)
        masks[torch.arange(samples), actions] = True
    with torch.no_grad():
        logits = model.logits(model.normalise(observations))
        log_probs = model.distribution(logits, model.log_std, masks, actions)[0]
    features = torch.zeros(samples, space.outputs, 0)
    return Samples(observations, actions, log_probs, masks, features, *(x[:, 0] for x in rest))


def products(row: Row) -> tuple[Callable[[], None], Callable[[], None], int]:
    """Return two functions that compute a step's matrix products, by BLAS and by torch, and their operations."""
    hold_to_one_thread()
    rows, triples = min(row.samples, 256), []
    for sizes in row.network[:2]:
        for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
            x, w, y = (np.ones(shape, np.float32) for shape in ((rows, n_in), (n_in, n_out), (rows, n_out)))
            triples += [(x, w, y), (x.T, y.copy(), np.empty_like(w))]
            if layer > 0:
                triples.append((y.copy(), w.T, np.empty_like(x)))
    tensors, pieces = [tuple(map(torch.from_numpy, triple)) for triple in triples], row.samples // rows

    def by_blas() -> None:
        for _ in range(pieces):
            for triple in triples:
                _dot(*triple)

    def by_torch() -> None:
        for _ in range(pieces):
            for a, b, c in tensors:
                torch.mm(a, b, out=c)

    return by_blas, by_torch, pieces * sum(2 * a.shape[0] * a.shape[1] * b.shape[1] for a, b, _ in triples)


def largest_rate() -> float:
    """Return the GFLOP/s of large products on one thread by torch, which no part of a step can exceed."""
    best = 0.0
    for rows, inner, columns in ((2048, 256, 256), (1024, 1024, 1024), (2048, 2048, 2048)):
        a, b, c = torch.ones(rows, inner), torch.ones(inner, columns), torch.empty(rows, columns)
        seconds = times_of(lambda a=a, b=b, c=c: torch.mm(a, b, out=c))[0]
        best = max(best, 2e-9 * rows * inner * columns / seconds)
    return best


@njit(nogil=True)
def _dot(a, b, c):  # type: ignore[no-untyped-def]
    np.dot(a, b, c)


def times_of(function: Callable[[], Any]) -> tuple[float, float]:
    """Return the mean CPU and wall time of a call, over calls of at least some tenths of a second together."""
    begin, cpu, calls = time.perf_counter(), time.process_time(), 0
    while (spent := time.perf_counter() - begin) < _LEAST_SECONDS or calls == 0:
        function()
        calls += 1
    return (time.process_time() - cpu) / calls, spent / calls
