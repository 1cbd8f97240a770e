"""Queueing problems whose optimum, or a good published policy, is known."""

from core.simulators.queueing.criss_cross import CrissCross
from core.simulators.queueing.hospital import Hospital
from core.simulators.queueing.n_model import NModel
from core.simulators.queueing.reentrant_line import ReentrantLine
from core.simulators.queueing.tandem import Tandem

__all__ = ["CrissCross", "Hospital", "NModel", "ReentrantLine", "Tandem"]
