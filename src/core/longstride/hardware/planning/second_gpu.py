"""What a second GPU would bring: half of the update's work, less what the two exchange; assumptions, not measured."""

from dataclasses import dataclass

from longstride.hardware.planning.gpu_catalog import Card
from longstride.hardware.planning.roofline import bus_bytes_per_second, update_seconds
from longstride.hardware.planning.work import Work
from longstride.text import format_duration

_EXCHANGE_SECONDS = 20e-6
"""Least time in which two GPUs add up their gradients: an assumption, not measured."""

_WORTH_IT = 0.1
"""Least share of an update that has to be saved before a second GPU is called worth it: a judgement."""


@dataclass(frozen=True)
class SecondGpu:
    """Predicted seconds of an update: with one GPU, what two save of it, and what they take to exchange gradients."""

    update: float
    saved: float
    exchange: float

    @property
    def is_worth_it(self) -> bool:
        """Whether updates are noticeably shorter with two."""
        return self.saved - self.exchange > _WORTH_IT * self.update


def second_gpu(times: dict[str, float], work: Work, parameters: int, card: Card) -> SecondGpu:
    """Return what a second card of a kind would bring an update.

    Args:
        times: seconds that each resource needs alone, of :func:`longstride.hardware.planning.roofline.seconds`.
        work: the work of the update.
        parameters: number of parameters, whose gradients are added up in each step.
        card: card whose bus carries them, as if there were no faster link between the two.
    """
    shared = {name: seconds if name == "launches" else seconds / 2 for name, seconds in times.items()}
    saved = update_seconds(times) - update_seconds(shared)
    exchange = work.steps * (_EXCHANGE_SECONDS + 4 * parameters / bus_bytes_per_second(card))
    return SecondGpu(update_seconds(times), saved, exchange)


def format_second_gpu(second: SecondGpu, instances: int) -> str:
    """Return a sentence about a second GPU for a run with so many environment instances."""
    if instances < 2:
        return "A second GPU brings nothing: one environment instance cannot be shared."
    figures = (
        f"it saves at most {format_duration(second.saved)} of the update, and adding up gradients takes about "
        f"{format_duration(second.exchange)} (assumed, not measured)"
    )
    if second.is_worth_it:
        return f"A second GPU may pay: {figures}. Start with longstride-torchrun --nproc-per-node=2."
    return f"A second GPU brings nothing: {figures}."
