"""Lines about machine and run that users look for: pure functions that return text."""

from collections.abc import Sequence
from typing import Any

from longstride.hardware.planning.plan import Plan
from longstride.jit_cache.cache import CacheStats
from longstride.learning.updater import UpdateReport
from longstride.rollout.collector import EpisodeOutcome
from longstride.text import format_bytes, format_duration, in_words, scale_of, with_margin


def precision_lines(plan: Plan, capability: tuple[int, int] | None) -> list[str]:
    """Return the lines at the start of a run that say how updates compute."""
    if plan.device == "cpu":
        settings = f"in {plan.precision.upper()} on {plan.update_threads} threads"
        return [
            f"No GPU ({plan.reasons['device']}): updates run on the CPU {settings}; "
            "the simulation is as fast as with one, an update takes seconds instead of milliseconds."
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
    """Return the block about the GPU's memory, in decimal GB."""
    allocated = total_bytes - free_bytes
    return [
        f"GPU Utilization ({name}):",
        f"   Total Memory: {format_bytes(total_bytes, 'GB')}",
        f"   Allocated:    {format_bytes(allocated, 'GB')} ({100 * allocated / total_bytes:.1f}%)",
        f"   Free:         {format_bytes(free_bytes, 'GB')} ({100 * free_bytes / total_bytes:.1f}%)",
    ]


def rank_lines(ranks: int, instances: int, exchanged: int, by: str) -> list[str]:
    """Return the line about the processes that train together; none of one."""
    if ranks == 1:
        return []
    return [
        f"Ranks: {ranks} processes with {instances:,} environment instances together; in each minibatch "
        f"{format_bytes(exchanged)} of gradients are added up by {by}."
    ]


def update_line(seconds: float) -> str:
    """Return the line after each update; the time covers transfers and update."""
    return f"Policy update complete - Total time: {seconds:.2f}s"


def iteration_lines(
    iteration: int, report: UpdateReport, failures: Sequence[str], finished: Sequence[EpisodeOutcome]
) -> list[str]:
    """Return the lines after an update: its execution, failures, and messages of finished episodes."""
    messages = [f"Iteration {iteration}: {outcome.message}" for outcome in finished if outcome.message]
    return [*report.execution_notes, *failures, *messages]


def evaluation_line(
    iteration: int, metric: str, unit: str, evaluation: dict[str, Any], best: tuple[str, float] | None = None
) -> str:
    """Return the line of an evaluation while a run trains; ``best`` is the best heuristic with its mean."""
    effort = f"{evaluation['episodes']} episodes in {format_duration(evaluation['seconds'])}"
    return f"Iteration {iteration}: evaluated greedily on {effort}: {_mean(metric, unit, evaluation, best)}."


def start_line(metric: str, unit: str, evaluation: dict[str, Any], cut: int = 0) -> str:
    """Return the line of the evaluation of the policy that training begins with.

    The episodes of evaluations are cut after so many steps, if that is not 0.
    """
    episodes = f"episodes of all evaluations{f', each cut after {cut:,} steps' if cut else ''}"
    return f"Before training, on the {episodes}: {_mean(metric, unit, evaluation)}."


def _mean(metric: str, unit: str, evaluation: dict[str, Any], best: tuple[str, float] | None = None) -> str:
    """Return the name of a metric with its mean and interval in an evaluation, and the best heuristic's mean."""
    name, value = in_words(metric), evaluation["metrics"].get(metric)
    result = "not known"
    if value:
        scale = scale_of(unit, value["mean"])
        half = (value["high"] - value["low"]) / 2
        result = f"{with_margin(value['mean'] * scale.factor, half * scale.factor)}{scale.suffix}"
        result += f" (best heuristic, {best[0]}: {best[1] * scale.factor:,.2f}{scale.suffix})" if best else ""
    return f"{name} {result}"


def kernel_lines(seconds: float, tally: CacheStats) -> list[str]:
    """Return what became of the kernels of simulator, policy and update, and the seconds of loading and compiling."""
    done = [f"compiled {tally.compiled}"] if tally.compiled or not tally.loaded else []
    done += [f"loaded {tally.loaded}"] if tally.loaded else []
    where = f" ({tally.folder})" if tally.folder else ""
    line = f"Kernels of simulator, policy and update: {' and '.join(done)} in {format_duration(seconds)}{where}."
    return [line, *([tally.note] if tally.note else [])]
