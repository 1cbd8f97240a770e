"""The six distances against the package that defines them, recorded and live."""

import json
from importlib.util import find_spec

import numpy as np
import pytest
from oracles.recorded_distances import PAIRS, RECORD, generated, measured

from longstride.process.fidelity.log_distances import Events, log_distances


def events(rows):
    case, activity, start, end = zip(*rows, strict=True)
    return Events(np.array(case), np.array(activity), np.array(start), np.array(end))


@pytest.mark.parametrize("seed", range(PAIRS))
def test_distances_are_those_that_the_package_found(seed):
    found = log_distances(events(generated(seed, 0)), events(generated(seed, 1)))
    recorded = json.loads(RECORD.read_text())[seed]
    assert found._asdict() == pytest.approx(recorded, abs=1e-9)
    assert len({round(value, 6) for value in recorded.values()}) > 4  # they are not all zero


@pytest.mark.skipif(find_spec("log_distance_measures") is None, reason="log-distance-measures is not installed")
@pytest.mark.parametrize("seed", range(100, 110))
def test_distances_are_those_that_the_package_finds_now(seed):
    first, second = generated(seed, 0), generated(seed, 1)
    assert log_distances(events(first), events(second))._asdict() == pytest.approx(measured(first, second), abs=1e-9)


def test_a_log_is_at_distance_zero_from_itself_in_another_order():
    rows = generated(3, 0)
    assert set(log_distances(events(rows), events(rows[::-1]))) == {0.0}
