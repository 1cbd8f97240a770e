"""Where a policy answers while rollouts are collected: in the compiled loop on the cores, or in batches on a GPU.

Both are predicted as the seconds of one environment step of all instances. On the cores an instance's step takes its
simulator and the weights of the actor. On a GPU the instances step in two half-batches in turns: while the device
answers one, the cores step the other. The constants of the cores were measured with benchmarks/collect_on.py on an EPYC
(Zen 4, one core), those of GPUs are assumed. On an H200 episodes of 64 steps were bound by what each episode costs, in
the loop and with the card alike (docs/how-to/collect-on-a-gpu.md): that says nothing of these constants.
"""

from typing import Literal

from longstride.errors import UserError
from longstride.hardware.planning.gpu_catalog import Card, card_of
from longstride.hardware.planning.roofline import bus_bytes_per_second, card_seconds
from longstride.hardware.types import CollectionWork, Gpu, PlanSettings
from longstride.text import counted, format_duration

CollectOn = Literal["cpu", "gpu", "torch"]
"""Where the policy answers: in the compiled loop; on the GPU; in torch on the CPU, with the GPU's collector."""

StateFormat = Literal["fp32", "bf16"]
"""Number format of a policy's states between its steps; those on a CPU, in records and checkpoints are in float32."""

STEP_SECONDS = 1.3e-6
"""Time of a simulator's step, its observation and the draw of an action on a core: that of Pendulum."""

WEIGHT_SECONDS, FAR_WEIGHT_SECONDS = 20e-12, 13e-12
"""Time of a weight of the actor in the compiled loop on a core, and what is added for each of those that are more than
NEAR_WEIGHTS, once for every instance and once for those side by side."""

NEAR_WEIGHTS = 250_000
"""Weights in the second cache of a core (1 MiB)."""

TURN_SECONDS = 45e-6
"""Time in which the cores are told of a turn and have ended it, and the next forward pass is launched: 33 µs of it for
one thread, the rest assumed."""

ANSWER_SECONDS = 20e-6
"""Time from the launch of a captured forward pass to its outputs in the host's memory, beside its operations and bytes:
assumed."""

MARGIN = 1.5
"""How many times as fast a GPU must be predicted to be: most of what is known of it is assumed."""

BF16_GAIN = 1.05
"""How many times as fast a card's operations must be predicted to be with states in BF16: they round states, and times
are assumed."""

MOST_INSTANCES = 4096
"""Most environment instances of a run."""

_HALVES = 2


def loop_seconds(work: CollectionWork, streams: int, threads: int, side_by_side: int) -> float:
    """Return the seconds of a step of all streams in the compiled loop, by so many threads."""
    each = -(-streams // threads)
    far = max(work.weights - NEAR_WEIGHTS, 0) * (1.0 + 1.0 / min(side_by_side, each))
    return each * (STEP_SECONDS + WEIGHT_SECONDS * work.weights + FAR_WEIGHT_SECONDS * far)


def batched_seconds(work: CollectionWork, streams: int, threads: int, card: Card, tf32: bool) -> float:
    """Return the seconds of a step of all streams that a card answers in half-batches."""
    halves, rows = _half_batches(streams)
    on_cores = TURN_SECONDS + -(-rows // threads) * STEP_SECONDS
    on_card = answer_seconds(work, rows, card, tf32)
    return on_cores + on_card if halves == 1 else halves * max(on_cores, on_card)


def _half_batches(streams: int) -> tuple[int, int]:
    """Return the number of half-batches, and the streams of the larger one."""
    halves = min(streams, _HALVES)
    return halves, -(-streams // halves)


def answer_seconds(work: CollectionWork, rows: int, card: Card, tf32: bool) -> float:
    """Return the seconds in which a card answers a half-batch, at its peaks, which are never reached."""
    transfers = rows * work.row_bytes / bus_bytes_per_second(card)
    seconds = operation_seconds(work, rows, card, tf32)
    return ANSWER_SECONDS + seconds[_better(seconds)] + transfers


def operation_seconds(work: CollectionWork, rows: int, card: Card, tf32: bool) -> dict[StateFormat, float]:
    """Return the seconds of the operations of an answer, for each number format of the policy's states on a card."""
    seconds: dict[StateFormat, float] = {"fp32": card_seconds(work.answer.at(rows), card, "fp32", tf32)}
    if work.bf16_answer.counts and card.bf16:
        seconds["bf16"] = card_seconds(work.bf16_answer.at(rows), card, "bf16", tf32)
    return seconds


def _better(seconds: dict[StateFormat, float]) -> StateFormat:
    """Return the format of the states: BF16 where it is predicted to be faster by the gain."""
    return "bf16" if "bf16" in seconds and BF16_GAIN * seconds["bf16"] < seconds["fp32"] else "fp32"


def crossover(work: CollectionWork, threads: int, side_by_side: int, card: Card, tf32: bool, most: int) -> int | None:
    """Return the fewest streams, at most so many, from which on a card is faster by the margin; None for never."""
    slower = 0
    for streams in range(1, most + 1):
        loop = loop_seconds(work, streams, threads, side_by_side)
        if MARGIN * batched_seconds(work, streams, threads, card, tf32) >= loop:
            slower = streams
    return slower + 1 if slower < most else None


def collect_on(
    settings: PlanSettings, gpu: Gpu | None, why_device: str, tf32: bool, threads: int, side_by_side: int
) -> tuple[CollectOn, str]:
    """Choose where the policy answers: as the user says, else on a GPU where that is predicted to be much faster.

    Raises:
        UserError: COLLECT_ON demands what the machine or the run does not have.
    """
    wanted, work = settings.collect_on, settings.collection
    if wanted == "gpu" and gpu is None:
        raise UserError(
            f"COLLECT_ON is gpu, but {why_device}; set it to auto or cpu (torch runs the same collector on the CPU)."
        )
    if wanted in ("gpu", "torch") and work.problem:
        raise UserError(f"COLLECT_ON is {wanted}, but {work.problem}; set it to auto or cpu.")
    card = card_of(gpu) if gpu else None
    if wanted == "torch":
        return wanted, "COLLECT_ON is torch: the GPU's collector with torch on the CPU"
    if gpu is None:
        return "cpu", "COLLECT_ON is cpu" if wanted == "cpu" else "no GPU"
    if card is None or work.problem:
        why = work.problem or "no figures of this GPU are known"
        return ("cpu", why) if wanted == "auto" else (wanted, f"COLLECT_ON is {wanted}")
    faster, times = _compared(settings, card, tf32, threads, side_by_side)
    if wanted == "auto":
        return "gpu" if faster else "cpu", times
    return wanted, f"COLLECT_ON is {wanted}; {times}"


def _compared(settings: PlanSettings, card: Card, tf32: bool, threads: int, side_by_side: int) -> tuple[bool, str]:
    """Return whether a card is predicted to be faster by the margin, and both predictions in words."""
    work, streams = settings.collection, settings.parallel_episodes
    loop = loop_seconds(work, streams, threads, side_by_side)
    batched = batched_seconds(work, streams, threads, card, tf32)
    first = crossover(work, threads, side_by_side, card, tf32, MOST_INSTANCES)
    limit = f"with {first:,} or more" if first else "with no number"
    return MARGIN * batched < loop, (
        f"a step of {counted(streams, 'instance')} takes {format_duration(batched)} on the GPU, "
        f"{format_duration(loop)} in the compiled loop (predicted, not measured); auto takes the GPU {limit}"
    )


def policy_states(settings: PlanSettings, gpu: Gpu | None, place: CollectOn, tf32: bool) -> tuple[StateFormat, str]:
    """Choose the format of the states that a policy keeps on a GPU: BF16 halves their bytes, and adds operations."""
    work, card = settings.collection, card_of(gpu) if gpu else None
    if gpu is None or place != "gpu":
        return "fp32", "a CPU keeps them in float32"
    if not work.bf16_answer.counts:
        return "fp32", work.states_problem
    if card is None:
        return "fp32", "no figures of this GPU are known"
    _, rows = _half_batches(settings.parallel_episodes)
    seconds = operation_seconds(work, rows, card, tf32)
    if "bf16" not in seconds:
        return "fp32", f"compute capability {gpu.compute} has no BF16, it begins at 8.0"
    wide, half = (format_duration(seconds[each]) for each in ("fp32", "bf16"))
    reason = f"a step of {counted(rows, 'instance')} takes {half} with states in BF16, {wide} in FP32"
    return _better(seconds), f"{reason}; BF16 must be {BF16_GAIN:g} times as fast (predicted, not measured)"
