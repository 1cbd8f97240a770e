"""scripts/gpu_monitor.py: what every GPU of this machine does now, whoever uses it."""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from itertools import count
from typing import Any

import psutil
from rich.console import Console
from rich.live import Live
from rich.table import Table

from core.config import Parser
from core.errors import UserError
from core.hardware.gpu_sampler import take_sample
from core.hardware.nvml import ask, nvml

EXIT_BAD_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Show samples until the count is reached or somebody interrupts; return the exit code."""
    try:
        own = _parser().parse_known_flags(arguments)
        _check(own)
        api = nvml()
        if api is None:
            raise UserError(
                "There is no NVIDIA driver to ask (or the package nvidia-ml-py is missing): no GPU to monitor here."
            )
        if not ask(api, "nvmlDeviceGetCount"):
            raise UserError("The NVIDIA driver is here but lists no GPU: nothing to monitor.")
        _watch(api, own)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        pass
    return 0


def samples(api: Any) -> list[dict[str, Any]]:
    """Return JSON values of each GPU that the driver lists: name, figures, processes that compute on it."""
    return [_of_gpu(api, index) for index in range(ask(api, "nvmlDeviceGetCount") or 0)]


def _of_gpu(api: Any, index: int) -> dict[str, Any]:
    handle = ask(api, "nvmlDeviceGetHandleByIndex", index)
    memory = ask(api, "nvmlDeviceGetMemoryInfo", handle)
    running = ask(api, "nvmlDeviceGetComputeRunningProcesses", handle) or ()
    return {
        "gpu": index,
        "name": ask(api, "nvmlDeviceGetName", handle),
        **take_sample(api, handle)._asdict(),
        "total_bytes": memory and memory.total,
        "processes": [{"pid": p.pid, "name": _name(p.pid), "memory_bytes": p.usedGpuMemory} for p in running],
    }


def _name(pid: int) -> str | None:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:  # it has ended, or it runs in another container
        return None


def _watch(api: Any, own: argparse.Namespace) -> None:
    console = Console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "200")))
    with Live(console=console, auto_refresh=False) if console.is_terminal and not own.json else nullcontext() as live:
        for done in count(1):
            found = samples(api)
            if own.json:
                now = datetime.now(UTC).isoformat(timespec="milliseconds")
                print(json.dumps({"time": now, "gpus": found}), flush=True)
            elif live is not None:
                live.update(table(found), refresh=True)
            else:
                console.print(table(found))
            if done == own.count:
                return
            time.sleep(own.interval)


def table(found: list[dict[str, Any]]) -> Table:
    """Return a row for each GPU; a dash where NVML does not know."""
    rows = Table("GPU", "busy", "memory", "power", "SM clock", "slowed by", "processes")
    for gpu in found:
        memory = None if gpu["memory_bytes"] is None else f"{gpu['memory_bytes'] / 1e9:.2f}"
        slowed = gpu["throttled"]
        rows.add_row(
            f"{gpu['gpu']} {gpu['name']}",
            _or_dash(gpu["utilisation"], "{:.0f} %"),
            _or_dash(memory, f"{{}} of {(gpu['total_bytes'] or 0) / 1e9:.2f} GB"),
            _or_dash(gpu["power_watts"], "{:.0f} W"),
            _or_dash(gpu["sm_mhz"], "{:,.0f} MHz"),
            _or_dash(slowed if slowed is None else ", ".join(slowed) or "nothing", "{}"),
            ", ".join(f"{p['name'] or '?'} ({p['pid']})" for p in gpu["processes"]) or "none",
        )
    return rows


def _or_dash(value: Any, form: str) -> str:
    return "-" if value is None else form.format(value)


def _parser() -> Parser:
    parser = Parser(
        prog="gpu_monitor.py",
        description="Show what the NVIDIA GPUs of this machine do, whichever process uses them.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print a JSON line a sample in place of a live table")
    parser.add_argument("--interval", type=float, default=1.0, metavar="SECONDS", help="between samples (default: 1)")
    parser.add_argument("--count", type=int, metavar="N", help="samples to take (default: until Ctrl-C)")
    return parser


def _check(own: argparse.Namespace) -> None:
    if not 0.01 <= own.interval <= 3600:
        raise UserError(f"--interval is {own.interval:g}; give 0.01 to 3600 seconds.")
    if own.count is not None and own.count < 1:
        raise UserError(f"--count is {own.count}; take at least one sample.")
