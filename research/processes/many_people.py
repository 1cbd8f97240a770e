"""Scenarios for policies that score lists of actions: the loan desk with one more person, and a process of 500 people.

``python research/processes/many_people.py FOLDER`` writes ``loan_desk_plus_one.json`` and ``many_people.json``
there, for ``--scenario``. ``--people`` and ``--activities`` change the size of the second.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from longstride.process.load import bundled_scenarios

_STAGES, _SKILLS, _LOAD, _CASES = 10, 10, 0.95, 6_200
"""Stages of a case, activities that a person can do, share of the time that people work, cases of an episode."""


def loan_desk_plus_one() -> dict[str, Any]:
    """Return the loan desk with one more analyst, who works as Gia does, a tenth slower, in the middle of the list."""
    scenario: dict[str, Any] = json.loads(bundled_scenarios()["loan_desk"].read_text())
    like, name = "Gia (analyst)", "Uma (analyst)"
    people = scenario["resources"]
    people.insert(len(people) // 2, name)
    own = [{**entry, "resource": name} for entry in scenario["service"] if entry["resource"] == like]
    scenario["service"] += [{**entry, "mean": 1.1 * entry["mean"]} for entry in own]
    scenario["working_hours"][name] = scenario["working_hours"][like]
    return {**scenario, "name": "loan_desk_plus_one"}


def many_people(people: int, activities: int, seed: int = 0) -> dict[str, Any]:
    """Return a process in which each case passes ten stages and each person can do some activities at own speeds."""
    rng = np.random.default_rng(seed)
    tasks, names = [f"A{k}" for k in range(activities)], [f"P{k}" for k in range(people)]
    usual, service = rng.uniform(10.0, 50.0, activities), []
    for number, person in enumerate(names):
        first = number % activities  # everybody has one of their own, so that somebody can do each activity
        others = [int(k) for k in rng.permutation(activities) if k != first][: min(_SKILLS, activities) - 1]
        for k in sorted([first, *others]):
            mean = round(float(usual[k] * rng.uniform(0.6, 1.7)), 2)
            entry = {"activity": tasks[k], "resource": person, "distribution": "lognormal", "mean": mean, "cv": 0.5}
            service.append(entry)
    stages = [[{"task": name} for name in tasks[k::_STAGES]] for k in range(min(_STAGES, activities))]
    flow = [{"xor": [{"p": 1.0 / len(stage), "branch": each} for each in stage]} for stage in stages]
    mean = {name: np.mean([entry["mean"] for entry in service if entry["activity"] == name]) for name in tasks}
    work = sum(float(np.mean([mean[each["task"]] for each in stage])) for stage in stages)
    rate = _LOAD * people / work
    return {
        "schema": "resource-allocation-scenario/1",
        "name": "many_people",
        "time_unit": "minutes",
        "horizon": {"stop": "time", "value": round(_CASES / rate, 1)},
        "arrivals": {"process": "poisson", "rate": rate},
        "activities": tasks,
        "resources": names,
        "service": service,
        "flow": {"seq": flow},
    }


def main() -> None:
    """Write both scenarios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--people", type=int, default=500)
    parser.add_argument("--activities", type=int, default=40)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for scenario in (loan_desk_plus_one(), many_people(arguments.people, arguments.activities)):
        path = arguments.folder / f"{scenario['name']}.json"
        path.write_text(json.dumps(scenario, indent=1), encoding="utf-8")
        print(f"Written to {path}.")


if __name__ == "__main__":
    main()
