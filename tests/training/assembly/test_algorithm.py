"""Algorithms with coefficients of their own: their schedule, and the record of an iteration."""

from types import SimpleNamespace
from typing import NamedTuple

import pytest

pytest.importorskip("pydantic")

from longstride.config import Config
from longstride.learning.schedule import Coefficients
from longstride.training.assembly.algorithm import build_algorithm, build_schedule
from longstride.training.extensions import Extensions
from longstride.training.record import iteration_record


class Bonus(NamedTuple):
    bonus: float


class Own(SimpleNamespace):
    """An algorithm of a program, which changes none of the coefficients."""

    def __init__(self, usual):
        super().__init__(**{name: None for name in ("needs_critic", "group_size", "learns_from_all", "terms")})
        self.coefficients, self.targets, self.loss = Bonus(0.3), usual.targets, usual.loss


def test_an_algorithm_without_the_coefficients_of_ppo_has_a_schedule():
    config = Config(entropy_schedule="linear")
    schedule = build_schedule(config, build_algorithm(config, Extensions(algorithm=Own)).coefficients)
    assert schedule.at(0.5).loss == Bonus(0.3)


def test_an_iteration_is_recorded_whatever_the_coefficients_are():
    whole = SimpleNamespace(finished=[], steps=2, natural_steps=2, rewards=[1.0, 3.0], seconds=4.0)
    collected, report = SimpleNamespace(whole=whole, trajectories=[]), SimpleNamespace(as_dict=lambda: {"loss": 1.0})
    record = iteration_record(1, collected, report, Coefficients(1.0, Bonus(0.3)))
    assert (record["mean_reward"], record["loss"]) == (2.0, 1.0)
    assert "clip_range" not in record
