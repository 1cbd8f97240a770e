"""Speed of an update's step on the CPU: torch's operations against compiled kernels, in one run.

Each row is a network, a minibatch size and a number of threads; the two ways take turns, times are medians and ratios
medians of the pairs' ratios. CPU time is that of all threads and says more than wall time where other processes share
the cores. The floor is the CPU time of the step's matrix products alone, one after another on one thread, by the BLAS
that the kernels use. Seconds of compilation are the CPU seconds that a first step takes longer than a second one, in a
process of its own for each kind of policy. On a GPU follow the ways in which steps run there (``executions.py``), with
--gpu only those; elsewhere a line says that they are not measured.
Usage: python benchmarks/update.py [--pairs K] [--json FILE] [--gpu] [--samples N] [--batch B]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch
from executions import NO_GPU, measure_executions, table

from core.hardware.machine import detect_machine
from core.policy.networks import ActorCritic, initialise
from core.simulators.spaces import ActionSpace, Box, Discrete
from core.update.compiled.blas import hold_to_one_thread
from core.update.compiled.stepper import CompiledStepper
from core.update.loss import Batch
from core.update.precision import apply_global_settings
from core.update.step import EagerStepper
from core.update.stepper import Stepper, StepSettings

SMALL = (4, 64, 64, 2), (4, 64, 64, 1), "tanh"
MIDDLE = (16, 256, 256, 8), (16, 256, 256, 1), "tanh"
LARGE = (151, 128, 128, 128, 62), (151, 256, 256, 256, 1), "relu"
WIDE = (64, 1024, 1024, 1024, 16), (64, 1024, 1024, 1024, 1), "relu"
ROWS = [
    ("2 x 64 tanh, 64 samples", SMALL, 64, 1),
    ("2 x 64 tanh, 256 samples", SMALL, 256, 1),
    ("2 x 64 tanh, 2,048 samples", SMALL, 2048, 1),
    ("2 x 256 tanh, 64 samples", MIDDLE, 64, 1),
    ("2 x 256 tanh, 256 samples", MIDDLE, 256, 1),
    ("2 x 256 tanh, 2,048 samples", MIDDLE, 2048, 1),
    ("defaults, 256 samples", LARGE, 256, 1),
    ("defaults, 2,048 samples", LARGE, 2048, 1),
    ("defaults, 8,192 samples", LARGE, 8192, 1),
    ("3 x 1,024 relu, 2,048 samples", WIDE, 2048, 1),
    ("2 x 64 tanh, 64 samples", SMALL, 64, 2),
    ("2 x 64 tanh, 256 samples", SMALL, 256, 2),
    ("defaults, 8,192 samples", LARGE, 8192, 2),
]
SPACES = {
    "discrete": Discrete(2),
    "gaussian": Box([-1.0], [1.0]),
    "squashed": Box([-1.0], [1.0], squashed=True),
}
_MICROBATCH = 2048
_LEAST_SECONDS = 0.2
"""Of one timing."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--samples", type=int, default=62_000)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--compile", choices=SPACES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.compile:
        print(compile_seconds(SPACES[options.compile]))
        return
    results = {} if options.gpu else on_the_cpu(options.pairs)
    results["executions"] = on_a_gpu(options.samples, options.batch, options.pairs)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


def on_a_gpu(samples: int, batch: int, pairs: int) -> list[dict]:
    """Measure and print how steps run on a GPU; nothing where there is none."""
    gpu = detect_machine().gpu
    if gpu is None:
        print(NO_GPU)
        return []
    print(f"{gpu.name}, torch {torch.__version__}, {samples:,} samples in minibatches of {batch:,}, {pairs} turns:")
    apply_global_settings(tf32=True, cudnn_benchmark=True)
    rows = measure_executions(samples, batch, pairs, gpu)
    print("\n".join(table(rows)))
    return rows


def on_the_cpu(pairs: int) -> dict:
    """Measure and print torch's steps and compiled ones."""
    compilation = {name: _in_a_process(name) for name in SPACES}
    rows = [measure(*row, pairs) for row in ROWS]
    print(
        "| step | threads | torch, CPU ms | compiled, CPU ms | ratio | ratio of wall times | floor, CPU ms | GFLOP/s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print("| {name} | {threads} | {torch} | {compiled} | {ratio} | {wall_ratio} | {floor} | {rate} |".format(**row))
    print("Compilation, CPU seconds:", ", ".join(f"{name} {seconds:.1f}" for name, seconds in compilation.items()))
    return {"rows": rows, "compilation": compilation}


def measure(name: str, network: tuple, samples: int, threads: int, pairs: int) -> dict:
    """Return the medians of a row."""
    sides = [stepping(kind, network, samples, threads) for kind in (EagerStepper, CompiledStepper)]
    products, operations = floor(network, samples)
    times = np.array([[times_of(side) for side in (*sides, products)] for _ in range(pairs + 1)])[1:]
    eager, compiled, least = np.median(times[:, :, 0], axis=0)
    ratio, wall_ratio = np.median(times[:, 0] / times[:, 1], axis=0)
    return {
        "name": name,
        "threads": threads,
        **{key: round(s * 1e3, 3) for key, s in (("torch", eager), ("compiled", compiled), ("floor", least))},
        "ratio": round(ratio, 2),
        "wall_ratio": round(wall_ratio, 2),
        "rate": round(operations / least / 1e9),
    }


def stepping(kind: type[Stepper], network: tuple, samples: int, threads: int, space: ActionSpace | None = None):
    """Return a function that takes a step on other samples each time."""
    actor, critic, activation = network
    model = ActorCritic(actor, critic, activation, space=space)
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    settings = StepSettings(0.2, 0.01, 0.5, 0.5, min(samples, _MICROBATCH), "fp32", threads)
    stepper, rollout, weights = kind(model, settings, 3e-4, 3e-4), made_up(model, 4 * samples), torch.ones(samples)
    generator = torch.Generator().manual_seed(1)
    return lambda: stepper.step(rollout, torch.randperm(4 * samples, generator=generator)[:samples], weights / samples)


def made_up(model: ActorCritic, samples: int) -> Batch:
    """Return random samples, a fifth of whose actions are forbidden."""
    generator, space = torch.Generator().manual_seed(2), model.space
    observations, *rest = (torch.randn(samples, n, generator=generator) for n in (model.actor_sizes[0], 1, 1, 1))
    masks = torch.rand(samples, sum(space.choices), generator=generator) < 0.8
    actions = torch.randn(samples, space.outputs, generator=generator)
    if isinstance(space, Discrete):
        actions = torch.randint(0, space.n, (samples,), generator=generator)
        masks[torch.arange(samples), actions] = True
    with torch.no_grad():
        logits = model.logits(model.normalise(observations))
        log_probs = model.distribution(logits, model.log_std, masks, actions)[0]
    features = torch.zeros(samples, space.outputs, 0)
    return Batch(observations, actions, log_probs, masks, features, *(x[:, 0] for x in rest), torch.empty(0))


def floor(network: tuple, samples: int):
    """Return a function that computes a step's matrix products, and their number of floating-point operations."""
    from numba import njit

    @njit(nogil=True)
    def product(a, b, c):
        np.dot(a, b, c)

    hold_to_one_thread()
    rows, products = min(samples, 256), []
    for sizes in network[:2]:
        for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
            x, w, y = (np.ones(shape, np.float32) for shape in ((rows, n_in), (n_in, n_out), (rows, n_out)))
            products += [(x, w, y), (x.T, y.copy(), np.empty_like(w))]
            if layer > 0:
                products.append((y.copy(), w.T, np.empty_like(x)))
    pieces = samples // rows

    def compute() -> None:
        for _ in range(pieces):
            for arrays in products:
                product(*arrays)

    return compute, pieces * sum(2 * a.shape[0] * a.shape[1] * b.shape[1] for a, b, _ in products)


def times_of(function) -> tuple[float, float]:
    """Return the mean CPU and wall time of a call, over calls of at least some tenths of a second together."""
    begin, cpu, calls = time.perf_counter(), time.process_time(), 0
    while (spent := time.perf_counter() - begin) < _LEAST_SECONDS or calls == 0:
        function()
        calls += 1
    return (time.process_time() - cpu) / calls, spent / calls


def compile_seconds(space: ActionSpace) -> float:
    """Return the CPU seconds that the first step takes longer than the second."""
    network = (4, 64, 64, space.outputs), *SMALL[1:]
    step, marks = stepping(CompiledStepper, network, 64, 1, space), [time.process_time()]
    for _ in range(2):
        step()
        marks.append(time.process_time())
    return (marks[1] - marks[0]) - (marks[2] - marks[1])


def _in_a_process(name: str) -> float:
    command, environment = (
        [sys.executable, __file__, "--compile", name],
        {**os.environ, "LONGSTRIDE_KERNEL_CACHE": "off"},
    )
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main()
