"""How long the service's event loop stands still for the worst bodies up to the size limit.

    python research/speed/service_bodies.py --run-directory runs/loan_desk

Each body is answered as in the service, in a second thread if it is large, while the loop notes its longest pause.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from longstride.process.recommend.command import recommender_of
from longstride.process.recommend.service.app import LARGE_BYTES, answer_to
from longstride.process.recommend.service.guard import RefusedError
from longstride.process.recommend.service.limits import MOST_BYTES
from longstride.settings import load_settings

SIZES = 8_000, LARGE_BYTES, MOST_BYTES


def filled(head: str, entry: Callable[[int], str], tail: str, size: int) -> bytes:
    """Return a body with as many entries as a size allows."""
    parts, left, i = [], size - len(head) - len(tail), 0
    while (left := left - len(entry(i)) - 1) > 0:
        parts.append(entry(i))
        i += 1
    return (head + ",".join(parts) + tail).encode()


def bodies(activity: str, person: str, size: int) -> dict[str, bytes]:
    """Return bodies of a size: of many mistakes of each kind, and of much that is right."""
    task, now = f'"activity":{json.dumps(activity)}', '"time":"2026-11-23T10:15:00"'
    kinds: dict[str, tuple[str, Callable[[int], str], str]] = {
        "unknown keys": ('{"time":1,', lambda i: f'"{i}":1', "}"),
        "unknown keys of a task": ('{"time":1,"waiting":[{', lambda i: f'"{i}":1', "}]}"),
        "next_changes, numbers": ('{"time":1,"next_changes":{', lambda i: f'"{i}":1', "}}"),
        "next_changes, empty lists": ('{"time":1,"next_changes":{', lambda i: f'"{i}":[]', "}}"),
        "next_changes, objects": ('{"time":1,"next_changes":{', lambda i: f'"{i}":[{{}},{{}}]', "}}"),
        "next_changes, strangers": ('{"time":1,"next_changes":{', lambda i: f'"{i}":[2,3]', "}}"),
        "memory, lists": ('{"time":1,"memory":[', lambda i: "[]", "]}"),
        "time, objects": ('{"time":[', lambda i: "{}", "]}"),
        "waiting": ('{"time":1,"waiting":[', lambda i: f'{{"case":{i},{task},"since":1}}', "]}"),
        "waiting, dates": (f'{{{now},"waiting":[', lambda i: f'{{"case":{i},{task},"since":"2026-11-23"}}', "]}"),
        "cases": ('{"time":1,"cases":[', lambda i: f'{{"case":{i},"since":1}}', "]}"),
        "resting": ('{"time":1,"resting":[', lambda i: f'{{"case":{i},{task}}}', "]}"),
        "on_shift": ('{"time":1,"on_shift":[', lambda i: json.dumps(person), "]}"),
        "on_shift, numbers": ('{"time":1,"on_shift":[', lambda i: "1", "]}"),
        "a long key": ('{"time":1,"', lambda i: "x" * 100, '":1}'),
        "a long time": ('{"time":"', lambda i: "1" * 100, '"}'),
        "deep": ("", lambda i: "[" * 100, ""),
    }
    return {name: filled(*parts, size) for name, parts in kinds.items()}


async def pause_of(recommender: Any, body: bytes) -> tuple[float, float, str]:
    """Return the longest pause of the loop in seconds, the seconds of the answer, and what it was."""
    longest, over = 0.0, False

    async def beat() -> None:
        nonlocal longest
        while not over:
            begin = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - begin - 0.001)

    beating = asyncio.create_task(beat())
    await asyncio.sleep(0.02)
    begin, said = time.perf_counter(), "answered"
    try:
        if len(body) > LARGE_BYTES:
            await asyncio.get_running_loop().run_in_executor(None, answer_to, recommender, body, 10, {})
        else:
            answer_to(recommender, body, 10, {})
    except RefusedError as error:
        said = str(error)
    seconds = time.perf_counter() - begin
    await asyncio.sleep(0.005)
    over = True
    await beating
    return longest, seconds, said


def main() -> None:
    """Print a line for each body, the worst of three trials' best first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-directory", type=Path, required=True)
    options = parser.parse_args()
    recommender, _ = recommender_of(options.run_directory, load_settings(None, {}), print)
    recommender.compile()
    scenario, rows = recommender.simulator.scenario, []
    for size in SIZES:
        for name, body in bodies(scenario.activities[0], scenario.resources[0], size).items():
            trials = [asyncio.run(pause_of(recommender, body)) for _ in range(3)]
            rows.append((min(trials), size, name))
    for (longest, seconds, said), size, name in sorted(rows, reverse=True):
        print(f"{longest * 1e3:7.1f} ms pause, {seconds * 1e3:7.1f} ms: {size:9,} bytes of {name}: {said[:70]}")


if __name__ == "__main__":
    main()
