"""How close simulations of mined scenarios come to logs: the protocol and the distances of the field.

The first 80 % of a log's events by end are mined, without the cases that go on afterwards; the rest is simulated as
often as ``--runs`` says, with as many cases as it has, under the logged habits. Distances are in hours, but NGD, and
means of the runs; lower is better. ``past`` are cases of the mined part drawn again at resampled intervals: no model.
``CTD within`` compares cycle times of the simulated cases that end by the log's end, as all logged ones do. In sample
the mined part itself is simulated. Published figures stand beside those of the logs that they are known for; they were
computed from the tools' outputs of February 2025 (AgentSimulator's repository), elsewhere with "same log, same rule".
Usage: python research/processes/fidelity.py LOG.csv.gz ... [--runs 10] [--json FILE]
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from longstride.process.event_logs.event_log import EventLog, read_event_log
from longstride.process.fidelity.log_distances import Events, cycle_time_distance, log_distances
from longstride.process.mining.mine_scenario import mine_scenario
from research.processes.temporal_split import SimulatedLogs, cases_within, logged_events, split_log

PUBLISHED = {  # CTD
    "loanapp_synthetic": {"Simod": 20.4, "DGEN": 9.4, "AgentSimulator": 2.7},
    "production": {"Simod": 89.2, "DGEN": 90.8, "DSIM": 43.3, "RIMS": 24.7, "AgentSimulator": 30.0},
    "bpic2012_w": {"Simod": 155.0, "DGEN": 177.0, "DSIM": 173.0, "RIMS": 151.0, "AgentSimulator": 89.1},
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {}
    for path in options.logs:
        name = path.name.split(".")[0]
        results[name] = measure(read_event_log(path), name, options.runs)
        show(name, results[name])
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n")


def measure(log: EventLog, name: str, runs: int) -> dict[str, Any]:
    """Return the distances of a log."""
    train, test = split_log(log)
    begin = time.perf_counter()
    scenario = mine_scenario(train, name=name).scenario
    mined = time.perf_counter() - begin
    simulator, logged, past = (
        SimulatedLogs(scenario, log.activities),
        *(logged_events(part, log.activities) for part in (test, train)),
    )
    found = {"longstride": [], "past": []}
    within = []
    for run in range(runs):
        events = simulator.like(test, run)
        found["longstride"].append(log_distances(logged, events)._asdict())
        found["past"].append(log_distances(logged, drawn_again(past, logged, run))._asdict())
        within.append(cycle_time_distance(logged, cases_within(events, logged.end.max())))
    again = [simulator.like(train, 100 + run) for run in range(min(runs, 5))]
    means = [np.subtract(*events.first_and_last()[::-1]).mean() / 3600.0 for events in again]
    return {
        "cases": [len(train.cases), len(test.cases)],
        "seconds_of_mining": round(mined, 1),
        **{who: {k: float(np.mean([row[k] for row in rows])) for k in rows[0]} for who, rows in found.items()},
        "ctd_within": float(np.mean(within)),
        "in_sample": {
            "ctd": float(np.mean([cycle_time_distance(past, events) for events in again])),
            "ctd_within": float(np.mean([cycle_time_distance(past, cases_within(e, past.end.max())) for e in again])),
            "mean_cycle_logged": float(np.subtract(*past.first_and_last()[::-1]).mean() / 3600.0),
            "mean_cycle_simulated": float(np.mean(means)),
        },
        "published_ctd": PUBLISHED.get(name, {}),
    }


def drawn_again(past: Events, logged: Events, seed: int) -> Events:
    """Return as many cases as ``logged`` has, drawn from the past, at intervals drawn from the past."""
    rng = np.random.default_rng(seed)
    first, _ = past.first_and_last()
    count = len(np.unique(logged.case))
    arrival = logged.start.min() + np.cumsum(rng.choice(np.diff(np.sort(first)), count))
    _, case = np.unique(past.case, return_inverse=True)
    places = [np.flatnonzero(case == c) for c in range(len(first))]
    parts = []
    for number, c in enumerate(rng.integers(0, len(first), count)):
        shift = arrival[number] - first[c]
        at = places[c]
        parts.append((np.full(len(at), number), past.activity[at], past.start[at] + shift, past.end[at] + shift))
    return Events(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def show(name: str, result: dict[str, Any]) -> None:
    """Print the figures of a log."""
    print(f"{name}: {result['cases'][0]:,} and {result['cases'][1]:,} cases, mined in {result['seconds_of_mining']} s")
    for who in ("longstride", "past"):
        print(f"  {who:12}" + "  ".join(f"{k.upper()} {v:7.2f}" for k, v in result[who].items()))
    inner = result["in_sample"]
    share = inner["ctd"] / inner["mean_cycle_logged"]
    print(f"  CTD within the log's end {result['ctd_within']:.2f}")
    print(
        f"  in sample: CTD {inner['ctd']:.2f} ({share:.1%} of the mean cycle), within the log's end "
        f"{inner['ctd_within']:.2f}; mean cycle {inner['mean_cycle_logged']:.1f} logged, "
        f"{inner['mean_cycle_simulated']:.1f} simulated"
    )
    if result["published_ctd"]:
        print("  published CTD: " + ", ".join(f"{tool} {value}" for tool, value in result["published_ctd"].items()))


if __name__ == "__main__":
    main()
