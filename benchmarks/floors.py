"""How near one decision comes to what a core can do: the actor beside the pass of its weights through the L2 cache.

One thread, actor 32-128-128-128-8 (`--width`), inputs that a simulator shows. Measured in turns, CPU time, medians:
* the floor: reading the actor's weights, every cache line once, in a loop that does nothing else (reads of 64 bytes),
* the forward pass of one stream, with relu (rows whose input is zero are not read) and with tanh (all are),
* everything that the fused loop does beside the simulator: forward pass, sampling, recording,
* streams side by side: this project's rows, and the same layers as matrix products of BLAS within one kernel.
With `--network`, in place of all that: the step of one stream of a policy with memory, beside the pass of its weights,
and of its weights with its memory. `mingru` has two layers of `--width`, `transformer` two blocks of it with 4 heads,
64 observations and a factor of 2 for the perceptron.
Usage: python benchmarks/floors.py [--repeats 9] [--width 128] [--network mingru|transformer] [--json FILE]
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src" / "core"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from numba import njit
from streams import Drift

from longstride.learning.steps.cpu_kernels.mlp import hold_to_one_thread
from longstride.policies.compiled.forward import (
    align_params,
    build_network,
    new_actor_arrays,
    new_policy_states,
    workspace,
)
from longstride.policies.compiled.products import tanh
from longstride.policies.families.families import FAMILIES
from longstride.policies.families.mlp.family import MLP
from longstride.policies.networks import ActorCritic, initialise
from longstride.policies.parameter_layout import USUAL_LIMIT
from longstride.policies.spec import PolicySpec
from longstride.rollout.episode_loop import build_policy_chooser
from longstride.simulators.observe import Observed
from longstride.simulators.simulator import new_state
from longstride.simulators.spaces import Discrete

SIZES = (32, 128, 128, 128, 8)
STREAMS = (1, 2, 4, 8, 16, 32)
_OBSERVATIONS = 1024
_CLIP = np.float32(USUAL_LIMIT)
_PASSES = 4096


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--network", choices=["mlp", "mingru", "transformer"], default="mlp")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    hold_to_one_thread()
    sizes = (SIZES[0], *(options.width,) * 3, SIZES[-1])
    if options.network != "mlp":
        found, kilobytes = measure_memory(options.network, options.width, options.repeats)
        print(f"{options.network} 2 x {options.width}, {kilobytes:.0f} kB of weights; load {os.getloadavg()[0]:.1f}")
    else:
        found, kilobytes = measure(sizes, options.repeats), 4e-3 * sum((a + 1) * b for a, b in pairwise(sizes))
        print(f"Actor {'-'.join(map(str, sizes))}, {kilobytes:.0f} kB of weights; load {os.getloadavg()[0]:.1f}")
    floor = found["floor"]
    print("| CPU us a decision | | floor / it |\n|---|---|---|")
    for name, us in found.items():
        print(f"| {name} | {us:.3f} | {floor / us:.0%} |")
    print(f"The floor is {kilobytes / floor:.0f} GB/s.")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def measure(sizes: tuple[int, ...], repeats: int) -> dict[str, float]:
    """Return microseconds a decision of everything."""
    seen = np.random.default_rng(0).random((_OBSERVATIONS, sizes[0]), np.float32) - np.float32(0.5)
    ways: dict[str, Callable[[], int]] = {"floor": reading(weights_of(sizes, "relu"))}
    for activation in ("relu", "tanh"):
        weights = weights_of(sizes, activation)
        for streams in STREAMS:
            ways[f"forward, {activation}, {streams} side by side"] = rows(
                weights, spec_of(sizes, activation), seen, streams
            )
        for streams in STREAMS[3:]:
            ways[f"BLAS, {activation}, {streams} side by side"] = blas(weights, sizes, activation, seen, streams)
        ways[f"forward and sampling, {activation}"] = choosing(weights, sizes, activation, seen)
    return medians(ways, repeats)


def measure_memory(network: str, width: int, repeats: int) -> tuple[dict[str, float], float]:
    """Return microseconds a step of a policy with memory and of its floors, and the kilobytes of its weights."""
    attention = (64, 4, 2) if network == "transformer" else ()
    hidden = (width,) * 2
    spec = PolicySpec(SIZES[0], Discrete(SIZES[-1]), hidden, hidden, "relu", FAMILIES[network], 0, *attention)
    model = ActorCritic(spec)
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    weights = align_params(model.flat[: model.layout.actor_size].numpy(), spec)
    seen = np.random.default_rng(0).random((_OBSERVATIONS, SIZES[0]), np.float32) - np.float32(0.5)
    ways = {
        "floor": reading(weights),
        "floor with its memory": reading(np.zeros(len(weights) + spec.state_size, np.float32)),
        "step": rows(weights, spec, seen, 1),
    }
    return medians(ways, repeats), 4e-3 * len(weights)


def medians(ways: dict[str, Callable[[], int]], repeats: int) -> dict[str, float]:
    """Return microseconds a decision of some functions that return how many they made, measured in turns."""
    for way in ways.values():
        way()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            begin = time.thread_time()
            decisions = way()
            times[name].append(1e6 * (time.thread_time() - begin) / decisions)
    return {name: statistics.median(column) for name, column in times.items()}


def spec_of(sizes: tuple[int, ...], activation: str) -> PolicySpec:
    """Return the spec of a policy whose actor has layers of these widths."""
    return PolicySpec(sizes[0], Discrete(sizes[-1]), tuple(sizes[1:-1]), (16,), activation, MLP)


def weights_of(sizes: tuple[int, ...], activation: str) -> np.ndarray:
    """Return an untrained actor's weights."""
    model = ActorCritic(spec_of(sizes, activation))
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    return align_params(model.flat[: model.layout.actor_size].numpy(), model.spec)


def reading(weights: np.ndarray) -> Callable[[], int]:
    """Return a function that reads all weights again and again."""

    @njit(fastmath=True)
    def total(values: np.ndarray, passes: int) -> float:
        result = np.float32(0.0)
        for _ in range(passes):
            part = np.float32(0.0)
            for i in range(len(values)):
                part += values[i]
            result = max(result, part)  # not a sum over the passes, which could be had from one
            values[0] += part * np.float32(1e-30)
        return result

    def run() -> int:
        total(weights, _PASSES)
        return _PASSES

    return run


def rows(weights: np.ndarray, spec: PolicySpec, seen: np.ndarray, streams: int) -> Callable[[], int]:
    """Return a function that passes observations through the project's actor, some streams at a time."""
    network = build_network(spec)
    load, advance, outputs = network.load, network.advance, network.outputs

    @njit(nogil=True)
    def play(weights, seen, states, members, scratch, streams):  # type: ignore[no-untyped-def]
        total = 0.0
        for first in range(0, len(seen), streams):
            for k in range(streams):
                load(weights, seen[first + k], scratch, k)
            advance(weights, states, members, scratch, streams)
            for k in range(streams):
                total += outputs(scratch, k)[0]
        return total

    states, members, scratch = new_policy_states(spec, streams), np.arange(streams), workspace(spec, streams)

    def run() -> int:
        for _ in range(16):
            play(weights, seen, states, members, scratch, streams)
        return 16 * len(seen)

    return run


def blas(
    weights: np.ndarray, sizes: tuple[int, ...], activation: str, seen: np.ndarray, streams: int
) -> Callable[[], int]:
    """Return a function that does the same by matrix products of BLAS, all layers in one kernel."""
    relu, widest, layout = activation == "relu", max(sizes), np.array(sizes)

    @njit(nogil=True)
    def play(weights, seen, layout, space, streams):  # type: ignore[no-untyped-def]
        total, n = 0.0, layout[0]
        for first in range(0, len(seen), streams):
            source = space[0, : streams * n].reshape((streams, n))
            for k in range(streams):
                for i in range(n):
                    value = (seen[first + k, i] - weights[i]) * weights[n + i]
                    source[k, i] = min(max(value, -_CLIP), _CLIP)
            offset = 2 * n
            for layer in range(len(layout) - 1):
                n_in, n_out = layout[layer], layout[layer + 1]
                values = space[(layer + 1) % 2, : streams * n_out]
                target = values.reshape((streams, n_out))
                np.dot(source, weights[offset : offset + n_in * n_out].reshape((n_in, n_out)), target)
                offset += n_in * n_out
                for k in range(streams):
                    for j in range(n_out):
                        target[k, j] += weights[offset + j]
                if layer < len(layout) - 2:
                    if relu:
                        for j in range(streams * n_out):
                            values[j] = max(values[j], np.float32(0.0))
                    else:
                        tanh(values, 0, streams * n_out)
                offset, source = offset + n_out, target
            for k in range(streams):
                total += source[k, 0]
        return total

    space = np.zeros((2, streams * widest), np.float32)

    def run() -> int:
        for _ in range(16):
            play(weights, seen, layout, space, streams)
        return 16 * len(seen)

    return run


def choosing(weights: np.ndarray, sizes: tuple[int, ...], activation: str, seen: np.ndarray) -> Callable[[], int]:
    """Return a function that lets the policy choose an action for each observation, as the fused loop does."""
    simulator, spec = Drift(), spec_of(sizes, activation)
    choose, actor = build_policy_chooser(spec), new_actor_arrays(weights, spec)
    states, rng, row = new_state(simulator), np.random.default_rng(0), np.zeros(1, np.int64)
    masks, features = np.ones((1, sizes[-1]), np.bool_), np.zeros((sizes[-1], 0), np.float32)

    @njit(nogil=True)
    def play(states, seen, masks, features, actor, rng, row):  # type: ignore[no-untyped-def]
        total = 0
        for t in range(len(seen)):
            total += choose(states[0], 0, Observed(seen[t], masks[0], features), actor, rng, row)
        return total

    def run() -> int:
        for _ in range(16):
            play(states, seen, masks, features, actor, rng, row)
        return 16 * len(seen)

    return run


if __name__ == "__main__":
    main()
