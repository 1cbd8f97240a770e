"""Cells and what a loop notes, against plain Python."""

import numpy as np
import pytest

from longstride.rollout.exploring.finds import CELLS, NONE, PLACES, cell_of, count_visits, new_finds, note_find

MEAN, SCALE = np.array([1.0, -2.0], np.float32), np.array([2.0, 0.5], np.float32)
PARAMS = np.concatenate([MEAN, SCALE, np.ones(3, np.float32)])


def slow_cell(observation):
    key = 0
    for x, mean, scale in zip(observation, MEAN, SCALE, strict=True):
        place = np.float32((x - mean) * scale) / np.float32(0.5)
        place = 0.0 if np.isnan(place) else min(max(float(place), -6.0), 6.0)
        key = (key * 131 + int(np.floor(place + 6.5))) % CELLS
    return key


@pytest.mark.parametrize(
    "observation", [[0.0, 0.0], [1.0, -2.0], [1.24, -2.0], [-50.0, 3.0], [np.inf, -np.inf], [np.nan, 1.0]]
)
def test_cells_are_those_of_plain_python(observation):
    observation = np.array(observation, np.float32)
    assert cell_of(observation, PARAMS) == slow_cell(observation)


def test_places_within_half_of_a_deviation_share_a_cell_and_far_ones_too():
    at = lambda x: cell_of(np.array([x, -2.0], np.float32), PARAMS)  # noqa: E731
    assert at(1.0) == at(1.1) == at(0.9)
    assert at(1.0) != at(1.5)
    assert at(40.0) == at(4_000.0) != at(-40.0)


def test_visits_are_counted():
    visits = np.zeros(CELLS, np.float32)
    observations = np.array([[1.0, -2.0], [1.05, -2.0], [5.0, 1.0]], np.float32)
    count_visits(observations, PARAMS, visits)
    assert visits.sum() == 3.0
    assert visits[slow_cell(observations[0])] == 2.0


def test_the_rarest_cells_are_noted_once_each():
    states, visits = np.zeros(1, [("x", np.int64)]), np.zeros(CELLS, np.float32)
    observations = [np.array([1.0 + 0.25 * k, -2.0], np.float32) for k in range(-6, 6)]
    for k, observation in enumerate(observations):
        visits[slow_cell(observation)] = 100 - k
    finds = new_finds(states, visits, np.array([50]))
    for age, observation in enumerate(observations * 2):
        states["x"] = age
        note_find(finds, 0, states[0], observation, age, PARAMS)
    noted = sorted(finds.states[0]["x"].tolist())
    assert noted == list(range(len(observations) - PLACES, len(observations)))
    note_find(finds, 0, states[0], np.array([-9.0, 9.0], np.float32), 51, PARAMS)  # too old
    assert sorted(finds.states[0]["x"].tolist()) == noted
    assert (finds.cells != NONE).all()


def test_nothing_is_noted_without_exploring_starts():
    assert new_finds(np.zeros(3, [("x", np.int64)])).cells.shape == (3, 0)
