"""Sentences about runs that lack memory, lose their GPU or diverge."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from longstride.errors import GpuLostError, SimulatorError, UserError
from longstride.learning.divergence import DivergedError
from longstride.learning.oom_recovery import is_gpu_lost, is_out_of_memory
from longstride.learning.updater import Updater, UpdateReport
from longstride.policies.networks import ActorCritic
from longstride.rollout.trajectory import Trajectory, first_not_finite
from longstride.text import format_bytes
from longstride.training.settings import TrainingSettings


@contextmanager
def report_update_errors(updater: Updater, iteration: int, saved: int, settings: TrainingSettings) -> Iterator[None]:
    """Turn failures of an update, after every recovery has failed, into sentences.

    ``iteration`` is the number of finished iterations, ``saved`` that of the last checkpoint.

    Raises:
        UserError: in place of a known failure.
    """
    try:
        yield
    except DivergedError as error:
        command = settings.command_after(saved)
        raise divergence_error(error, iteration, saved, command, [*updater.learning_rates.values()]) from error
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        sizes = {
            "batch-size": updater.settings.batch_size,
            "rollout-steps": settings.rollout_steps,
            "num-envs": settings.instances,
        }
        command = settings.command_after(saved)
        raise memory_error(error, iteration, saved, command, sizes, updater.device.type == "cuda") from error


@contextmanager
def report_gpu_loss(settings: TrainingSettings | None = None, saved: Callable[[], int] = int) -> Iterator[None]:
    """Turn the error of a GPU that failed into a sentence that says how to continue with a command.

    Training cannot continue in this process, not even on the CPU: CUDA would have to return parameters and optimiser,
    and does not answer any more. The last checkpoint has them: ``saved`` returns its iteration, 0 for none. The
    settings are None before training.

    Raises:
        GpuLostError: in place of that error.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_gpu_lost(error):
            raise
        reason = str(error).strip().split("\n")[0].rstrip(".")
        remedy = "Nothing was trained and nothing is lost: give the same command with --device cpu"
        if settings is not None:
            iteration = saved()
            remedy = resume_sentence(iteration, settings.command_after(iteration), " --device cpu")
        raise GpuLostError(
            f"The GPU failed ({reason}), and this process cannot use it again. Until nvidia-smi finds the GPU again, "
            f"continue with --device cpu. {remedy}"
        ) from error


def update_failure_lines(iteration: int, report: UpdateReport) -> list[str]:
    """Return a line for each failure that an update survived."""
    lines = [_memory_line(iteration, event) for event in report.out_of_memory]
    if report.skipped_steps:
        lines.append(
            f"Iteration {iteration}: {report.skipped_steps} of {report.optimizer_steps} steps were skipped, because "
            "loss or gradient was not finite."
        )
    return lines + [_fallback_line(iteration, fallback) for fallback in report.fallbacks]


def _fallback_line(iteration: int, fallback: dict[str, Any]) -> str:
    before, after = fallback["precision_before"].upper(), fallback["precision"].upper()
    precision = f"{after} instead of {before}" if after != before else after
    return (
        f"Iteration {iteration}: back to the last good parameters ({fallback['reason'].rstrip('.')}); from here on "
        f"{precision}, learning rates times {fallback['learning_rate_factor']:.2f}."
    )


def _memory_line(iteration: int, event: dict[str, Any]) -> str:
    asked = "" if event["bytes_asked"] is None else f"requested {format_bytes(event['bytes_asked'])}, "
    return (
        f"Iteration {iteration}: out of memory ({event['phase']}: {asked}{format_bytes(event['bytes_free'])} free); "
        f"the microbatch is now {event['microbatch_after']:,} instead of {event['microbatch_before']:,}, "
        "which does not change what is learned."
    )


def memory_error(
    error: BaseException, iteration: int, saved: int, command: str, sizes: Mapping[str, int], gpu: bool
) -> UserError:
    """Return the error of an update that does not fit into memory in the smallest microbatches.

    ``sizes`` has the values of the flags that lower memory, in the order in which to lower them. The command continues
    the run, or begins it where no iteration is done.
    """
    halves = {name: size // 2 for name, size in sizes.items() if size > 1}
    names = [name.replace("-", "_").upper() for name in halves]
    reason = str(error).strip().split("\n")[0].split(". ")[0] or type(error).__name__
    variable = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True " if gpu else ""
    flags = "".join(f" --{name} {size}" for name, size in halves.items())
    return UserError(
        f"Iteration {iteration + 1}: out of memory, and smaller microbatches did not help ({reason}). "
        f"Lower, in this order, {', '.join(names)}{', then' if names else ''} the network (CRITIC_HIDDEN_SIZE, "
        f"ACTOR_HIDDEN_SIZE, NUM_HIDDEN_LAYERS: a new run). {resume_sentence(saved, variable + command, flags)}"
    )


def divergence_error(reason: object, iteration: int, saved: int, command: str, rates: Sequence[float]) -> UserError:
    """Return the error of a run that diverges at these learning rates of actor and critic, whatever is done.

    The command is that of :func:`memory_error`.
    """
    actor, critic = (f"{rate / 2:.2g}" for rate in rates)
    flags = f" --no-use-mixed-precision --learning-rate-actor {actor} --learning-rate-critic {critic}"
    return UserError(
        f"Iteration {iteration + 1}: training diverged, and going back to good parameters did not help "
        f"({str(reason).rstrip('.')}). Set USE_MIXED_PRECISION = False, lower LEARNING_RATE_ACTOR and "
        "LEARNING_RATE_CRITIC, and look at the size of the simulator's rewards. "
        f"{resume_sentence(saved, command, flags)}"
    )


def resume_sentence(iteration: int, command: str, flags: str) -> str:
    """Return what a run has saved that ends after an iteration (0 for none), and how to go on by a command."""
    if iteration:
        return f"The checkpoint of iteration {iteration} is untouched. Resume with: {command}{flags}"
    return f"Nothing was learned yet. Begin with: {command}{flags}"


def require_finite(
    simulator: object, iteration: int, trajectories: list[Trajectory], discounts: list[np.ndarray], first: int = 0
) -> None:
    """Check what a simulator can spoil and the compiled loop does not check, in the trajectories from one instance on.

    Raises:
        SimulatorError: a reward, a discount (float64[T]) or a running sum is not finite.
    """
    for instance, (trajectory, discount) in enumerate(zip(trajectories, discounts, strict=True), first):
        if (fault := first_not_finite(trajectory.rewards, discount, trajectory.control_variate)) is not None:
            step, reason = fault
            name = type(simulator).__name__
            raise SimulatorError(f"{name}, iteration {iteration}, instance {instance}, step {step}: {reason}.")


def require_finite_parameters(model: ActorCritic, iteration: int) -> None:
    """Check the parameters after an update, before they are saved.

    Raises:
        UserError: one is NaN or infinite.
    """
    if not bool(torch.isfinite(model.flat).all()):
        raise UserError(
            f"Iteration {iteration}: the parameters are no longer finite. The last checkpoint was saved before that; "
            "lower the learning rates or set USE_MIXED_PRECISION = False, and train again or continue with --resume."
        )
