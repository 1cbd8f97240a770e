"""How training grows with the length of episodes, the width of networks and the cores; memory beside the plan's.

LongQueue (``long_queue.py``) with the default settings, whole rounds of the product's own trainer with one epoch each
(``scaling_round.py``), every row a process of its own, so that one has no memory of another. Of two or more rounds the
first, in memory that nobody has touched, is left out of medians. Exponents are slopes of log seconds on log decisions
from 10,000 decisions on: 1 is linear.
Usage: python benchmarks/scaling.py [--only lengths widths cores memory] [--small] [--plot FILE.png] [--json FILE]
"""

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import psutil

from benchmarks.peers.report import machine_facts
from benchmarks.scaling_plot import plot
from benchmarks.scaling_round import in_a_process

PHASES = ("simulate", "prepare", "update")
LENGTHS, SMALL_LENGTHS = [10**k for k in range(3, 8)], [10**3, 10**4, 10**5]
WIDTHS, SMALL_WIDTHS = [64, 128, 256, 512, 1024], [64, 128]
_WIDTH_EPISODE, _CORE_EPISODE = 16_384, 62_000
_FROM = 10_000
"""Decisions from which a power law is fitted: below, what a round costs whatever its length counts."""

MEMORY_ROWS: list[tuple[int, dict[str, Any]]] = [
    (500_000, {}),
    (500_000, {"num_epochs": 2}),
    (125_000, {"num_envs": 4}),
    (500_000, {"update_execution": "eager"}),
    (500_000, {"batch_size": 65_536}),
    (500_000, {"batch_size": 65_536, "update_execution": "eager"}),
    (
        100_000,
        {"batch_size": 65_536, "update_execution": "eager", "actor_hidden_size": 512, "critic_hidden_size": 1024},
    ),
    (30_000, {"actor_hidden_size": 1024, "critic_hidden_size": 2048}),
]
"""Decisions of an episode, and the settings that differ from the defaults (but for NUM_ENVS, here 1)."""

Row = dict[str, Any]


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return b of the power law a * size ** b that fits best (least squares of the logarithms)."""
    return statistics.linear_regression(*([math.log(x) for x in column] for column in (sizes, costs))).slope


def run(episode: int, rounds: int = 3, with_floor: bool = False, **settings: Any) -> Row:
    """Measure some rounds; return medians of the seconds, without those of the first round where there are more."""
    found = in_a_process(episode, rounds, with_floor, **{"num_envs": 1, **settings})
    return found | {phase: statistics.median(found[phase][1:] or found[phase]) for phase in PHASES}


def lengths(small: bool) -> list[Row]:
    """Return a row for each length of an episode."""
    return [run(length, 2 if length >= 10**7 else 3) for length in (SMALL_LENGTHS if small else LENGTHS)]


def widths(small: bool) -> list[Row]:
    """Return a row for each width of the actor, with a critic of twice that, on one thread."""
    return [
        run(_WIDTH_EPISODE, 2 if width > 256 else 4, True, update_threads=1, **_networks(width))
        for width in (SMALL_WIDTHS if small else WIDTHS)
    ]


def _networks(width: int) -> dict[str, int]:
    return {"actor_hidden_size": width, "critic_hidden_size": 2 * width}


def cores(small: bool) -> list[Row]:
    """Return a row for each number of cores, with as many episodes, threads of the simulation and of the update."""
    return [
        run(
            _CORE_EPISODE,
            3 if small else 6,
            num_envs=count,
            simulation_threads=count,
            update_threads=count,
        )
        for count in range(1, (psutil.cpu_count(logical=False) or 1) + 1)
    ]


def memory(small: bool) -> list[Row]:
    """Return a row for each setting of the update."""
    rows = MEMORY_ROWS[:1] if small else MEMORY_ROWS
    return [run(episode, 1, **settings) for episode, settings in rows]


def exponents(rows: Sequence[Row]) -> dict[str, float]:
    """Return the exponent of each phase."""
    long = [row for row in rows if row["decisions"] >= _FROM]
    return {phase: exponent([row["decisions"] for row in long], [row[phase] for row in long]) for phase in PHASES}


def bytes_a_decision(rows: Sequence[Row]) -> tuple[float, float] | None:
    """Return the slope of memory over decisions, measured and predicted; None where nothing was measured."""
    if not all(row["peak"] for row in rows):
        return None
    decisions = [row["decisions"] for row in rows]
    columns = [row["peak"] for row in rows], [predicted_bytes(row) for row in rows]
    measured, predicted = (statistics.linear_regression(decisions, column).slope for column in columns)
    return measured, predicted


def predicted_bytes(row: Row) -> int:
    """Return what the plan says: the trajectories and the update beside them."""
    return row["trajectory"] + row["working"]


def lengths_table(rows: Sequence[Row]) -> list[list[str]]:
    """Return cells: microseconds a decision of each phase, and memory beside the plan's."""
    table = [["decisions", *(f"{phase}, us a decision" for phase in PHASES), *_MEMORY_HEAD]]
    for row in rows:
        times = [f"{1e6 * row[phase] / row['decisions']:.2f}" for phase in PHASES]
        table.append([f"{row['decisions']:,}", *times, *_memory_cells(row)])
    growth = bytes_a_decision(rows) or ()
    memory_cells = [f"{each:.0f} bytes a decision" for each in growth]
    return [*table, ["exponent, slope", *(f"{b:.3f}" for b in exponents(rows).values()), *memory_cells]]


def widths_table(rows: Sequence[Row]) -> list[list[str]]:
    """Return cells: seconds beside the floor, the products of the layers at the measured rate."""
    head = ["actor, critic", "simulate, us a decision", "floor", "ratio", "update, ms per 1,000 samples"]
    table = [[*head, "floor", "ratio", "GFLOP/s", "steps"]]
    for row in rows:
        actor, _ = row["parameters"]
        simulate, update = 1e6 * row["simulate"] / row["decisions"], 1e6 * row["update"] / row["decisions"]
        floors = 1e6 * 2 * actor / row["flops"], 1e6 * row["step_operations"] / row["flops"]
        cells = [f"3 x {row['settings'][name]:,}" for name in _networks(0)]
        figures = [simulate, floors[0], simulate / floors[0], update, floors[1], update / floors[1]]
        table.append([", ".join(cells), *(f"{x:.3g}" for x in figures), f"{row['flops'] / 1e9:.0f}", row["execution"]])
    return table


def cores_table(rows: Sequence[Row]) -> list[list[str]]:
    """Return cells: decisions a second, and how many times those of one core."""
    table = [["cores", "simulate, decisions/s", "ratio", "update, decisions/s", "ratio"]]
    for count, row in enumerate(rows, 1):
        cells = [str(count)]
        for phase in ("simulate", "update"):
            rate, alone = (r["decisions"] / r[phase] for r in (row, rows[0]))
            cells += [f"{rate:,.0f}", f"{rate / alone:.2f}"]
        table.append(cells)
    return table


def memory_table(rows: Sequence[Row]) -> list[list[str]]:
    """Return cells: settings, and memory beside the plan's."""
    table = [["decisions", "settings", "steps", *_MEMORY_HEAD]]
    for row in rows:
        named = ", ".join(f"{k} {v}" for k, v in row["settings"].items() if (k, v) != ("num_envs", 1))
        table.append([f"{row['decisions']:,}", named or "defaults", row["execution"], *_memory_cells(row)])
    return table


_MEMORY_HEAD = ["peak, MB", "predicted, MB", "measured / predicted"]


def _memory_cells(row: Row) -> list[str]:
    predicted = predicted_bytes(row)
    known = row["peak"] is not None
    measured = [f"{row['peak'] / 1e6:,.0f}", f"{row['peak'] / predicted:.2f}"] if known else ["unknown", ""]
    return [measured[0], f"{predicted / 1e6:,.0f}", measured[1]]


Part = tuple[Callable[[bool], list[Row]], Callable[[Sequence[Row]], list[list[str]]]]
PARTS: dict[str, Part] = {
    "lengths": (lengths, lengths_table),
    "widths": (widths, widths_table),
    "cores": (cores, cores_table),
    "memory": (memory, memory_table),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--small", action="store_true", help="about a minute")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {"machine": machine_facts(), "date": time.strftime("%Y-%m-%d")}
    for name in options.only:
        measure, table = PARTS[name]
        found[name] = measure(options.small)
        print(f"{name}; load " + " ".join(f"{load:.1f}" for load in os.getloadavg()))
        print(markdown(table(found[name])), flush=True)
    if "lengths" in found:
        found["exponents"] = exponents(found["lengths"])
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.plot and "lengths" in found:
        print(plot(found["lengths"], PHASES, options.plot))


def markdown(table: Sequence[Sequence[str]]) -> str:
    """Return a table whose first row is its head."""
    head, *rows = table
    filled = [[*row, *[""] * (len(head) - len(row))] for row in rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *filled])


if __name__ == "__main__":
    main()
