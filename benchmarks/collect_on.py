"""Steps a second of the compiled loop beside the batched collector with torch, for several policies and streams.

``python benchmarks/collect_on.py [--repeats 3] [--steps 16] [--threads 1] [--gpu]``: whole episodes of Pendulum, of
so many steps, as many at once as there are streams; eight side by side in the compiled loop. The collectors take turns,
and the median counts: of the processor's time with one thread, which a busy machine changes less, else of the clock's.
``--gpu`` adds the forward pass on a GPU.
"""

import argparse
import os
import statistics
import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src" / "core"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from longstride.hardware.planning.choices import MOST_SIDE_BY_SIDE
from longstride.learning.steps.cuda_graph import CudaGraphs
from longstride.policies.batched_forward import TorchForward
from longstride.policies.make_spec import spec_for
from longstride.policies.networks import ActorCritic, initialise
from longstride.rollout.batched.arrays import half_batches
from longstride.rollout.batched.collector import BatchedCollector
from longstride.rollout.collector import RolloutPlan, params_to_play
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.simulators.classic_control.pendulum import Pendulum


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--streams", type=int, nargs="+", default=[32, 256])
    parser.add_argument("--gpu", action="store_true")
    options = parser.parse_args()
    options.torch = True
    torch.set_num_threads(options.threads)
    columns = ["torch", *(["gpu"] if options.gpu else [])]
    print(f"{options.threads} threads; steps/s, and the ratio to the compiled loop")
    for width in options.widths:
        for streams in options.streams:
            rates = measure(width, streams, options)
            others = ", ".join(f"{name} {rates[name]:,.0f} ({rates[name] / rates['loop']:.2f})" for name in columns)
            print(f"3 x {width}, {streams} streams: compiled loop {rates['loop']:,.0f}, {others}", flush=True)


def measure(width: int, streams: int, options: argparse.Namespace) -> dict[str, float]:
    """Return steps a second of each collector."""
    simulator = Pendulum(max_steps=options.steps)
    model = ActorCritic(spec_for(simulator, (width,) * 3, (8,), "relu"), pinned=options.gpu)
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    actor = model.flat[: model.layout.actor_size].numpy()
    plan = RolloutPlan(0, streams, threads=options.threads, side_by_side=MOST_SIDE_BY_SIDE)
    collectors = {"loop": EpisodeCollector(simulator, model.spec, plan)}
    places = {"torch": (torch.device("cpu"), None)} if options.torch else {}
    if options.gpu:
        places["gpu"] = torch.device("cuda"), partial(CudaGraphs, torch.device("cuda"))
    for name, (device, new_graphs) in places.items():
        forward = TorchForward(model.spec, *half_batches(streams), device, new_graphs)
        collectors[name] = BatchedCollector(simulator, model.spec, plan, forward)
    for collector in collectors.values():
        collector.compile(params_to_play(collector, actor))
        collector.collect(params_to_play(collector, actor), 0, streams)
    clock = time.process_time if options.threads == 1 and not options.gpu else time.perf_counter
    times = {name: [] for name in collectors}
    for _ in range(options.repeats):
        for name, collector in collectors.items():
            begin = clock()
            collector.collect(params_to_play(collector, actor), 0, streams)
            times[name].append(clock() - begin)
    return {name: streams * options.steps / statistics.median(seconds) for name, seconds in times.items()}


if __name__ == "__main__":
    np.seterr(over="ignore")
    main()
