"""What torch.profiler says of a function, read off its trace."""

import json
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

Event = dict[str, Any]


class Work(NamedTuple):
    """A kernel, or on the CPU an operation, with the operation that launched it.

    Attributes:
        name: name of the kernel.
        ms: its time, milliseconds.
        operation: name of the operation, empty in a replayed graph, whose kernels none launches.
        shapes: shapes of the operation's tensors.
    """

    name: str
    ms: float
    operation: str
    shapes: Sequence[Sequence[int]]


class Profile(NamedTuple):
    """What ran: the work, copies and fills of memory with their bytes, and calls that launch by name."""

    work: list[Work]
    copies: int
    copied_bytes: int
    launches: dict[str, int]

    @property
    def ms(self) -> float:
        """Milliseconds of all work."""
        return sum(each.ms for each in self.work)

    def slowest(self, count: int) -> list[tuple[str, int, float]]:
        """Return the names of work with most time, how often each ran, and milliseconds."""
        times: defaultdict[str, float] = defaultdict(float)
        counts: Counter[str] = Counter()
        for each in self.work:
            times[each.name] += each.ms
            counts[each.name] += 1
        return [(name, counts[name], times[name]) for name in sorted(times, key=times.__getitem__)[: -count - 1 : -1]]


def profiled(function: Callable[[], None], device: torch.device) -> Profile:
    """Call a function, which waits for the device, under the profiler."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    with profile(activities=activities, record_shapes=True) as profiler:
        function()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        return read(events_of(file.read_text(encoding="utf-8", errors="replace")), device.type)


def events_of(text: str) -> list[Event]:
    """Return the events of a trace, in which the profiler may write ``inf`` and ``nan`` where JSON has no such word."""
    return list(json.loads(re.sub(r"(:\s*)-?(?:inf|nan)\b", r"\1null", text))["traceEvents"])


def read(events: Iterable[Event], device: str) -> Profile:
    """Return what the events of a trace say; on the CPU the work are its operations, those inside others included."""
    timed = [event for event in events if event.get("ph") == "X"]
    operations = {_id(event): event for event in timed if event.get("cat") == "cpu_op" and _id(event)}
    kernels = [event for event in timed if event.get("cat") == ("kernel" if device == "cuda" else "cpu_op")]
    moved = [event for event in timed if event.get("cat") in ("gpu_memcpy", "gpu_memset")]
    calls = [event for event in timed if event.get("cat") in ("cuda_runtime", "cuda_driver")]
    launches = Counter(event["name"] for event in calls if "Launch" in event["name"])
    copied = sum(int(event.get("args", {}).get("bytes", 0)) for event in moved)
    return Profile([_work(event, operations) for event in kernels], len(moved), copied, dict(launches))


def _work(event: Event, operations: dict[Any, Event]) -> Work:
    """Return a kernel with its operation: both have the same external id."""
    operation = operations.get(_id(event), {})
    shapes = operation.get("args", {}).get("Input Dims", [])
    return Work(event["name"], event.get("dur", 0.0) / 1e3, operation.get("name", ""), list(_flat(shapes)))


def _flat(shapes: Any) -> Iterable[Sequence[int]]:
    """Yield shapes, also those of lists of tensors."""
    for shape in shapes if isinstance(shapes, list) else []:
        if isinstance(shape, list) and any(isinstance(part, list) for part in shape):
            yield from _flat(shape)
        elif isinstance(shape, list):
            yield shape


def _id(event: Event) -> Any:
    return event.get("args", {}).get("External id")
