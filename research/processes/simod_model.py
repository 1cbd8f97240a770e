"""Simod's model of a log and its mean cycle times under changes; it runs where Simod is installed.

Called by :file:`simod.py`. Prints JSON: the mean cycle times of all runs in hours, float[1 + changes][runs], of Simod's
model and of the same without its extraneous delays, which wait before an activity although somebody is free.
"""

import argparse
import csv
import json
import random
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

Model = dict[str, Any]
"""The parameters of Prosimos, as its JSON file has them."""

MONDAY = "2024-01-01T00:00:00.000000+00:00"


def main() -> None:
    """Discover a model unless there is one, and simulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path, help="CSV with case_id, activity, resource, start_time, end_time")
    parser.add_argument("folder", type=Path, help="of the model; one that is there is used again")
    parser.add_argument("--like", required=True, help="the person whom another one is added like")
    parser.add_argument("--busy", required=True, help="the activity that becomes faster")
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    cases, has_arrivals = prepare(options.log, options.folder)
    diagram, model = discovered(options.folder)

    def runs_of(model: Model) -> list[list[float]]:
        changed = [model, *changes(diagram, model, options.like, options.busy)]
        return [simulate(diagram, each, cases, has_arrivals, options.runs) for each in changed]

    print(
        json.dumps({name: runs_of(each) for name, each in {"model": model, "no delays": without_delays(model)}.items()})
    )


def prepare(log: Path, folder: Path) -> tuple[int, bool]:
    """Write the log as Simod reads it; return its number of cases, and whether it shows arrivals."""
    folder.mkdir(parents=True, exist_ok=True)
    with log.open(newline="") as file:
        rows = list(csv.DictReader(file))
    with (folder / "log.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["case_id", "activity", "start_time", "end_time", "resource"])
        writer.writeheader()
        for row in rows:
            times = {name: f"{row[name]}+00:00" for name in ("start_time", "end_time")}
            writer.writerow({**row, **times, "resource": row["resource"] or "arrival"})
    return len({row["case_id"] for row in rows}), any(row["activity"] == "Received" for row in rows)


def discovered(folder: Path) -> tuple[Path, Model]:
    """Return Simod's process diagram and parameters."""
    best = folder / "model" / "best_result"
    if not (best / "log.json").exists():
        command = [str(Path(sys.executable).parent / "simod"), "--one-shot", "--event-log", str(folder / "log.csv")]
        subprocess.run([*command, "--output", str(folder / "model")], check=True, stdout=subprocess.DEVNULL)
    return best / "log.bpmn", json.loads((best / "log.json").read_text())


def without_delays(model: Model) -> Model:
    """Return the model with extraneous delays of 0."""
    none = {"distribution_name": "fix", "distribution_params": [{"value": 0.0}]}
    return model | {"event_distribution": [each | none for each in model["event_distribution"]]}


def changes(diagram: Path, model: Model, like: str, busy: str) -> list[Model]:
    """Return the model with one more person, with 10 and 20 % more arrivals, and with a faster activity."""
    more = deepcopy(model)
    for profile in more["resource_profiles"]:
        twins = [
            person | {"id": "added", "name": "added"} for person in profile["resource_list"] if person["id"] == like
        ]
        profile["resource_list"] += twins
    for task in more["task_resource_distribution"]:
        task["resources"] += [
            each | {"resource_id": "added"} for each in task["resources"] if each["resource_id"] == like
        ]
    faster = deepcopy(model)
    ids = {task.get("id") for task in ElementTree.parse(diagram).iter() if task.get("name") == busy}
    for task in faster["task_resource_distribution"]:
        if task["task_id"] in ids:
            task["resources"] = [each | scaled(each, 0.8) for each in task["resources"]]
    arrivals = [
        model | {"arrival_time_distribution": scaled(model["arrival_time_distribution"], 1.0 / factor)}
        for factor in (1.1, 1.2)
    ]
    return [more, *arrivals, faster]


def scaled(distribution: Model, factor: float) -> Model:
    """Return a distribution of times times a factor; the second number of a log-normal or a gamma is a variance."""
    has_variance = distribution["distribution_name"] in ("lognorm", "gamma")
    powers = [2 if number == 1 and has_variance else 1 for number in range(4)]
    values = [each["value"] for each in distribution["distribution_params"]]
    numbers = [{"value": value * factor**power} for value, power in zip(values, powers, strict=False)]
    return distribution | {"distribution_params": numbers}


def simulate(diagram: Path, model: Model, cases: int, has_arrivals: bool, runs: int) -> list[float]:
    """Return the mean cycle time of each run in hours, from the arrival if the log shows it, else the first start."""
    from prosimos.simulation_engine import run_simulation  # here, so that --help works where it is not installed

    found = []
    with tempfile.TemporaryDirectory() as folder:
        parameters, log = Path(folder) / "model.json", Path(folder) / "log.csv"
        parameters.write_text(json.dumps(model))
        for run in range(runs):
            random.seed(run)
            np.random.seed(run)
            run_simulation(str(diagram), str(parameters), cases, None, str(log), MONDAY)
            found.append(mean_cycle_time(log, "enable_time" if has_arrivals else "start_time"))
    return found


def mean_cycle_time(log: Path, first: str) -> float:
    """Return the mean hours from a case's first time in a column to its last end."""
    begin: dict[str, datetime] = {}
    end: dict[str, datetime] = {}
    with log.open(newline="") as file:
        for row in csv.DictReader(file):
            case, start, done = (
                row["case_id"],
                datetime.fromisoformat(row[first]),
                datetime.fromisoformat(row["end_time"]),
            )
            begin[case], end[case] = min(start, begin.get(case, start)), max(done, end.get(case, done))
    return float(np.mean([(end[case] - begin[case]).total_seconds() for case in begin])) / 3600.0


if __name__ == "__main__":
    main()
