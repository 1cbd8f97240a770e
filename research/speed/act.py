#!/usr/bin/env python
"""What a call of ``policy.act`` costs beyond the network's own time.

The network is timed in a compiled loop and ``act`` in a Python loop, one after the other in each round. Each figure is
the fastest round's: other programs on the machine only add time.
Run: python research/speed/act.py
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from numba import njit

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))

from longstride.policies.compiled.forward import align_params, build_forward, workspace
from longstride.policies.families.mlp.family import MLP
from longstride.policies.loaded_policy import LoadedPolicy
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete

CALLS, ROUNDS, BATCH = 500, 200, 256
POLICIES = {
    "Discrete, 4 observations, 2 x 64": PolicySpec(4, Discrete(2), (64, 64), (64,), "tanh", MLP),
    "Discrete, 100 observations, 3 x 128": PolicySpec(100, Discrete(20), (128,) * 3, (128,), "relu", MLP),
    "the same with 2 action features": PolicySpec(100, Discrete(20), (128,) * 3, (128,), "relu", MLP, 2),
    "MultiDiscrete, 100 observations, 3 x 128": PolicySpec(
        100, MultiDiscrete([5, 5, 5]), (128,) * 3, (128,), "relu", MLP
    ),
    "Box, 10 observations, 2 x 64": PolicySpec(
        10, Box([-1.0] * 3, [1.0] * 3, squashed=True), (64, 64), (64,), "relu", MLP
    ),
}


def main() -> None:
    """Print a table of microseconds."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    print(f"{'policy':42} {'network':>9} {'act':>9} {'beyond':>9} {'sampled':>9} {'beyond':>9} {'of a batch':>11}  us")
    for name, spec in POLICIES.items():
        network, greedy, sampled, batch = measure(spec)
        print(
            f"{name:42} {network:9.2f} {greedy:9.2f} {greedy - network:9.2f} {sampled:9.2f} {sampled - network:9.2f} "
            f"{batch:11.2f}"
        )


def measure(spec: PolicySpec) -> tuple[float, float, float, float]:
    """Return microseconds of the network, of ``act`` greedy and sampled, and of ``act`` for a row of a batch."""
    rng = np.random.default_rng(0)
    params = rng.normal(0.0, 0.1, spec.layout.actor_size).astype(np.float32)
    observations = rng.normal(size=(CALLS, spec.observation_size)).astype(np.float32)
    forward = build_forward(spec)
    aligned, scratch, no_state = align_params(params, spec), workspace(spec), np.zeros(spec.state_size, np.float32)
    values = sum(spec.action_space.choices)
    mask = np.ones(values, np.bool_) if values else None
    features = np.zeros((values, spec.action_features), np.float32) if spec.action_features else None
    features_of_batch = None if features is None else np.zeros((BATCH, *features.shape), np.float32)

    @njit
    def play(params, observations, state, scratch):  # type: ignore[no-untyped-def]
        total = np.float32(0.0)
        for row in range(len(observations)):
            total += forward(params, observations[row], state, scratch)[0]
        return total

    policy, rows = LoadedPolicy(spec, params), list(observations)

    def act(greedy: bool) -> None:
        for row in rows:
            policy.act(row, mask, features, greedy)

    calls = [
        (lambda: play(aligned, observations, no_state, scratch), CALLS),
        (lambda: act(True), CALLS),
        (lambda: act(False), CALLS),
        (lambda: policy.act(observations[:BATCH], features=features_of_batch), BATCH),
    ]
    return tuple(fastest(calls))


def fastest(calls):
    """Return the microseconds of a part of each call in its fastest round; a round times each call once."""
    times = [[] for _ in calls]
    for _ in range(ROUNDS):
        for (call, parts), found in zip(calls, times, strict=True):
            begin = time.perf_counter()
            call()
            found.append((time.perf_counter() - begin) / parts * 1e6)
    return [min(found) for found in times]


if __name__ == "__main__":
    main()
