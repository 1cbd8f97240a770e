"""What a second GPU would bring: half of the update's work, less what the two exchange; assumptions, not measured."""

from dataclasses import dataclass

from longstride.hardware.planning.gpu_catalog import Card
from longstride.hardware.planning.roofline import bus_bytes_per_second
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


def second_gpu(update: float, shared: float, steps: int, parameters: int, card: Card) -> SecondGpu:
    """Return what a second card of a kind would bring an update.

    Args:
        update: seconds of the update with one card.
        shared: seconds of each of two cards that share its samples.
        steps: number of optimiser steps.
        parameters: number of parameters, whose gradients are added up in each step.
        card: card whose bus carries them, as if there were no faster link between the two.
    """
    exchange = steps * (_EXCHANGE_SECONDS + 4 * parameters / bus_bytes_per_second(card))
    return SecondGpu(update, update - shared, exchange)


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
