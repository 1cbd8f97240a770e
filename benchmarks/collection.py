"""Collection speed: the fused loop against the same simulator stepped from Python with the torch module.

Both play the default episode's dynamics with the same network on one core; the pairs are interleaved in one run and
the ratio is of medians. Beside them the fused loop's two parts are played apart on the same episodes: the simulator
(step, observation, mask, features and their checks) with the actions that the policy took, and the network (forward
pass and sampling) on the observations that it saw. All times are CPU times of the one thread, so that work beside it
counts less. Compilation is timed apart. Usage: python benchmarks/collection.py [--repeats K] [--json FILE]
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
os.environ["LONGSTRIDE_KERNEL_CACHE"] = "off"  # compilation is timed

import numpy as np
import torch
from numba import njit

from core.policy.distributions import log_prob, masked_log_softmax
from core.policy.forward import aligned_weights, workspace
from core.policy.networks import ActorCritic, initialise
from core.rollout.episode import build_go_on, build_policy_chooser
from core.rollout.trajectory import allocate
from core.seeding import stream
from core.simulators.loading import find_scenario
from core.simulators.look import build_look, new_guarded
from core.simulators.process.simulator import ProcessSimulator
from core.simulators.simulator import compile_functions, new_state

PYTHON_STEPS = 3_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    simulator = ProcessSimulator(find_scenario("loan_desk"))
    sizes = [simulator.observation_size, 128, 128, 128, simulator.action_space.n]
    critic, features = [simulator.observation_size, 256, 256, 256, 1], simulator.action_feature_size
    model = ActorCritic(sizes, critic, "relu", action_features=features)
    logits, weights = torch.from_numpy(simulator.initial_logits), torch.from_numpy(simulator.initial_feature_weights)
    initialise(model, "orthogonal", torch.Generator().manual_seed(0), logits, initial_feature_weights=weights)
    fused = Fused(simulator, sizes, model)
    stepwise = Stepwise(simulator, model)
    begin = time.thread_time()
    fused.run(0)
    compile_seconds = time.thread_time() - begin
    parts = Parts(fused)
    stepwise.run(0), parts.simulate(0), parts.infer(0)
    rounds = [(fused.run(k), parts.simulate(k), parts.infer(k), stepwise.run(k)) for k in range(1, options.repeats + 1)]
    fused_us, simulator_us, network_us, python_us = (
        statistics.median(column) * 1e6 for column in zip(*rounds, strict=True)
    )
    result = {
        "processor": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "compile_seconds": round(compile_seconds, 1),
        "fused_us_per_decision": round(fused_us, 2),
        "simulator_us_per_decision": round(simulator_us, 2),
        "network_us_per_decision": round(network_us, 2),
        "python_us_per_decision": round(python_us, 1),
        "ratio": round(python_us / fused_us, 1),
    }
    print(f"fused loop, one core, one stream: {fused_us:8.2f} µs a decision ({1e6 / fused_us:,.0f} decisions/s)")
    print(f"  of it the simulator, played apart: {simulator_us:5.2f} µs; the network: {network_us:.2f} µs")
    print(f"stepped from Python with torch:   {python_us:8.2f} µs a decision ({1e6 / python_us:,.0f} decisions/s)")
    print(f"ratio {result['ratio']}; the fused loop's compilation, once a run: {compile_seconds:.1f} s")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


class Fused:
    """One episode in the compiled loop, recorded."""

    def __init__(self, simulator, sizes, model):
        self.simulator, self.sizes, self.scratch, self.steps = simulator, sizes, workspace(sizes), 0
        self.reset, self.go_on = compile_functions(simulator).reset, build_go_on(simulator, sizes, "relu")
        self.states = new_state(simulator)
        self.trajectory = allocate(simulator.max_steps, sizes[0], simulator.action_space, simulator.action_feature_size)
        self.weights = aligned_weights(model.flat[: model.layout.actor_size].numpy(), sizes)

    def run(self, seed: int) -> float:
        """Return seconds per decision of an episode."""
        streams = stream(seed, "simulator"), stream(seed, "policy")
        begin = time.thread_time()
        parameters, end = self.simulator.parameters, self.simulator.max_steps
        self.reset(self.states[0], parameters, streams[0])
        self.steps, _, _ = self.go_on(
            self.states, parameters, self.weights, *streams, self.trajectory, self.scratch, 0, end, 0
        )
        return (time.thread_time() - begin) / self.steps


class Parts:
    """The two parts of the episode that the fused loop played last, each in a loop of its own."""

    def __init__(self, fused):
        self.fused = fused
        functions = compile_functions(fused.simulator)
        choose = build_policy_chooser(fused.simulator, fused.sizes, "relu", greedy=False)
        look, reset, step = build_look(fused.simulator, functions), functions.reset, functions.step

        @njit
        def simulate(states, p, rng, rows, steps, guarded):
            state = states[0]
            reset(state, p, rng)
            for t in range(steps):
                look(state, p, guarded, rows.observations[t], rows.masks[t], rows.features[t])
                step(state, p, rows.actions[t], rng)

        @njit
        def infer(states, p, rng, rows, steps, weights, scratch, row):
            total = 0
            for t in range(steps):
                seen = rows.observations[t], rows.masks[t], rows.features[t]
                total += choose(states[0], p, *seen, weights, rng, scratch, row)
            return total

        self._simulate, self._infer = simulate, infer

    def simulate(self, seed: int) -> float:
        """Return seconds per decision of the simulator alone; writes the same rows of the trajectory again."""
        f = self.fused
        rng, guarded = stream(seed, "simulator"), new_guarded(f.simulator.observation_size)
        return self._timed(self._simulate, f.states, f.simulator.parameters, rng, f.trajectory, f.steps, guarded)

    def infer(self, seed: int) -> float:
        """Return seconds per decision of the policy alone."""
        f, row = self.fused, np.zeros(1, np.int64)
        rows = f.trajectory, f.steps, f.weights, f.scratch, row
        return self._timed(self._infer, f.states, f.simulator.parameters, stream(seed, "policy"), *rows)

    def _timed(self, function, *arguments):
        begin = time.thread_time()
        function(*arguments)
        return (time.thread_time() - begin) / self.fused.steps


class Stepwise:
    """The usual trainer's loop: compiled simulator, torch on one observation, sample, log-probability, storage."""

    def __init__(self, simulator, model):
        self.simulator, self.model = simulator, model
        self.functions = compile_functions(simulator)
        self.states = new_state(simulator)
        self.trajectory = allocate(
            PYTHON_STEPS, simulator.observation_size, simulator.action_space, simulator.action_feature_size
        )

    @torch.no_grad()
    def run(self, seed: int) -> float:
        """Return seconds per decision over the first steps of an episode."""
        f, p, t = self.functions, self.simulator.parameters, self.trajectory
        rng, state = stream(seed, "simulator"), self.states[0]
        f.reset(state, p, rng)
        begin = time.thread_time()
        for k in range(PYTHON_STEPS):
            f.observe(state, p, t.observations[k])
            t.masks[k] = True
            f.action_mask(state, p, t.masks[k])
            t.features[k] = 0.0
            f.action_features(state, p, t.masks[k], t.features[k])
            mask, features = torch.from_numpy(t.masks[k : k + 1]), torch.from_numpy(t.features[k : k + 1])
            logits = self.model.logits(self.model.normalise(torch.from_numpy(t.observations[k : k + 1])), features)
            log_probabilities = masked_log_softmax(logits, mask)
            action = torch.multinomial(log_probabilities.exp(), 1)[0]
            t.log_probs[k] = log_prob(log_probabilities, action).item()
            t.actions[k] = action.item()
            t.rewards[k], t.terminated[k] = f.step(state, p, int(t.actions[k]), rng)
            t.truncated[k] = f.truncated(state, p)
        return (time.thread_time() - begin) / PYTHON_STEPS


if __name__ == "__main__":
    np.seterr(over="ignore")
    main()
