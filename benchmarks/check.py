"""Whether the compiled kernels have become slower: their CPU time beside that of a reference kernel, in one run.

A machine that is busy or clocked lower slows the reference as well, so the ratios stay: a slice of the reference comes
before and after each slice of a kernel, and the ratio of a kernel is the median over the repeats. Baselines lie in
check.json for each kind of processor, because vector units and caches differ. What is slower than its baseline by more
than the tolerance is measured once more, and only if it is so again the check fails: a sentence each, exit code 1.
Usage: python benchmarks/check.py [--repeats 15] [--save] [--json FILE]
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import llvmlite.binding
import numpy as np
from numba import njit

BENCHMARKS = Path(__file__).resolve().parent
BASELINES = BENCHMARKS / "check.json"
TOLERANCE = 0.2
_SLICE = 0.05
"""Seconds of CPU time of a kernel in a repeat, at least."""

Call = Callable[[], object]
Work = tuple[Call, int]
"""What is called, and how many decisions, samples or steps that is."""


@njit(nogil=True)
def _reference(weights, values, rounds):  # type: ignore[no-untyped-def]
    """Do some of what the kernels do: passes over 256 KB of weights, and branches and look-ups that depend on luck."""
    state, picked, sums = np.uint64(1), 0.0, np.zeros(weights.shape[1], np.float32)
    for _ in range(rounds):
        for row in range(weights.shape[0]):
            for column in range(weights.shape[1]):
                sums[column] += values[row] * weights[row, column]
        for _ in range(1024):
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            index = np.int64(state >> np.uint64(54))
            if values[index % len(values)] > 0.5:
                picked += np.log(1.0 + index)
            else:
                picked -= values[index % len(values)]
    return picked + sums[0]


def main() -> int:
    """Measure, compare, print; return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--save", action="store_true", help="make these ratios the baseline of this kind of processor")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    processor = llvmlite.binding.get_host_cpu_name()
    everything = json.loads(BASELINES.read_text(encoding="utf-8"))
    baseline = everything.get(processor, {})
    work = kernels()
    found = measure(work, options.repeats)
    suspects = slower(found, baseline)
    if suspects and not options.save:
        again = measure({name: work[name] for name in suspects}, options.repeats)
        found |= {name: min(found[name], ratio) for name, ratio in again.items()}
    print("\n".join(table(found, baseline)))
    print("\n".join([f"Saved in {BASELINES}."] if options.save else sentences(found, baseline, processor)))
    if options.save:
        content = everything | {processor: {name: float(f"{ratio:.4g}") for name, ratio in found.items()}}
        BASELINES.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if options.json:
        options.json.write_text(json.dumps({"processor": processor, "ratios": found}, indent=1) + "\n")
    return 1 if slower(found, baseline) and not options.save else 0


def kernels() -> dict[str, Work]:
    """Return what is measured: of an episode of the loan desk each decision, of updates a step, of GAE a sample."""
    sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS.parent / "src" / "core")]
    import torch
    from collection import Fused, Parts
    from cpu_steps import DESK, SMALL, WAYS, Row, stepping

    from longstride.learning.advantages import gae
    from longstride.policies.make_spec import spec_for
    from longstride.policies.networks import ActorCritic, initialise
    from longstride.process.load import find_scenario
    from longstride.process.simulator import ProcessSimulator

    torch.set_num_threads(1)
    simulator = ProcessSimulator(find_scenario("loan_desk"))
    model = ActorCritic(spec_for(simulator, (128,) * 3, (8,), "relu"))
    feature_weights = torch.from_numpy(simulator.initial_feature_weights)
    logits = torch.from_numpy(simulator.initial_logits)
    initialise(model, "orthogonal", torch.Generator().manual_seed(0), logits, initial_feature_weights=feature_weights)
    fused = Fused(simulator, model)
    fused.run(0)
    parts = Parts(fused)
    rng = np.random.default_rng(0)
    rewards, values, following = rng.normal(size=(3, fused.steps)).astype(np.float32)
    no, discounts = np.zeros(fused.steps, np.bool_), np.full(fused.steps, 0.99)
    large, small = (stepping(Row("", *what), *WAYS["compiled"]) for what in ((DESK, 1024), (SMALL, 64)))
    return {
        "fused loop": (lambda: fused.run(0), fused.steps),
        "simulator": (lambda: parts.simulate(0), fused.steps),
        "forward pass": (lambda: parts.infer(0), fused.steps),
        "update step, defaults": (large, 1),
        "update step, 2 x 64": (small, 1),
        "advantages": (lambda: gae(rewards, values, following, discounts, no, no, 0.95), fused.steps),
    }


def measure(work: Mapping[str, Work], repeats: int) -> dict[str, float]:
    """Return the CPU time of each kernel's unit, in thousandths of a call of the reference: medians of turns."""
    weights, values = np.ones((512, 128), np.float32), np.random.default_rng(0).random(512, np.float32)

    def reference() -> None:
        _reference(weights, values, 100)

    calls, count = calls_in_a_slice(reference), {name: calls_in_a_slice(call) for name, (call, _) in work.items()}
    ratios: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        before = seconds_of(reference, calls)
        for name, (call, units) in work.items():
            spent, after = seconds_of(call, count[name]) / units, seconds_of(reference, calls)
            ratios[name].append(1000 * spent / statistics.fmean((before, after)))
            before = after
    return {name: statistics.median(values) for name, values in ratios.items()}


def calls_in_a_slice(call: Call) -> int:
    """Return how many calls take a slice, after one that may compile."""
    call()
    return max(1, round(_SLICE / max(seconds_of(call, 1), 1e-6)))


def seconds_of(call: Call, calls: int) -> float:
    """Return the CPU seconds of a call, mean of some."""
    begin = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - begin) / calls


def slower(found: Mapping[str, float], baseline: Mapping[str, float]) -> list[str]:
    """Return the names of what takes longer than its baseline by more than the tolerance."""
    return [name for name, ratio in found.items() if name in baseline and ratio > baseline[name] * (1 + TOLERANCE)]


def table(found: Mapping[str, float], baseline: Mapping[str, float]) -> list[str]:
    """Return the lines of the table."""
    lines = [f"{'':24}{'now':>10}{'baseline':>10}{'change':>9}"]
    for name, ratio in found.items():
        known = f"{baseline[name]:10.4g}{100 * (ratio / baseline[name] - 1):+8.1f}%" if name in baseline else ""
        lines.append(f"{name:24}{ratio:10.4g}{known}")
    return lines


def sentences(found: Mapping[str, float], baseline: Mapping[str, float], processor: str) -> list[str]:
    """Return what the ratios say."""
    missing = [name for name in found if name not in baseline]
    lines = [
        f"{name} takes {100 * (found[name] / baseline[name] - 1):.0f} % longer than its baseline (tolerance "
        f"{100 * TOLERANCE:.0f} %), measured twice."
        for name in slower(found, baseline)
    ]
    if missing:
        lines.append(f"No baseline on {processor} for: {', '.join(missing)}; --save makes these ratios it.")
    return lines or [f"Nothing became slower by more than {100 * TOLERANCE:.0f} %."]


if __name__ == "__main__":
    sys.exit(main())
