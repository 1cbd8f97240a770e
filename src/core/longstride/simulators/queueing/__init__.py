"""Queueing problems whose optimum, or a good published policy, is known."""

from longstride.simulators.queueing.criss_cross import CrissCross
from longstride.simulators.queueing.hospital import Hospital
from longstride.simulators.queueing.n_model import NModel
from longstride.simulators.queueing.reentrant_line import ReentrantLine
from longstride.simulators.queueing.tandem import Tandem

__all__ = ["CrissCross", "Hospital", "NModel", "ReentrantLine", "Tandem"]
