"""Very many inputs by several processes, for ``fuzz.py``: a failure is saved and counted, and the others go on."""

import resource
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from longstride.errors import UserError

_CHUNK = 5_000
_IN_MEMORY = Path("/dev/shm")


class Limits(NamedTuple):
    """What one input may take."""

    seconds: float
    memory: float  # GB beside what the process has


class Kind(NamedTuple):
    """A kind of input."""

    valid: bytes
    read: Callable[[bytes, Path], None]
    change: Callable[[Random, bytes], bytes]


def run(kinds: dict[str, tuple], inputs: int, seed: int, processes: int, failures: Path, limits: Limits) -> int:
    """Try a number of inputs, divided among the kinds; print the outcomes and return the exit code."""
    begin, made = time.perf_counter(), {name: Kind(*kind) for name, kind in kinds.items()}
    parts = [
        (name, first, min(_CHUNK, inputs // len(kinds) - first))
        for first in range(0, inputs // len(kinds), _CHUNK)
        for name in made
    ]
    context, outcomes = get_context("fork"), Counter[tuple[str, str]]()
    waiting, running = parts[::-1], list[Any]()
    while waiting or running:
        while waiting and len(running) < processes:
            running.append(_start(context, made, waiting.pop(), (seed, failures, limits)))
        for work in list(running):
            if not work[0].is_alive():
                running.remove(work)
                waiting += _finish(work, outcomes, failures)
        time.sleep(0.05)
    _print(outcomes, list(made), time.perf_counter() - begin)
    return int(any(outcome not in ("read", "refused", "seconds") for _, outcome in outcomes))


def _start(context: Any, kinds: dict[str, Kind], part: tuple[str, int, int], more: tuple) -> tuple:
    """Start a process that tries a part of the inputs; it notes the number of the present one."""
    at, results = context.Value("q", part[1], lock=False), context.SimpleQueue()
    process = context.Process(target=_try_part, args=(kinds[part[0]], part, at, results, *more))
    process.start()
    return process, part, at, results


def _finish(work: tuple, outcomes: Counter, failures: Path) -> list[tuple[str, int, int]]:
    """Count what a process found; after its sudden end return the part that is left."""
    process, (name, first, count), at, results = work
    if not results.empty():
        print(f"{name}: inputs {first:,} to {first + count - 1:,} are tried", flush=True)
        outcomes.update({(name, outcome): number for outcome, number in results.get().items()})
        return []
    outcomes[name, f"ended by exit code {process.exitcode}"] += 1
    failures.mkdir(parents=True, exist_ok=True)
    with (failures / "ended.txt").open("a") as file:
        file.write(f"{name} {at.value}\n")
    return [(name, at.value + 1, first + count - at.value - 1)] if at.value + 1 < first + count else []


def _try_part(
    kind: Kind, part: tuple[str, int, int], at: Any, results: Any, seed: int, failures: Path, limits: Limits
) -> None:
    name, first, count = part
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + int(limits.memory * 1e9),) * 2)
    warnings.simplefilter("ignore")
    begin, outcomes = time.perf_counter(), Counter[str]()
    # In memory, where there is such a folder: opening a file takes as long as reading a small log.
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as folder:
        for number in range(first, first + count):
            at.value = number
            content = kind.change(Random(f"{name} {seed} {number}"), kind.valid)
            outcome = _outcome(kind, content, Path(folder), limits.seconds)
            outcomes[outcome] += 1
            if outcome not in ("read", "refused"):
                failures.mkdir(parents=True, exist_ok=True)
                (failures / f"{name}-{number}-{outcome[:40]}").write_bytes(content)
    outcomes["seconds"] = round(time.perf_counter() - begin)
    results.put(outcomes)


def _outcome(kind: Kind, content: bytes, folder: Path, seconds: float) -> str:
    """Return "read", "refused" or the name of what went wrong."""
    begin = time.perf_counter()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        kind.read(content, folder)
        outcome = "read"
    except UserError:
        outcome = "refused"
    except KeyboardInterrupt:
        outcome = "TooLong"
    except Exception as error:
        outcome = type(error).__name__
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    # A library that catches every error may have caught the alarm.
    return "TooLong" if time.perf_counter() - begin > seconds else outcome


def _print(outcomes: Counter, names: list[str], seconds: float) -> None:
    total = sum(number for (_, outcome), number in outcomes.items() if outcome != "seconds")
    for name in names:
        mine = {outcome: number for (kind, outcome), number in outcomes.items() if kind == name}
        spent = mine.pop("seconds", 0)
        told = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(mine.items()))
        print(f"{name}: {told}; {sum(mine.values()) / max(spent, 1):.0f} a second")
    print(f"{total:,} inputs, {seconds:.0f} s")
