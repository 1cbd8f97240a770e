"""What large honest logs take: processor seconds to read, to mine and to the end of iteration 1, and memory.

Honest logs are large in one way each: many people, many activities, one long case, many rows. Each is invented, read
and mined in a process of its own, and then trained on for one iteration with the command line.
Usage: python research/processes/honest_logs.py [--shapes people,activities] [--limit 300] [--no-train]
    [--write-only FOLDER]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))

_SOURCE = str(Path(__file__).resolve().parents[2] / "src" / "core")
_DAY, _MORNING, _OPEN = 86_400, 8 * 3600, 9 * 3600
_TEAMS = 4
"""Activities that one person does, at most; in a firm of thousands no person does everything."""


class Shape(NamedTuple):
    """An invented log."""

    rows: int
    people: int
    activities: int
    events: int  # of an ordinary case
    long_case: int = 0  # events of the one long case, which are among the rows
    everyone: bool = False  # whether everyone does everything


SHAPES = {
    "ordinary": Shape(50_000, 60, 12, 10),
    "people": Shape(50_000, 5_000, 12, 10),
    "activities": Shape(50_000, 60, 5_000, 10),
    "both": Shape(50_000, 5_000, 5_000, 10),
    "long case": Shape(18_000, 60, 12, 10, long_case=8_000),
    "only case": Shape(8_000, 60, 12, 8_000, long_case=8_000),
    "pairs": Shape(136_000, 600, 50, 8, everyone=True),
    "rows": Shape(1_000_000, 60, 12, 10),
}


def write(path: Path, shape: Shape) -> None:
    """Write a log: working days from 8 to 17, cases over half a year, a tenth of the events overlaps the one before."""
    rng = np.random.default_rng(0)
    ordinary = shape.rows - shape.long_case
    case = np.concatenate([np.zeros(shape.long_case, np.int64), 1 + np.arange(ordinary) // shape.events])
    place = np.concatenate([np.arange(shape.long_case), np.arange(ordinary) % shape.events])
    activity = (place + rng.integers(0, 3, shape.rows)) % shape.activities
    if shape.activities > shape.events:  # each case is of one kind, which has its own activities
        kind = rng.integers(0, max(shape.activities // shape.events, 1), case[-1] + 1)
        activity = (kind[case] * shape.events + place) % shape.activities
    person = rng.integers(0, shape.people, shape.rows)
    if not shape.everyone:  # an activity has its team
        team = max(shape.people * _TEAMS // shape.activities, 3)
        first = activity * max(shape.people // shape.activities, 1)
        person = (first + rng.integers(0, team, shape.rows)) % shape.people
    begin = np.sort(rng.integers(0, 130 * _OPEN, case[-1] + 1))[case]
    # A long case goes on over the whole time of the log; others take some working hours.
    step = np.where(case == 0, 130 * _OPEN / max(shape.long_case, 1), 2 * 3600)
    start = np.where(case == 0, 0, begin) + place * step + rng.integers(0, 1800, shape.rows)
    length = np.minimum(rng.integers(60, 3600, shape.rows), np.where(rng.random(shape.rows) < 0.1, 9_000, step * 0.9))
    starts, ends = _clock(start), _clock(start + length)
    with path.open("w", encoding="utf-8") as file:
        file.write("case_id,activity,resource,start_time,end_time\n")
        columns = (case.tolist(), activity.tolist(), person.tolist(), starts, ends)
        for c, a, p, s, e in zip(*columns, strict=True):
            file.write(f"case {c},Activity {a},Employee {p},{s},{e}\n")


def _clock(seconds: np.ndarray) -> list[str]:
    """Return times, given as seconds of opening hours since a Monday."""
    day, rest = np.divmod(seconds.astype(np.int64), _OPEN)
    week, weekday = np.divmod(day, 5)
    real = (week * 7 + weekday) * _DAY + _MORNING + rest
    return np.datetime_as_string(np.datetime64("2026-01-05T00:00:00") + real.astype("m8[s]")).tolist()


def stages(path: Path) -> dict[str, float]:
    """Read and mine a log; return the processor seconds of each, the peak memory and the pairs of the scenario.

    Seconds of the processor are about the same if other programs run on the machine.
    """
    from longstride.process.event_logs.event_log import read_event_log
    from longstride.process.mining.mine_scenario import mine_scenario

    begin = time.process_time()
    log = read_event_log(path)
    read = time.process_time()
    scenario = mine_scenario(log, name="large").scenario
    mined = time.process_time()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"read": read - begin, "mine": mined - read, "GB": memory, "pairs": len(scenario.service)}


def _run(command: list[str], limit: float) -> tuple[str, float, float]:
    """Run a command; return its output ("over ..." if it takes too long), processor seconds and peak memory in GB."""
    begin = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": _SOURCE}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        pid = 0
        while pid == 0 and time.perf_counter() - begin < limit:
            time.sleep(0.1)
            pid, _, usage = os.wait4(process.pid, os.WNOHANG)
        if pid == 0:
            process.kill()
            usage = os.wait4(process.pid, 0)[2]
            return f"over {limit:.0f} s", limit, usage.ru_maxrss / 1e6
        output.seek(0)
        return output.read(), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e6


def measure(name: str, shape: Shape, folder: Path, limit: float, train: bool) -> str:
    """Return the row of a log in the table."""
    path = folder / f"{name.replace(' ', '_')}.csv"
    write(path, shape)
    text, _, memory = _run([sys.executable, __file__, "--stages", str(path)], limit)
    last = text.strip().splitlines()[-1]
    figures = json.loads(last) if last.startswith("{") else {}
    mined = f"{figures['read']:.1f} | {figures['mine']:.1f} | {memory:.2f}" if figures else f"- | {last} | {memory:.2f}"
    trained = "-"
    if train:
        with tempfile.TemporaryDirectory(dir=folder) as run:
            start = "from longstride.cli import installed; installed()"
            command = [sys.executable, "-c", start, "--mode", "train", "--event-log", str(path)]
            command += ["--training-episodes", "1", "--run-directory", f"{run}/run", "--device", "cpu"]
            text, seconds, memory = _run(command, limit)
            (folder / f"{path.stem}.txt").write_text(text)
            trained = f"{seconds:.1f} | {memory:.2f}"
            refusals = [line for line in text.splitlines() if line.startswith(("error:", "over", "Traceback"))]
            trained += f" | {refusals[0] if refusals else ''}"
    return f"| {name} | {shape.rows:,} | {shape.people:,} | {shape.activities:,} | {mined} | {trained} |"


def main() -> None:
    """Write the logs, measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a process is ended")
    parser.add_argument("--no-train", action="store_true")
    parser.add_argument("--write-only", type=Path)
    parser.add_argument("--stages", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stages:
        print(json.dumps(stages(options.stages)))
        return
    shapes = {name: SHAPES[name] for name in options.shapes.split(",")}
    if options.write_only:
        for name, shape in shapes.items():
            write(options.write_only / f"{name.replace(' ', '_')}.csv", shape)
        return
    print("| log | rows | people | activities | read, s | mine, s | GB | to the end of iteration 1, s | GB | refusal |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in shapes.items():
            print(measure(name, shape, Path(folder), options.limit, not options.no_train), flush=True)


if __name__ == "__main__":
    main()
