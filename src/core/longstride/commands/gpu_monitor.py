"""scripts/gpu_monitor.py: the state of every GPU of this machine, whoever uses it."""

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from itertools import count
from typing import Any

import psutil
from rich.live import Live
from rich.table import Table

from longstride.errors import EXIT_BAD_INPUT, UserError
from longstride.escaping import json_line
from longstride.hardware.gpu_sampler import take_sample
from longstride.hardware.nvml import ask, nvml
from longstride.output import keep_output, lost_output
from longstride.setting_flags import Parser
from longstride.terminal import console_of_output
from longstride.text import format_bytes


def main(arguments: Sequence[str] | None = None) -> int:
    """Show samples until the count is reached or the user interrupts; return the exit code."""
    keep_output()
    try:
        options = _parser().parse_known_flags(arguments)
        _check(options)
        api = nvml()
        if api is None:
            raise UserError(
                "No NVIDIA driver was found (or the package nvidia-ml-py is missing): no GPU to monitor here."
            )
        if not ask(api, "nvmlDeviceGetCount"):
            raise UserError("The NVIDIA driver is here but lists no GPU: nothing to monitor.")
        _watch(api, options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        pass
    return 0


def samples(api: Any) -> list[dict[str, Any]]:
    """Return JSON values of each GPU that the driver lists: name, figures, processes that compute on it."""
    return [_sample(api, index) for index in range(ask(api, "nvmlDeviceGetCount") or 0)]


def _sample(api: Any, index: int) -> dict[str, Any]:
    handle = ask(api, "nvmlDeviceGetHandleByIndex", index)
    memory = ask(api, "nvmlDeviceGetMemoryInfo", handle)
    running = ask(api, "nvmlDeviceGetComputeRunningProcesses", handle) or ()
    return {
        "gpu": index,
        "name": ask(api, "nvmlDeviceGetName", handle),
        **take_sample(api, handle)._asdict(),
        "total_bytes": memory and memory.total,
        "processes": [{"pid": p.pid, "name": _process_name(p.pid), "memory_bytes": p.usedGpuMemory} for p in running],
    }


def _process_name(pid: int) -> str | None:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:  # it has ended, or it runs in another container
        return None


def _watch(api: Any, options: argparse.Namespace) -> None:
    console = console_of_output()
    is_live = console.is_terminal and not options.json
    with Live(console=console, auto_refresh=False) if is_live else nullcontext() as live:
        for number in count(1):
            gpus = samples(api)
            if options.json:
                time_of_sample = datetime.now(UTC).isoformat(timespec="milliseconds")
                print(json_line({"time": time_of_sample, "gpus": gpus}), flush=True)
            elif live is not None:
                live.update(table(gpus), refresh=True)
            else:
                console.print(table(gpus))
            if number == options.count or lost_output() is not None:
                return
            time.sleep(options.interval)


def table(gpus: list[dict[str, Any]]) -> Table:
    """Return a row for each GPU; a dash where NVML does not know."""
    rows = Table("GPU", "busy", "memory", "power", "SM clock", "slowed by", "processes")
    for gpu in gpus:
        memory, slowed = gpu["memory_bytes"], gpu["throttled"]
        rows.add_row(
            f"{gpu['gpu']} {gpu['name']}",
            _or_dash(gpu["utilisation"], "{:.0f} %"),
            "-" if memory is None else f"{format_bytes(memory, 'GB')} of {format_bytes(gpu['total_bytes'] or 0, 'GB')}",
            _or_dash(gpu["power_watts"], "{:.0f} W"),
            _or_dash(gpu["sm_mhz"], "{:,.0f} MHz"),
            "-" if slowed is None else ", ".join(slowed) or "nothing",
            ", ".join(f"{p['name'] or '?'} ({p['pid']})" for p in gpu["processes"]) or "none",
        )
    return rows


def _or_dash(value: Any, form: str) -> str:
    return "-" if value is None else form.format(value)


def _parser() -> Parser:
    parser = Parser(
        prog="gpu_monitor.py",
        description="Show what the NVIDIA GPUs of this machine are doing, whichever process uses them.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print a line of JSON per sample instead of a live table")
    parser.add_argument("--interval", type=float, default=1.0, metavar="SECONDS", help="between samples (default: 1)")
    parser.add_argument("--count", type=int, metavar="N", help="samples to take (default: until Ctrl-C)")
    return parser


def _check(options: argparse.Namespace) -> None:
    if not 0.01 <= options.interval <= 3600:
        raise UserError(f"--interval is {options.interval:g}; give 0.01 to 3600 seconds.")
    if options.count is not None and options.count < 1:
        raise UserError(f"--count is {options.count}; take at least one sample.")
