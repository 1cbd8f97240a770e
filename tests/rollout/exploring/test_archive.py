"""The archive against its definition: one state a cell, rare cells first, the same after a checkpoint."""

import numpy as np
import pytest

from longstride.rollout.exploring.archive import Archive, Findings
from longstride.rollout.exploring.finds import CELLS

STATE = np.dtype([("place", np.int64), ("total", np.float64)])


def findings(visits: dict[int, float], states: dict[int, tuple[int, float]], age: int = 5) -> Findings:
    counts = np.zeros(CELLS, np.float32)
    for cell, count in visits.items():
        counts[cell] = count
    cells = np.array(list(states), np.int64)
    return Findings(counts, cells, np.full(len(cells), age), np.array(list(states.values()), STATE))


def test_a_cell_holds_its_newest_state_and_visits_are_forgotten_slowly():
    archive = Archive(STATE)
    archive.learn([findings({1: 10.0}, {1: (7, 0.5)})])
    archive.learn([findings({1: 4.0}, {1: (8, 1.5)}, age=9)])
    assert archive.visits[1] == pytest.approx(0.9 * 10.0 + 4.0)
    drawn = next(archive.draws(np.random.default_rng(0)))
    assert (drawn.state["place"], drawn.state["total"], drawn.age, len(archive)) == (8, 1.5, 9, 1)


def test_states_are_drawn_in_inverse_proportion_to_visits():
    archive = Archive(STATE)
    archive.learn([findings({1: 0.0, 2: 9.0}, {1: (1, 0.0), 2: (2, 0.0)})])
    draws = archive.draws(np.random.default_rng(0))
    places = np.array([next(draws).state["place"] for _ in range(20_000)])
    assert (places == 1).mean() == pytest.approx(10 / 11, abs=0.01)  # (1 / 1) / (1 / 1 + 1 / 10)


def test_the_most_visited_states_go_when_there_are_too_many():
    archive = Archive(STATE)
    archive.learn([findings({c: float(c) for c in range(1_200)}, {c: (c, 0.0) for c in range(1_200)})])
    assert len(archive) == 1_024
    assert max(archive.arrays()["cells"]) == 1_023


def test_large_states_take_at_most_16_mib_but_some_are_kept():
    large = np.dtype([("room", np.uint8, (1 << 20,))])
    archive = Archive(large)
    archive.learn([Findings(np.zeros(CELLS, np.float32), np.arange(40), np.zeros(40, np.int64), np.zeros(40, large))])
    assert len(archive) == 32


def test_a_restored_archive_draws_the_same_states():
    archive, restored = Archive(STATE), Archive(STATE)
    archive.learn([findings({3: 2.0, 5: 1.0}, {3: (3, 0.25), 5: (5, -1.0)})])
    restored.learn([findings({9: 1.0}, {9: (9, 9.0)})])
    restored.restore(archive.arrays())
    one, other = (each.draws(np.random.default_rng(4)) for each in (archive, restored))
    assert [next(one) for _ in range(20)] == [next(other) for _ in range(20)]
    restored.restore({})
    assert len(restored) == 0
    assert not restored.visits.any()


def test_states_that_are_older_than_episodes_are_dropped():
    archive = Archive(STATE)
    archive.learn([findings({1: 1.0}, {1: (1, 0.0)}, age=100), findings({2: 1.0}, {2: (2, 0.0)}, age=101)])
    archive.drop_older(100)
    assert archive.arrays()["ages"].tolist() == [100]


def test_a_cleared_archive_has_neither_states_nor_visits():
    archive = Archive(STATE)
    archive.learn([findings({1: 4.0}, {1: (7, 0.5)})])
    archive.clear()
    assert (len(archive), archive.visits.sum()) == (0, 0.0)
