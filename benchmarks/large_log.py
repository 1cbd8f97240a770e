"""Seconds and memory that a large event log takes: a CSV of 8 columns is invented, read and mined.

Usage: python benchmarks/large_log.py [--rows 5000000] [--file /tmp/large_log.csv]
"""

import argparse
import resource
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src" / "core"))

from longstride.process.event_logs.event_log import read_event_log
from longstride.process.mining.data_warnings import data_warnings
from longstride.process.mining.mine_scenario import mine_scenario

HEADER = "event_id,case_id,activity,resource,start_time,end_time,amount,department\n"


def write(path: Path, rows: int) -> None:
    """Write a log of some rows: ten events a case, 12 activities, 60 people, times in milliseconds."""
    rng = np.random.default_rng(0)
    block = 100_000
    with path.open("w") as file:
        file.write(HEADER)
        for begin in range(0, rows, block):
            event = np.arange(begin, min(begin + block, rows))
            case = event // 10
            # A case a minute; its events follow each other.
            start = 1_700_000_000_000 + case * 60_000 + (event % 10) * 1_800_000 + rng.integers(0, 600_000, len(event))
            end = start + rng.integers(10_000, 1_200_000, len(event))
            activity, person, amount = (rng.integers(0, n, len(event)) for n in (12, 60, 100_000))
            times = [np.datetime_as_string(t.astype("M8[ms]")).tolist() for t in (start, end)]
            columns = (event.tolist(), case.tolist(), activity.tolist(), person.tolist(), *times, amount.tolist())
            file.writelines(
                f"{e},case {c},Activity number {a},Employee {p},{s},{t},{m / 100},Department {p % 7}\n"
                for e, c, a, p, s, t, m in zip(*columns, strict=True)
            )


def peak() -> float:
    """Return the most memory that this process has had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main() -> None:
    """Write, read, mine, and print seconds and memory of each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--file", type=Path, default=Path("/tmp/large_log.csv"))
    options = parser.parse_args()
    write(options.file, options.rows)
    print(f"{options.rows:,} rows, {options.file.stat().st_size / 1e6:,.0f} MB, 8 columns")
    steps = {
        "read": lambda so_far: read_event_log(options.file),
        "look for data warnings": lambda so_far: (data_warnings(so_far), so_far)[1],
        "mine": lambda so_far: mine_scenario(so_far, name="large"),
    }
    result = None
    for name, step in steps.items():
        begin, processor = time.perf_counter(), time.process_time()
        result = step(result)
        seconds, used = time.perf_counter() - begin, time.process_time() - processor
        print(f"{name}: {seconds:.1f} s ({used:.1f} s of processor), at most {peak():.2f} GB so far")
    options.file.unlink()


if __name__ == "__main__":
    main()
