"""The lines about the machine that users look for, as pure functions that return text."""

from typing import Any

from core.hardware.planning.plan import Plan
from core.jit_cache.cache import CacheStats


def precision_lines(plan: Plan, capability: tuple[int, int] | None) -> list[str]:
    """Return the lines at the start of a run that say how updates compute."""
    if plan.device == "cpu":
        how = f"in {plan.precision.upper()} on {plan.update_threads} threads"
        return [
            f"No GPU ({plan.reasons['device']}): updates run on the CPU {how}; "
            "the simulation is as fast as with one, an update takes seconds in place of milliseconds."
        ]
    assert capability is not None
    compute = f"{capability[0]}.{capability[1]}"
    if plan.precision == "fp32":
        mixed = f"Mixed Precision: off, FP32 ({plan.reasons['precision']})"
    else:
        mixed = f"Mixed Precision: {plan.precision.upper()} enabled (Compute {compute})"
    return [mixed, f"{plan.device_name.removeprefix('NVIDIA ')} optimizations enabled (TF32: {plan.tf32})"]


def batch_line(plan: Plan) -> str:
    """Return the line that says how the minibatch was chosen."""
    return f"Auto-adjusted batch size: {plan.batch_size} ({plan.reasons['batch_size']})"


def memory_lines(name: str, total_bytes: int, free_bytes: int) -> list[str]:
    """Return the block about the GPU's memory, in decimal GB.

    Args:
        name: of the GPU, as the driver gives it.
        total_bytes: all memory.
        free_bytes: memory that nobody uses.
    """
    gigabytes = 1e9
    allocated = total_bytes - free_bytes
    return [
        f"GPU Utilization ({name}):",
        f"   Total Memory: {total_bytes / gigabytes:.2f} GB",
        f"   Allocated:    {allocated / gigabytes:.2f} GB ({100 * allocated / total_bytes:.1f}%)",
        f"   Free:         {free_bytes / gigabytes:.2f} GB ({100 * free_bytes / total_bytes:.1f}%)",
    ]


def update_line(seconds: float) -> str:
    """Return the line after each update; the time covers transfers and update."""
    return f"Policy update complete - Total time: {seconds:.2f}s"


def evaluation_line(episode: int, metric: str, found: dict[str, Any]) -> str:
    """Return the line of an evaluation while a run trains."""
    name, value = metric.replace("_", " "), found["metrics"].get(metric)
    said = f"{value['mean']:,.2f} ± {(value['high'] - value['low']) / 2:,.2f}" if value else "not known"
    how = f"{found['episodes']} episodes in {found['seconds']:.2f} s"
    return f"Episode {episode}: evaluated greedily on {how}: {name} {said}."


def gigabytes(count: int) -> str:
    """Return a number of bytes in decimal GB, small ones in MB."""
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.2f} MB"


def kernel_lines(seconds: float, tally: CacheStats) -> list[str]:
    """Return what became of the kernels of play and update, apart from the time that a run takes.

    Args:
        seconds: that loading and compiling took.
        tally: how many came from where.
    """
    done = [f"compiled {tally.compiled}"] if tally.compiled or not tally.loaded else []
    done += [f"loaded {tally.loaded}"] if tally.loaded else []
    where = f" ({tally.folder})" if tally.folder else ""
    line = f"Kernels of simulator, policy and update: {' and '.join(done)} in {seconds:.1f} s{where}."
    return [line, *([tally.note] if tally.note else [])]
