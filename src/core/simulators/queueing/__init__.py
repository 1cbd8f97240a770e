"""Queueing problems whose optimum, or a good published policy, is known."""

from core.simulators.queueing.criss_cross import CrissCross

__all__ = ["CrissCross"]
