"""An event log in which everybody does everything: as many pairs of people and activities as there can be.

It is for what a training of such a log takes: ``/usr/bin/time -v longstride --mode train --event-log FILE
--training-episodes 2``.
Usage: python research/processes/many_people_log.py FILE [--people 600] [--activities 50] [--cases 16000]
"""

import argparse
from pathlib import Path

import numpy as np

_DAYS, _OPEN = 60, 6 * 3600
"""Days on which cases arrive, and seconds of each from 8 o'clock on."""

_REST, _SPREAD = 1800.0, 0.5
"""Mean seconds between two events of a case, and deviation of the logarithm of an event's length."""


def main() -> None:
    """Write the log; print how many events and pairs it has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--people", type=int, default=600)
    parser.add_argument("--activities", type=int, default=50)
    parser.add_argument("--cases", type=int, default=16_000)
    options = parser.parse_args()
    rng, events, pairs = np.random.default_rng(1), 0, set()
    speed, mean = rng.uniform(0.6, 1.7, options.people), rng.uniform(480.0, 3600.0, options.activities)
    with options.file.open("w", encoding="utf-8") as file:
        file.write("case_id,activity,resource,start_time,end_time\n")
        for case in range(options.cases):
            now = 24 * 3600 * (case * _DAYS // options.cases) + rng.uniform(0, _OPEN)
            for activity in rng.permutation(options.activities)[: rng.integers(4, 14)].tolist():
                person = int(rng.integers(options.people))
                now += rng.exponential(_REST)
                end = now + max(mean[activity] * speed[person] * rng.lognormal(-(_SPREAD**2) / 2, _SPREAD), 30.0)
                file.write(f"C{case},Act {activity},Emp {person},{_time(now)},{_time(end)}\n")
                now, events = end, events + 1
                pairs.add((activity, person))
    print(f"{events:,} events of {options.cases:,} cases, {len(pairs):,} pairs. Written to {options.file}.")


def _time(seconds: float) -> str:
    return str(np.datetime64("2026-03-02T08:00:00") + np.timedelta64(int(seconds), "s"))


if __name__ == "__main__":
    main()
