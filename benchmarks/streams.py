"""Collection speed of many streams: one after another, side by side on a core, and on several threads.

Two problems: the loan desk, and one whose simulator costs next to nothing, with an actor 32-128-128-128-8. Every way
plays the same episodes, in turns within one run; figures are medians over the rounds, ratios to one stream at a time
on one thread. CPU time is that of the whole process, per decision: work beside it counts less than in wall time. The
very first round, in memory that nobody has touched, is shown apart; all ways play in the same memory.
Usage: python benchmarks/streams.py [--repeats K] [--episodes N] [--json FILE]
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src" / "core"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from longstride.policies.compiled.forward import align_params
from longstride.policies.make_spec import spec_for
from longstride.policies.networks import ActorCritic, initialise
from longstride.process.load import find_scenario
from longstride.process.simulator import ProcessSimulator
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete

WAYS = [(1, 1), (1, 2), (1, 4), (1, 8), (1, 16), (2, 1), (2, 8)]
"""Threads, most episodes side by side on each."""


class Drift(Simulator):
    """32 numbers that drift; its step is a few additions."""

    observation_size = 32
    action_space = Discrete(8)
    max_steps = 62_000
    state_dtype = np.dtype([("x", np.float32, (32,)), ("t", np.int64)])

    def reset(state, parameters, rng):  # noqa: N805
        """Draw the numbers."""
        state.t = 0
        for i in range(32):
            state.x[i] = rng.random() - 0.5

    def observe(state, parameters, observation):  # noqa: N805
        """Show them."""
        for i in range(32):
            observation[i] = state.x[i]

    def step(state, parameters, action, rng):  # noqa: N805
        """Draw one of them anew and push another."""
        state.t += 1
        state.x[state.t % 32] = rng.random() - 0.5
        state.x[action] = 0.5 * state.x[action] + 0.1
        return state.x[0], False


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = {}
    for name, simulator in (("drift", Drift()), ("loan_desk", ProcessSimulator(find_scenario("loan_desk")))):
        found[name] = measure(simulator, options.episodes, options.repeats)
        print(
            f"{name}, {options.episodes} episodes of {found[name][0]['decisions']:,} decisions together; load", end=" "
        )
        print(" ".join(f"{load:.1f}" for load in os.getloadavg()))
        print("| threads | side by side | CPU us a decision | ratio | decisions/s, wall | ratio |")
        print("|---|---|---|---|---|---|")
        for row in found[name]:
            print(
                f"| {row['threads']} | {row['together']} | {row['cpu_us']:.3f} | {row['cpu_ratio']:.2f} | "
                f"{row['per_second']:,.0f} | {row['wall_ratio']:.2f} |"
            )
        print(
            f"The first round of all, one stream on one thread: {found[name][0]['first_cpu_us']:.3f} CPU us a decision."
        )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def measure(simulator: Simulator, episodes: int, repeats: int) -> list[dict[str, float]]:
    """Return a row for each way."""
    model = ActorCritic(spec_for(simulator, (128,) * 3, (16,), "relu"))
    prior = simulator.initial_logits, simulator.initial_feature_weights
    logits, feature_weights = (None if p is None else torch.from_numpy(np.asarray(p)) for p in prior)
    generator = torch.Generator().manual_seed(0)
    initialise(model, "orthogonal", generator, logits, initial_feature_weights=feature_weights)
    weights = align_params(model.flat[: model.layout.actor_size].numpy(), model.spec)
    collectors = {
        (threads, together): EpisodeCollector(simulator, model.spec, RolloutPlan(0, episodes, 0, threads, together))
        for threads, together in WAYS
    }
    for collector in collectors.values():
        collector.compile(weights)
        collector._rows = collectors[WAYS[0]]._rows
    first_cpu, _, decisions = played(collectors[WAYS[0]], weights, 0)
    rounds = {way: [] for way in WAYS}
    for repeat in range(1, repeats + 1):
        for way, collector in collectors.items():
            rounds[way].append(played(collector, weights, repeat * episodes))
    rows = []
    for (threads, together), figures in rounds.items():
        cpu, wall = (statistics.median(column) for column in list(zip(*figures, strict=True))[:2])
        row = {"threads": threads, "together": together, "decisions": decisions, "first_cpu_us": first_cpu * 1e6}
        rows.append({**row, "cpu_us": cpu * 1e6, "per_second": 1.0 / wall})
    for row in rows:
        row["cpu_ratio"] = rows[0]["cpu_us"] / row["cpu_us"]
        row["wall_ratio"] = row["per_second"] / rows[0]["per_second"]
    return rows


def played(collector: EpisodeCollector, weights: np.ndarray, first: int) -> tuple[float, float, int]:
    """Play a round; return CPU seconds and wall seconds a decision, and the decisions."""
    begin = time.process_time()
    episodes, seconds = collector.collect(weights, first, collector.plan.instances)
    decisions = sum(episode.trajectory.steps for episode in episodes)
    return (time.process_time() - begin) / decisions, seconds / decisions, decisions


if __name__ == "__main__":
    main()
