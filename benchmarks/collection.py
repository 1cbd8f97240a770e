"""Collection speed: the fused loop against the same simulator stepped from Python with the torch module.

Both play the default episode's dynamics with the same network on one core; the pairs are interleaved in one run and
the ratio is of medians. Beside them the fused loop's two parts are played apart on the same episodes: the simulator
(step, observation, mask, features and their checks) with the actions that the policy took, and the network (forward
pass and sampling) on the observations that it saw. All times are CPU times of the one thread, so that work beside it
counts less. Where onnxruntime and onnx are installed, the network in ONNX Runtime with sampling in NumPy takes torch's
place in a third loop, and its logits are compared with torch's. Compilation is timed apart.
Usage: python benchmarks/collection.py [--repeats K] [--json FILE]
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ["LONGSTRIDE_KERNEL_CACHE"] = "off"  # compilation is timed

import numpy as np
import torch
from numba import njit

from benchmarks.peers.stepwise import Onnx, Stepwise, Torch, largest_difference, onnx_missing
from longstride.policies.compiled.forward import align_params, new_actor_arrays
from longstride.policies.make_spec import spec_for
from longstride.policies.networks import ActorCritic, initialise
from longstride.process.load import find_scenario
from longstride.process.simulator import ProcessSimulator
from longstride.rollout.collect_steps import build_collect_steps
from longstride.rollout.episode_loop import build_policy_chooser
from longstride.rollout.loop_arrays import new_loop_arrays
from longstride.rollout.streams.generator_addresses import rows_of
from longstride.rollout.trajectory import allocate
from longstride.seeding import stream
from longstride.simulators.observe import Observed, build_observe_state, new_guarded
from longstride.simulators.simulator import compile_functions, new_state


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    simulator = ProcessSimulator(find_scenario("loan_desk"))
    model = ActorCritic(spec_for(simulator, (128,) * 3, (256,) * 3, "relu"))
    logits, weights = torch.from_numpy(simulator.initial_logits), torch.from_numpy(simulator.initial_feature_weights)
    initialise(model, "orthogonal", torch.Generator().manual_seed(0), logits, initial_feature_weights=weights)
    fused = Fused(simulator, model)
    stepwise = {"python": Stepwise(simulator, Torch(model))}
    if lacking := onnx_missing():
        print(f'ONNX Runtime is skipped: {lacking} is not installed (pip install -e ".[peers]").')
    else:
        stepwise["onnx"] = Stepwise(simulator, Onnx(model))
    begin = time.thread_time()
    fused.run(0)
    compile_seconds = time.thread_time() - begin
    parts = Parts(fused)
    loops = {"fused": fused.run, "simulator": parts.simulate, "network": parts.infer}
    for name, loop in stepwise.items():
        loops |= {name: loop.run, f"{name}_policy": loop.ask}
    for run in loops.values():
        run(0)
    rounds = [{name: run(k) for name, run in loops.items()} for k in range(1, options.repeats + 1)]
    us = {name: statistics.median(each[name] for each in rounds) * 1e6 for name in loops}
    result = {"processor": platform.processor() or platform.machine(), "torch": torch.__version__}
    result |= {"compile_seconds": round(compile_seconds, 1)}
    result |= {f"{name}_us_per_decision": round(value, 2) for name, value in us.items()}
    print(f"fused loop, one core, one stream: {in_words(us['fused'])}; compiling, once a run: {compile_seconds:.1f} s")
    print(f"  of it the simulator, played apart: {us['simulator']:5.2f} µs; the network: {us['network']:.2f} µs")
    for name, ratio in (("python", "ratio"), ("onnx", "onnx_ratio")):
        if name in stepwise:
            result[ratio] = round(us[name] / us["fused"], 1)
            title = {"python": "torch", "onnx": "ONNX Runtime and NumPy"}[name]
            print(f"stepped from Python with {title}: {in_words(us[name])}, {result[ratio]} times the fused loop's")
            print(f"  of it the policy, asked apart: {us[name + '_policy']:.1f} µs")
    if "onnx" in stepwise:
        difference = largest_difference(Torch(model), Onnx(model), stepwise["onnx"].trajectory)
        result["onnx_difference"] = difference
        print(f"logits of ONNX Runtime and torch differ by at most {difference:.1g}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


def in_words(us: float) -> str:
    """Return microseconds a decision and decisions a second."""
    return f"{us:8.2f} µs a decision ({1e6 / us:,.0f} decisions/s)"


class Fused:
    """One episode in the compiled loop, recorded."""

    def __init__(self, simulator, model):
        self.simulator, self.spec, self.steps = simulator, model.spec, 0
        self.loop, self.states = build_collect_steps(simulator, model.spec), new_state(simulator)
        self.trajectory = allocate(model.spec, simulator.max_steps)
        self.arrays = new_loop_arrays(self.trajectory.select(None), model.spec, self.states)
        self.weights = align_params(model.flat[: model.layout.actor_size].numpy(), model.spec)

    def run(self, seed: int) -> float:
        """Return seconds per decision of an episode."""
        pair = stream(seed, "simulator"), stream(seed, "policy")
        generators = rows_of([pair])
        self.arrays.next_rows[0], self.arrays.ages[0] = 0, -1
        begin = time.thread_time()
        self.loop(self.states, generators, self.simulator.parameters, self.weights, self.arrays)
        self.steps = int(self.arrays.next_rows[0])
        return (time.thread_time() - begin) / self.steps


class Parts:
    """The two parts of the episode that the fused loop played last, each in a loop of its own."""

    def __init__(self, fused):
        self.fused = fused
        functions = compile_functions(fused.simulator)
        choose = build_policy_chooser(fused.spec)
        look, reset, step = build_observe_state(fused.simulator, functions), functions.reset, functions.step

        @njit
        def simulate(states, p, rng, rows, steps, guarded):
            state = states[0]
            reset(state, p, rng)
            for t in range(steps):
                look(state, p, guarded, rows.observations[t], rows.masks[t], rows.features[t])
                step(state, p, rows.actions[t], rng)

        @njit
        def infer(states, p, rng, rows, steps, actor, row):
            total = 0
            for t in range(steps):
                observed = Observed(rows.observations[t], rows.masks[t], rows.features[t])
                total += choose(states[0], p, observed, actor, rng, row)
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
        rows = f.trajectory, f.steps, new_actor_arrays(f.weights, f.spec), row
        return self._timed(self._infer, f.states, f.simulator.parameters, stream(seed, "policy"), *rows)

    def _timed(self, function, *arguments):
        begin = time.thread_time()
        function(*arguments)
        return (time.thread_time() - begin) / self.fused.steps


if __name__ == "__main__":
    np.seterr(over="ignore")
    main()
