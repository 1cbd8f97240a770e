"""Speed of an update's steps, in one run.

On the CPU each row is a network, a minibatch and a number of threads, each column a way to take the step
(``cpu_steps.py``): torch's operations, torch's compiler, this project's compiled kernels, and torch in BF16 where the
CPU has instructions for it. Ways take turns; times are medians of CPU milliseconds of all threads, which say more than
wall time where other processes share the cores. Seconds of compilation are the CPU seconds that a first step of the
compiled kernels takes longer than a second one, in a process of its own for each kind of policy. On a GPU follow the
ways in which steps run there (``executions.py``), with --gpu only those; elsewhere a line says that there is none.
Usage: python benchmarks/update.py [--pairs K] [--small] [--json FILE] [--gpu] [--samples N] [--batch B]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src" / "core"))

import cpu_steps
import torch
from executions import NO_GPU, measure_executions, table

from longstride.hardware.detect import detect_machine
from longstride.learning.torch_settings import apply_global_settings
from longstride.simulators.spaces import ActionSpace, Box, Discrete

SPACES = {
    "discrete": Discrete(2),
    "gaussian": Box([-1.0], [1.0]),
    "squashed": Box([-1.0], [1.0], squashed=True),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--small", action="store_true", help="without torch's compiler, which takes minutes")
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
    results = {} if options.gpu else on_the_cpu(options.pairs, options.small)
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


def on_the_cpu(pairs: int, small: bool) -> dict:
    """Measure and print each way to take a step on the CPU."""
    compilation = {name: _in_a_process(name) for name in SPACES}
    rows = [cpu_steps.measure(row._replace(by_torch=row.by_torch and not small), pairs) for row in cpu_steps.ROWS]
    print("CPU ms a step:", *cpu_steps.table(rows), sep="\n")
    rate = cpu_steps.largest_rate()
    print(f"Large products on one thread: {rate:.0f} GFLOP/s.")
    print("Compilation, CPU seconds:", ", ".join(f"{name} {seconds:.1f}" for name, seconds in compilation.items()))
    return {"rows": rows, "largest_gflops": rate, "compilation": compilation}


def compile_seconds(space: ActionSpace) -> float:
    """Return the CPU seconds that the first step of the compiled kernels takes longer than the second."""
    network = (4, 64, 64, space.outputs), *cpu_steps.SMALL[1:]
    row = cpu_steps.Row("", network, 64)
    step, marks = cpu_steps.stepping(row, *cpu_steps.WAYS["compiled"], space), [time.process_time()]
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
