"""Imports, a C compiler with Python's headers (torch's compiler needs both), and copies over the bus."""

import importlib
import os
import shutil
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.gpu_report.markdown import table
from benchmarks.gpu_report.parts import Figures, Task
from longstride.hardware.planning.roofline import BUS_BYTES_PER_SECOND, FASTER_BUS
from longstride.learning.device_transfer import synchronise

MODULES = (
    "numpy",
    "numba",
    "triton",
    "pynvml",
    "longstride.hardware.detect",
    "longstride.learning.updater",
    "longstride.learning.step_selection.executor",
    "longstride.cli",
    "longstride.training.trainer",
)
"""What is imported, in this order."""

REQUIRED = (
    "numpy",
    "numba",
    "longstride.hardware.detect",
    "longstride.learning.updater",
    "longstride.learning.step_selection.executor",
)
"""Those without which nothing can be measured; triton is torch's compiler, the last two are the command line."""

COPIED = 1 << 28
"""Bytes of a timed copy: far more than its start-up costs, little beside a host's memory."""

_SOURCE = "#include <Python.h>\nint one(void) { return PY_MAJOR_VERSION; }\n"


def measure(task: Task) -> Figures:
    """Return seconds or problem of each import, the compiler, and bytes a second of copies."""
    imports = [import_of(name) for name in MODULES]
    task.keep({"imports": imports, "compiler": compiler()})
    failed = [row["problem"] for row in imports if row["problem"] and row["module"] in REQUIRED]
    found = copies(torch.device("cuda"), COPIED) if task.device == "cuda" else []
    return {"copies": found, "problem": failed[0] if failed else ""}


def import_of(name: str) -> Figures:
    """Import a module; return its seconds, and the problem or an empty text."""
    begin, problem = time.perf_counter(), ""
    try:
        importlib.import_module(name)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}".splitlines()[0]
    return {"module": name, "seconds": time.perf_counter() - begin, "problem": problem}


def compiler() -> Figures:
    """Compile a file that includes Python.h; return the compiler, and the problem or an empty text."""
    command = os.environ.get("CC") or next(filter(shutil.which, ("gcc", "cc", "clang")), "")
    if not command:
        return {"command": "", "problem": "there is no gcc, cc or clang"}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "one.c"
        source.write_text(_SOURCE)
        headers = "-I" + sysconfig.get_paths()["include"]
        arguments = [command, "-shared", "-fPIC", headers, str(source), "-o", str(source.with_suffix(".so"))]
        done = subprocess.run(arguments, capture_output=True, text=True)
    errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
    return {"command": command, "problem": (errors or ["it failed"])[0].strip() if done.returncode else ""}


def copies(device: torch.device, size: int) -> list[Figures]:
    """Return the bytes a second of copies of this size between host and device, pinned and not."""
    on_device = torch.empty(size, dtype=torch.uint8, device=device)
    rows = []
    for pinned in (True, False) if device.type == "cuda" else (False,):
        host = torch.zeros(size, dtype=torch.uint8, pin_memory=pinned)
        for way, source, target in (("up", host, on_device), ("down", on_device, host)):
            seconds = min(_seconds(source, target, device) for _ in range(5))
            rows.append({"pinned": pinned, "way": way, "bytes_per_second": size / seconds})
    return rows


def _seconds(source: torch.Tensor, target: torch.Tensor, device: torch.device) -> float:
    synchronise(device)
    begin = time.perf_counter()
    target.copy_(source, non_blocking=True)
    synchronise(device)
    return time.perf_counter() - begin


def lines(figures: Figures) -> list[str]:
    """Return the figures as Markdown."""
    rows = [
        (f"import {row['module']}", row["problem"] or f"{row['seconds']:.1f} s") for row in figures.get("imports", [])
    ]
    if found := figures.get("compiler"):
        rows.append(("C compiler with Python.h", found["problem"] or found["command"]))
    for row in figures.get("copies", []):
        memory = "pinned" if row["pinned"] else "pageable"
        rows.append((f"copy {row['way']}, {memory} memory", f"{row['bytes_per_second'] / 1e9:.1f} GB/s"))
    if figures.get("copies"):
        rows.append(
            ("assumed by predictions: pinned copies", f"{BUS_BYTES_PER_SECOND / 1e9:.0f}, {FASTER_BUS / 1e9:.0f} GB/s")
        )
    return table(("what", "found"), rows)
