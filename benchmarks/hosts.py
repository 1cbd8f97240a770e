"""Rollouts by two Ray actors on this machine beside two local threads, and what crosses the wire.

``python benchmarks/hosts.py [--pairs 7] [--rounds 100000] [--json FILE]``: for a simulator of about 100 µs a step, and
for the loan desk, local threads and players collect the same rollout in turns. The ratio of their rates is the median
over the pairs, with the smallest and the largest; that of the processor time, Ray's processes included, is what a quiet
machine comes near to. Then the wire: bytes of a decision, the learner's time to store it,
and the bytes of the episodes that are sent to the hosts. Two players on two cores share them with the learner, which is
worse than on hosts of their own.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src" / "core"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import psutil
import torch

from longstride.policies.compiled.forward import align_params
from longstride.policies.make_spec import spec_for
from longstride.policies.networks import ActorCritic, initialise
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.fixed_length_collector import FixedLengthCollector
from longstride.rollout.hosts.collector import HostsCollector
from longstride.rollout.hosts.pool import Job
from longstride.rollout.hosts.ray_pool import RayPool
from longstride.rollout.hosts.wire import pack
from longstride.rollout.trajectory import digest
from longstride.simulators.loading import LoadedSimulator, load_simulator

THREADS = 2
SLOW = Path(__file__).with_name("slow_simulator.py")
FORMS = ("rows",)
"""What the hosts send, as hosts.json names it; that file also has a form that is gone since."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    slow = load_simulator(f"{SLOW}:Slow", {"rounds": options.rounds})
    desk = load_simulator("process")
    # Rollouts of about 0.4 s on two cores; the desk's steps are thirty times as fast.
    cases = {"slow": (slow, 32, 250), "loan_desk": (desk, 32, 8_000)}
    results = {name: measure(*case, options.pairs) for name, case in cases.items()}
    for name, result in results.items():
        print(f"{name}: {lines_of(result)}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


def measure(loaded: LoadedSimulator, instances: int, steps: int, pairs: int) -> dict[str, Any]:
    """Return the ratios and the costs of one simulator."""
    simulator = loaded.simulator
    model = ActorCritic(spec_for(simulator, (128,) * 3, (8,), "relu"))
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    weights = align_params(model.flat[: model.layout.actor_size].numpy(), model.spec)
    plan = RolloutPlan(0, instances, steps, threads=THREADS)
    local = FixedLengthCollector(simulator, model.spec, plan)
    local.compile(weights)
    space = {"observations": simulator.observation_size, "actions_of_space": simulator.action_space.outputs}
    result: dict[str, Any] = {"instances": instances, "steps": steps, **space}
    for form in FORMS:
        pool = RayPool(f"local:{THREADS}", THREADS)
        hosts = HostsCollector(Job(simulator, loaded.source, model.spec, plan), pool)
        hosts.compile(weights)
        local.load_state_dict(hosts.state_dict())
        rates, figures, same = [], [], True
        for number in range(pairs + 1):
            seconds, work = {}, {}
            for name, collector in (("local", local), ("hosts", hosts)):
                before, begin = processor_seconds(), time.perf_counter()
                collected, _ = collector.collect(weights, 0, instances)
                seconds[name] = time.perf_counter() - begin
                work[name] = processor_seconds() - before
                seconds[f"{name} digest"] = digest(each.trajectory for each in collected)
            same &= seconds["local digest"] == seconds["hosts digest"]
            if number:  # the first one warms up
                rates.append(seconds["local"] / seconds["hosts"])
                figures.append({**hosts.figures()["hosts"], "local_seconds": work["local"], "work": work["hosts"]})
        result[form] = costs(rates, figures, instances * steps) | {"same_bits": same}
        sizes = {each: data.nbytes for each, (*_, data) in pack(collected[0].trajectory, model.spec).items()}
        result[form]["columns"] = {each: size / steps for each, size in sizes.items() if size}
        result["call_seconds"] = call_seconds(pool)
        hosts.close()
    return result


def processor_seconds() -> float:
    """Return the processor time of this process and of all that it has started, Ray's processes among them."""
    total = time.process_time()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total += sum(process.cpu_times()[:2])
    return total


def call_seconds(pool: RayPool, calls: int = 200) -> float:
    """Return the seconds of the learner's process for a call that does nothing, many at once."""
    handle = next(iter(pool.handles()))
    begin = time.process_time()
    for receipt in [handle.process.remote() for _ in range(calls)]:
        pool.wait([receipt], 10.0)
    return (time.process_time() - begin) / calls


def costs(rates: list[float], figures: list[dict[str, Any]], decisions: int) -> dict[str, Any]:
    """Return medians over the pairs."""
    median = {name: statistics.median(f[name] for f in figures) for name in figures[0]}
    return {
        "ratio": statistics.median(rates),
        "ratios": [min(rates), max(rates)],
        "bytes": median["received_bytes"] / decisions,
        "sent_bytes": median["sent_bytes"] / decisions,
        "store_seconds": median["store_seconds"] / decisions,
        "host_seconds": median["host_seconds"] / decisions,
        "local_seconds": median["local_seconds"] / decisions,
        "work_ratio": statistics.median(f["local_seconds"] / f["work"] for f in figures),
    }


def lines_of(result: dict[str, Any]) -> str:
    """Return the result of a simulator for people."""
    text = f"{result['instances']} instances of {result['steps']:,} steps"
    for form in FORMS:
        each = result[form]
        low, high = each["ratios"]
        text += (
            f"\n   {form}: {each['ratio']:.2f} of two local threads ({low:.2f} to {high:.2f}), by processor time "
            f"{each['work_ratio']:.2f}, same bits {each['same_bits']}; {each['bytes']:.1f} bytes a decision come back, "
            f"{each['sent_bytes']:.2f} go out; the learner's threads take {1e6 * each['store_seconds']:.2f} µs a "
            f"decision, a host's {1e6 * each['host_seconds']:.2f}, local play {1e6 * each['local_seconds']:.2f}"
        )
    return text


if __name__ == "__main__":
    main()
