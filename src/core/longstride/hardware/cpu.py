"""Cores and memory that this process may use: psutil, and Linux's files about limits."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import llvmlite.binding as llvm
import psutil

ROOT = Path("/")
"""Where ``proc`` and ``sys`` are."""

BF16 = {"amx-bf16": "AMX-BF16", "avx512bf16": "AVX512-BF16"}
"""Instructions that multiply in BF16, by their names in LLVM, the faster first."""


class Cores(NamedTuple):
    """Cores of a machine: physical ones, usable ones, and the reason for fewer usable ones (or empty)."""

    physical: int
    usable: int
    note: str


def detect_cores() -> Cores:
    """Count cores without hyper-threads, within the CPU affinity and the quota of the control group."""
    physical = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    allowed, quota = _allowed_cpus(), _cpu_quota()
    usable = _distinct_cores(allowed) or min(physical, len(allowed))
    if quota is not None and quota < usable:
        return Cores(physical, max(1, int(quota)), f"the control group's quota is {quota:g} CPUs")
    note = f"the CPU affinity allows {usable} of {physical}" if usable < physical else ""
    return Cores(max(physical, usable), usable, note)


def detect_memory() -> tuple[int, int]:
    """Return total and free bytes of the host, or of the control group where that allows less."""
    memory = psutil.virtual_memory()
    total, free = memory.total, memory.available
    for folder in _control_groups("memory"):
        limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes") or 0
        if limit is not None and limit < memory.total:
            # The kernel drops cached files before it refuses memory, so they count as free.
            left = limit - max(0, used - _cached_files(folder))
            total, free = min(total, limit), min(free, max(0, left))
    return total, free


def detect_bf16() -> str:
    """Return the CPU's instructions for products in BF16, as far as the system lets programs use them; or nothing."""
    features = llvm.get_host_cpu_features()
    return next((name for feature, name in BF16.items() if features.get(feature)), "")


def _cached_files(folder: Path) -> int:
    """Return the bytes of files that a control group keeps in memory without using them.

    Version 1 has them for the group alone and, as ``total_``, with the groups below it, as version 2 counts them.
    """
    statistics = dict(line.split(" ", 1) for line in _text(folder / "memory.stat").splitlines() if " " in line)
    return int(statistics.get("total_inactive_file") or statistics.get("inactive_file") or 0)


def _allowed_cpus() -> frozenset[int]:
    """Return the logical CPUs on which this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(psutil.cpu_count() or 1))


def _distinct_cores(cpus: frozenset[int]) -> int:
    """Return how many cores some logical CPUs belong to; 0 where the system does not say."""
    folder = ROOT / "sys/devices/system/cpu"
    siblings = {_text(folder / f"cpu{cpu}/topology/thread_siblings_list") for cpu in cpus}
    return 0 if "" in siblings else len(siblings)


def _cpu_quota() -> float | None:
    """Return the smallest CPU quota of the control groups around this process, in CPUs; None without one."""
    quotas = []
    for folder in _control_groups("cpu"):
        words = _text(folder / "cpu.max").split()
        words = words or [_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")]
        if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]) > 0:  # not "max", not -1
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def _control_groups(controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control group and of those around it, version 2 and 1."""
    mount = ROOT / "sys/fs/cgroup"
    for line in _text(ROOT / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = mount / controller if controllers else mount
        folder = top / path.lstrip("/")
        # In a container the path may be the host's: then only the mount itself exists, which is the container's group.
        yield from (each for each in (folder, *folder.parents) if each == top or top in each.parents)


def _number(file: Path) -> int | None:
    text = _text(file)
    return int(text) if text.isdigit() else None


def _text(file: Path) -> str:
    """Return the text of a file, empty if it cannot be read."""
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
