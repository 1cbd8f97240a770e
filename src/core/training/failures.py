"""What a user reads when memory runs out or numbers explode."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.errors import GpuLostError, SimulatorError, UserError, this_command
from core.learning.divergence import DivergedError
from core.learning.oom_recovery import is_gpu_lost, is_out_of_memory
from core.learning.update_stats import UpdateReport
from core.learning.updater import Updater
from core.policies.networks import ActorCritic
from core.rollout.trajectory import Trajectory, first_not_finite
from core.training.display.messages import gigabytes


@contextmanager
def report_update_errors(
    updater: Updater, episode: int, directory: Path, copies: int, rollout_steps: int
) -> Iterator[None]:
    """Turn failures of an update that nothing helped against into sentences.

    Args:
        updater: whose update it is.
        episode: training episodes done.
        directory: of the run.
        copies: that play in a round.
        rollout_steps: decisions of each where episodes are cut, else 0.
    """
    settings = updater.settings
    try:
        yield
    except DivergedError as error:
        rates = settings.learning_rate_actor, settings.learning_rate_critic
        raise divergence_error(error, episode, directory, [r * updater.guard.rate_factor for r in rates]) from error
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        sizes = settings.batch_size, rollout_steps, copies
        raise memory_error(error, episode, directory, *sizes, updater.device.type == "cuda") from error


@contextmanager
def report_gpu_loss(directory: Path = Path(), saved: Callable[[], int] | None = None) -> Iterator[None]:
    """Turn the error of a GPU that failed into a sentence that says how to go on.

    Training does not go on in this process, whatever DEVICE is: CUDA would have to bring back weights and optimiser,
    and answers nothing any more. The last checkpoint has them.

    Args:
        directory: of the run.
        saved: returns the training episode of its last checkpoint, 0 for none; None before training.

    Raises:
        GpuLostError: in place of that error.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_gpu_lost(error):
            raise
        said = str(error).strip().split("\n")[0].rstrip(".")
        go_on = (
            _go_on(saved(), directory, {"device": "cpu"})
            if saved
            else "Nothing was trained and nothing is lost; give the same command with --device cpu"
        )
        raise GpuLostError(
            f"The GPU failed ({said}), and this process cannot use it again. {go_on}, or without --device cpu once "
            "nvidia-smi finds the GPU well."
        ) from error


def update_failure_lines(episode: int, report: UpdateReport) -> list[str]:
    """Return a line for each failure that an update survived."""
    lines = [_memory_line(episode, event) for event in report.out_of_memory]
    if report.skipped_steps:
        lines.append(
            f"Episode {episode}: {report.skipped_steps} of {report.optimizer_steps} steps were skipped, because loss "
            "or gradient was not finite."
        )
    return lines + [_fallback_line(episode, fallback) for fallback in report.fallbacks]


def _fallback_line(episode: int, fallback: dict[str, Any]) -> str:
    """Return the line about a return to good weights."""
    before, after = fallback["precision_before"].upper(), fallback["precision"].upper()
    computes = f"{after} in place of {before}" if after != before else after
    return (
        f"Episode {episode}: back to the last good weights ({fallback['reason'].rstrip('.')}); from here on "
        f"{computes}, learning rates times {fallback['learning_rate_factor']:.2f}."
    )


def _memory_line(episode: int, event: dict[str, Any]) -> str:
    asked = "" if event["bytes_asked"] is None else f"asked for {gigabytes(event['bytes_asked'])}, "
    return (
        f"Episode {episode}: out of memory ({event['phase']}: {asked}{gigabytes(event['bytes_free'])} free); the "
        f"microbatch is {event['microbatch_after']:,} in place of {event['microbatch_before']:,} from here on, which "
        "changes nothing in what is learned."
    )


def memory_error(
    error: BaseException, episode: int, directory: Path, batch_size: int, rollout_steps: int, copies: int, gpu: bool
) -> UserError:
    """Return the sentence of an update that does not fit into memory in the smallest pieces.

    Args:
        error: the last one.
        episode: finished ones.
        directory: of the run.
        batch_size: most samples in a minibatch.
        rollout_steps: decisions of each copy, 0 for a whole episode.
        copies: that play at once.
        gpu: whether the memory is a GPU's.
    """
    sizes = {"batch-size": batch_size, "rollout-steps": rollout_steps, "episodes-per-update": copies}
    halves = {name: size // 2 for name, size in sizes.items() if size > 1}
    names = [name.replace("-", "_").upper() for name in halves]
    said = str(error).strip().split("\n")[0].split(". ")[0] or type(error).__name__
    prefix = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True " if gpu else ""
    return UserError(
        f"Episode {episode + 1}: out of memory, and smaller microbatches did not help ({said}). "
        f"Lower, in this order, {', '.join(names)}{', then' if names else ''} the network (CRITIC_HIDDEN_SIZE, "
        f"ACTOR_HIDDEN_SIZE, NUM_HIDDEN_LAYERS: a new run). {_go_on(episode, directory, halves, prefix)}"
    )


def divergence_error(reason: object, episode: int, directory: Path, rates: Sequence[float]) -> UserError:
    """Return the sentence of a run whose numbers explode whatever is done.

    Args:
        reason: of the last attempt.
        episode: finished ones.
        directory: of the run.
        rates: learning rates of actor and critic by now.
    """
    actor, critic = (f"{rate / 2:.2g}" for rate in rates)
    flags = {"no-use-mixed-precision": "", "learning-rate-actor": actor, "learning-rate-critic": critic}
    return UserError(
        f"Episode {episode + 1}: numbers exploded and going back to good weights did not help "
        f"({str(reason).rstrip('.')}). Set USE_MIXED_PRECISION = False, lower LEARNING_RATE_ACTOR and "
        f"LEARNING_RATE_CRITIC, and look at the size of the simulator's rewards. {_go_on(episode, directory, flags)}"
    )


def _go_on(episode: int, directory: Path, flags: dict[str, Any], prefix: str = "") -> str:
    resume = " --resume" if episode else ""
    saved = f"The checkpoint of episode {episode} is untouched; go on" if episode else "Nothing was learned yet; begin"
    settings = "".join(f" --{name} {value}".rstrip() for name, value in flags.items())
    return (
        f"{saved} with: {prefix}{this_command()} --mode train{resume} --run-directory {directory}{settings} "
        "(and the other settings as they were)"
    )


def require_finite(
    simulator: object, episode: int, trajectories: list[Trajectory], discounts: list[np.ndarray]
) -> None:
    """Check what a simulator can spoil and its loop does not look at, before it spoils an update.

    Raises:
        SimulatorError: a reward, the clock or luck; episode, instance and step are named.
    """
    for instance, (trajectory, discount) in enumerate(zip(trajectories, discounts, strict=True)):
        if (found := first_not_finite(trajectory.rewards, discount, trajectory.luck)) is not None:
            where = f"{type(simulator).__name__}, training episode {episode}, instance {instance}, step {found[0]}"
            raise SimulatorError(f"{where}: {found[1]}.")


def require_finite_weights(model: ActorCritic, episode: int) -> None:
    """Check what an update made of the weights, before it is saved.

    Raises:
        UserError: one is NaN or infinite.
    """
    if not bool(torch.isfinite(model.flat).all()):
        raise UserError(
            f"Episode {episode}: the weights are no longer finite. The last checkpoint is from before; lower "
            "the learning rates or set USE_MIXED_PRECISION = False, and train again or go on with --resume."
        )
