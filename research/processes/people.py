"""What a task costs the event loop with 4, 40 and 400 people: microseconds of CPU time, at equal load of the people.

Everybody can do a fifth of 20 activities, works by a roster and is chosen by the logged habits; cases rest between
their activities. Arrivals grow with the people, so that each is as busy.
Usage: python research/processes/people.py [--repeats 5] [--json FILE]
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))

from longstride.process.kernel.parameters import as_record, build_parameters
from longstride.process.mining.delays.play_logged import play_logged
from longstride.process.scenario_file import parse_scenario

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
TASKS = 60_000


def office(people: int):
    """Return a scenario whose people work two thirds of their 40 hours a week."""
    activities, resources = [f"a{i}" for i in range(20)], [f"r{i}" for i in range(people)]
    able = [(a, r) for a in range(20) for r in range(people) if (a + r) % 5 == 0 or people < 20]
    weeks = TASKS / (people * 40 / 1.5)
    return parse_scenario(
        {
            "schema": "resource-allocation-scenario/1",
            "name": "office",
            "time_unit": "hours",
            "horizon": {"value": 168.0 * weeks},
            "arrivals": {"process": "weekly", "rates": (([0.0] * 9 + [people / 7.5] * 8 + [0.0] * 7) * 5 + [0.0] * 48)},
            "activities": activities,
            "resources": resources,
            "service": [
                {
                    "activity": f"a{a}",
                    "resource": f"r{r}",
                    "distribution": "exponential",
                    "mean": 1.0,
                    "observations": 9,
                }
                for a, r in able
            ],
            "flow": {"cases": [{"tasks": [{"task": f"a{(4 * i + k) % 20}"} for k in range(5)]} for i in range(20)]},
            "delays": [{"activity": a, "distribution": "exponential", "mean": 5.0} for a in activities],
            "delay_clock": ([0.0] * 9 + [1.0] * 8 + [0.0] * 7) * 5 + [0.0] * 48,
            "rosters": {r: [{"days": DAYS, "p": 0.9, "hours": ["09:00-17:00"]}] for r in resources},
        },
        "the benchmark's scenario",
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = {}
    for people in (4, 40, 400):
        parameters, sizes = build_parameters(office(people))
        record, times = as_record(parameters), []
        for repeat in range(options.repeats + 1):
            begin = time.thread_time()
            played = play_logged(record, parameters, sizes, repeat)
            times.append((time.thread_time() - begin) / len(played.case))
        result[people] = 1e6 * statistics.median(times[1:])
        tasks, open_cases = len(played.case), int(played.state.open)
        print(
            f"{people:4} people: {result[people]:.2f} µs a task ({tasks:,} tasks, {open_cases:,} cases open at the end)"
        )
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
