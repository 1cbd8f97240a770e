"""Change points of weekly numbers: found where they are, and not where chance alone moves the numbers."""

import numpy as np
import pytest
from helpers.generated_logs import desk_log

from longstride.process.backtest.change_points import change_point, change_points


def test_a_step_is_found_at_its_week():
    rng = np.random.default_rng(0)
    week, before, after, chance = change_point(np.concatenate([rng.poisson(70, 13), rng.poisson(90, 9)]))
    assert abs(week - 13) <= 1
    assert (before, after) == pytest.approx((70, 90), rel=0.1)
    assert chance < 0.01


def test_chance_is_rarely_taken_for_a_change():
    rng = np.random.default_rng(1)
    found = [change_point(rng.poisson(60, 30), seed) for seed in range(200)]
    assert sum(point is not None for point in found) <= 6  # 1 % of 200, and 4 for the luck of the draw


def test_few_weeks_and_equal_ones_have_none():
    assert change_point(np.array([5, 5, 5, 50, 50, 50])) is None
    assert change_point(np.full(20, 7)) is None


def test_the_volume_and_the_staff_of_a_log():
    log = desk_log(4, 20, lambda week: 1.5 if week < 10 else 0.9)
    (point, at), *others = change_points(log)
    assert point.what == "volume" and abs(point.week - 10) <= 1
    assert at / 3600 / 168 == pytest.approx(point.week)
    assert point.share == pytest.approx(1.5 / 0.9 - 1.0, abs=0.25)
    assert others == []  # the same two clerks work in all weeks
