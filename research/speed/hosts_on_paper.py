"""Seconds of an iteration for 1 to 64 hosts and 1 to 8 GPUs, on paper: a simulation with measured constants.

``python research/speed/hosts_on_paper.py [--measured benchmarks/hosts.json] [--plot docs/images/hosts.png]``

Tasks go to the cores of hosts, answers over one link to the learner, whose threads store or rebuild them; its one
Python thread hands tasks out and takes answers. Each is a queue, first come, first served. Updates are predicted as the
planner does, on each GPU the same share, with the exchange of gradients on the bus. What was measured comes from
``benchmarks/hosts.py``; hosts, link and GPUs are assumed.
"""

import argparse
import heapq
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from longstride.hardware.planning.gpu_catalog import Card, find_card
from longstride.hardware.planning.roofline import bus_bytes_per_second, seconds, update_seconds
from longstride.learning.step_costs.work import update_work
from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import Discrete

EXCHANGE_SECONDS = 20e-6
"""Least time in which several GPUs add up their gradients: assumed."""


@dataclass(frozen=True)
class Constants:
    """What a rollout takes; the first five are measured."""

    host_seconds: float  # of a core of a host, a decision
    store_seconds: float  # of a thread of the learner, a decision
    received_bytes: float  # a decision
    sent_bytes: float  # a decision
    call_seconds: float  # of the learner's Python, a task
    host_cores: int = 32
    learner_threads: int = 16
    link: float = 25e9 / 8  # bytes a second of the learner's network card


@dataclass(frozen=True)
class Rollout:
    """Size of a rollout."""

    decisions: int
    tasks: int


def play_seconds(rollout: Rollout, hosts: int, constants: Constants) -> tuple[float, dict[str, float]]:
    """Return the seconds of a rollout on some hosts, and those that each resource is busy.

    Cores get the next task as soon as they are idle: a host holds tasks in advance.
    """
    decisions = rollout.decisions / rollout.tasks
    sending = decisions * constants.sent_bytes / constants.link
    receiving = decisions * constants.received_bytes / constants.link
    playing, storing = decisions * constants.host_seconds, decisions * constants.store_seconds
    python = 0.5 * constants.call_seconds  # half of a call hands out, half takes the answer
    cores = [0.0] * min(hosts * constants.host_cores, rollout.tasks)
    handed, answers = 0.0, []
    for _ in range(rollout.tasks):
        handed += max(python, sending)
        begin = max(heapq.heappop(cores), handed)
        heapq.heappush(cores, begin + playing)
        heapq.heappush(answers, begin + playing)
    link = taken = last = 0.0
    threads = [0.0] * constants.learner_threads
    while answers:
        link = max(link, heapq.heappop(answers)) + receiving
        taken = max(taken, link) + python
        done = max(heapq.heappop(threads), taken) + storing
        heapq.heappush(threads, done)
        last = max(last, done)
    tasks = rollout.tasks
    busy = {
        "hosts": tasks * playing / (hosts * constants.host_cores),
        "wire": tasks * (sending + receiving),
        "learner's threads": tasks * storing / constants.learner_threads,
        "learner's Python": tasks * 2 * python,
    }
    return last, busy


def seconds_of_update(spec: PolicySpec, decisions: int, epochs: int, gpus: int, card: Card) -> float:
    """Return the predicted seconds of an update whose samples some GPUs share, in BF16 with captured steps."""
    batch = min(decisions, 65_536) // gpus
    work = update_work(spec, True, decisions // gpus, batch, batch, epochs, "graph")
    exchange = work.steps * (EXCHANGE_SECONDS + 4 * spec.layout.size / bus_bytes_per_second(card))
    return update_seconds(seconds(work, card, "bf16", True)) + (exchange if gpus > 1 else 0.0)


def constants_of(measured: dict[str, Any], form: str) -> Constants:
    """Return the measured constants of a form of the wire."""
    costs = measured[form]
    return Constants(
        costs["host_seconds"], costs["store_seconds"], costs["bytes"], costs["sent_bytes"], measured["call_seconds"]
    )


def binding(play: float, update: float, busy: dict[str, float]) -> str:
    """Return what an iteration with one rollout ahead waits for."""
    return "update" if update > play else max(busy, key=busy.__getitem__)


def table(name: str, measured: dict[str, Any], spec: PolicySpec, card: Card) -> list[dict[str, Any]]:
    """Return a row for each number of hosts and GPUs and each form; 2,048 instances of 512 steps, 3 epochs."""
    rollout, rows = Rollout(2_048 * 512, 2_048), []
    for form in ("rows", "actions"):
        constants = constants_of(measured, form)
        for hosts in (1, 2, 4, 8, 16, 32, 64):
            play, busy = play_seconds(rollout, hosts, constants)
            for gpus in (1, 2, 4, 8):
                update = seconds_of_update(spec, rollout.decisions, 3, gpus, card)
                both = {"in_step": play + update, "ahead": max(play, update)}
                bound = binding(play, update, busy)
                rates = {f"rate_{key}": rollout.decisions / value for key, value in both.items()}
                rows.append(
                    {"simulator": name, "form": form, "hosts": hosts, "gpus": gpus, "binds": bound}
                    | {"play": play, "update": update, **both, **rates}
                )
    return rows


def hosts_for(rate: float, measured: dict[str, Any], form: str, link: float) -> dict[str, float]:
    """Return what a number of decisions a second takes of each resource."""
    constants = replace(constants_of(measured, form), link=link)
    return {
        "cores of hosts": rate * constants.host_seconds,
        "share of the wire": rate * (constants.received_bytes + constants.sent_bytes) / link,
        "threads of the learner": rate * constants.store_seconds,
    }


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--measured", type=Path, default=Path(__file__).resolve().parents[2] / "benchmarks" / "hosts.json"
    )
    parser.add_argument("--gpu", default="H200")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    measured, card = json.loads(options.measured.read_text()), find_card(options.gpu)
    rows = []
    for name, of in measured.items():
        spec = PolicySpec(of["observations"], Discrete(of["actions_of_space"]), (128,) * 3, (256,) * 3, "relu", MLP)
        rows += table(name, of, spec, card)
        print_table(name, [row for row in rows if row["simulator"] == name])
        for form in ("rows", "actions"):
            needs = hosts_for(500_000, of, form, Constants.link)
            print(f"   500,000 steps/s as {form}: " + ", ".join(f"{v:.3g} {k}" for k, v in needs.items()))
        update = seconds_of_update(spec, 1_048_576, 3, 2, card)
        print(f"   two {card.name}s update {1_048_576 / update:,.0f} samples/s (3 epochs, predicted)")
    if options.plot:
        from research.speed.hosts_plot import plot

        print(plot(rows, options.plot))


def print_table(name: str, rows: list[dict[str, Any]]) -> None:
    """Print the rate of each number of hosts with one GPU and with eight."""
    print(f"{name}: million steps/s in step and with a rollout ahead, and what binds then; 1 and 8 GPUs")
    for form in ("rows", "actions"):
        for row in rows:
            if row["form"] == form and row["gpus"] in (1, 8):
                rates = f"{row['rate_in_step'] / 1e6:8.3f} {row['rate_ahead'] / 1e6:8.3f}"
                print(f"   {form:8} {row['hosts']:3} hosts {row['gpus']} GPUs {rates}  {row['binds']}")


if __name__ == "__main__":
    main()
