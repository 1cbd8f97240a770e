"""Cores and memory, read from a folder that holds what Linux would say."""

import os
import re
from pathlib import Path
from types import SimpleNamespace

import llvmlite.binding as llvm
import psutil
import pytest

from longstride.hardware import cpu

GIB = 2**30


@pytest.fixture
def linux(tmp_path, monkeypatch):
    """Return a function that writes files; the machine has 4 cores with 2 threads each (0-3, 4-7) and 64 GiB."""
    monkeypatch.setattr(cpu, "ROOT", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 8 if logical else 4)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=64 * GIB, available=48 * GIB))

    def write(**files):
        for name, content in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    topology = {f"cpu{i}/topology/thread_siblings_list": f"{i % 4},{i % 4 + 4}\n" for i in range(8)}
    write(**{f"sys/devices/system/cpu/{name}": text for name, text in topology.items()})
    return write


def affinity(monkeypatch, cpus):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(cpus), raising=False)


def group(version, **limits):
    """Return files of a control group /a/b with some limits at /a."""
    lines = {2: "0::/a/b\n", 1: "4:memory:/a/b\n3:cpu,cpuacct:/a/b\n2:pids:/a/b\n"}[version]
    return {"proc/self/cgroup": lines, **{f"sys/fs/cgroup/{name}": text for name, text in limits.items()}}


def test_all_cores(linux):
    assert cpu.detect_cores() == (4, 4, "")


@pytest.mark.parametrize(
    ("cpus", "usable"),
    [({0, 4}, 1), ({0, 1}, 2), ({0, 1, 4}, 2), ({1, 2, 3, 5, 6, 7}, 3)],
)
def test_hyper_threads_of_one_core_count_once(linux, monkeypatch, cpus, usable):
    affinity(monkeypatch, cpus)
    assert cpu.detect_cores() == (4, usable, f"the CPU affinity allows {usable} of 4")


def test_without_topology_the_affinity_bounds_the_cores(linux, monkeypatch, tmp_path):
    monkeypatch.setattr(cpu, "ROOT", tmp_path / "elsewhere")
    affinity(monkeypatch, {0, 1, 2})
    assert cpu.detect_cores().usable == 3
    affinity(monkeypatch, range(8))
    assert cpu.detect_cores().usable == 4


@pytest.mark.parametrize(
    ("files", "usable", "quota"),
    [
        (group(2, **{"a/b/cpu.max": "max 100000", "a/cpu.max": "250000 100000"}), 2, "2.5"),
        (group(2, **{"a/b/cpu.max": "50000 100000"}), 1, "0.5"),
        (group(2, **{"a/b/cpu.max": "300000 100000", "a/cpu.max": "100000 100000"}), 1, "1"),
        (group(2, **{"cpu.max": "200000 100000"}), 2, "2"),  # in a container /a/b is a path of the host
        (group(1, **{"cpu/a/cpu.cfs_quota_us": "150000", "cpu/a/cpu.cfs_period_us": "50000"}), 3, "3"),
        (group(2, **{"a/cpu.max": "800000 100000"}), 4, None),  # more than the cores is no limit
        (group(1, **{"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}), 4, None),
        (group(2, **{"a/cpu.max": "max 100000"}), 4, None),
        (group(2, **{"a/cpu.max": "nonsense"}), 4, None),
        ({}, 4, None),
    ],
)
def test_the_quota_of_a_control_group(linux, files, usable, quota):
    linux(**files)
    note = f"the control group's quota is {quota} CPUs" if quota else ""
    assert cpu.detect_cores() == (4, usable, note)


@pytest.mark.parametrize(
    ("files", "total", "free"),
    [
        ({}, 64, 48),
        (group(2, **{"a/memory.max": str(16 * GIB), "a/memory.current": str(6 * GIB)}), 16, 10),
        # 4 of the 6 GiB in use are cached files, which the kernel drops when asked
        (
            group(
                2,
                **{
                    "a/memory.max": str(16 * GIB),
                    "a/memory.current": str(6 * GIB),
                    "a/memory.stat": f"anon 5\ninactive_file {4 * GIB}\nactive_file 3",
                },
            ),
            16,
            14,
        ),
        (
            group(
                1,
                **{
                    "memory/a/b/memory.limit_in_bytes": str(8 * GIB),
                    "memory/a/b/memory.usage_in_bytes": str(5 * GIB),
                    "memory/a/b/memory.stat": f"inactive_file 1\ntotal_inactive_file {2 * GIB}",
                    "memory/a/memory.limit_in_bytes": str(32 * GIB),
                },
            ),
            8,
            5,
        ),
        (group(2, **{"a/b/memory.max": "max", "a/memory.max": "max"}), 64, 48),
        (group(1, **{"memory/memory.limit_in_bytes": str(2**63 - 4096)}), 64, 48),  # version 1's "no limit"
        (group(2, **{"a/memory.max": str(GIB), "a/memory.current": str(2 * GIB)}), 1, 0),
    ],
)
def test_the_memory_of_a_control_group(linux, files, total, free):
    linux(**files)
    actual = cpu.detect_memory()
    assert (actual[0], actual[1]) == (total * GIB, pytest.approx(free * GIB, abs=1))


@pytest.mark.parametrize(
    ("features", "name"),
    [
        ({}, ""),
        ({"avx512f": True, "avx512bf16": False, "amx-bf16": False}, ""),
        ({"avx512bf16": True}, "AVX512-BF16"),
        ({"avx512bf16": True, "amx-bf16": True}, "AMX-BF16"),
    ],
)
def test_instructions_for_bf16(monkeypatch, features, name):
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: features)
    assert cpu.detect_bf16() == name


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="Linux says what its CPU has")
def test_instructions_for_bf16_are_those_that_the_kernel_lists():
    flags = set(re.findall(r"\w+", Path("/proc/cpuinfo").read_text()))
    assert (cpu.detect_bf16() != "") == bool(flags & {"avx512_bf16", "amx_bf16"})
