"""The newest states of natural episodes, the same after a checkpoint."""

import numpy as np

from longstride.rollout.exploring.recent_states import RecentStates

STATE = np.dtype([("place", np.int64), ("total", np.float64)])


def states(*places):
    return np.array([(place, 0.5) for place in places], STATE)


def test_the_newest_states_stay_in_their_order():
    recent = RecentStates(STATE)
    assert len(recent.states) == 0
    recent.learn([states(1, 2), states(3)])
    recent.learn([states(*range(10, 520)), states()])
    assert recent.states["place"].tolist() == [2, 3, *range(10, 520)]
    recent.clear()
    assert (len(recent.states), recent.states.dtype) == (0, STATE)


def test_large_states_take_at_most_4_mib_but_some_are_kept():
    large = np.dtype([("room", np.uint8, (1 << 20,))])
    recent = RecentStates(large)
    recent.learn([np.zeros(20, large)])
    assert len(recent.states) == 16


def test_a_checkpoint_has_the_states():
    recent, other = RecentStates(STATE), RecentStates(STATE)
    recent.learn([states(4, 5)])
    other.learn([states(9)])
    kept = recent.arrays()
    recent.learn([states(6)])
    other.restore(kept)
    assert (other.states == states(4, 5)).all()
    other.restore({})
    assert len(other.states) == 0


def test_fields_may_have_offsets_of_their_own():
    scattered = np.dtype({"names": ["b", "a"], "formats": ["f8", "i1"], "offsets": [8, 0], "itemsize": 24})
    recent, other = RecentStates(scattered), RecentStates(scattered)
    recent.learn([np.array([(0.25, 3)], scattered), np.array([(0.5, 4)], scattered)])
    other.restore(recent.arrays())
    assert recent.states.dtype == other.states.dtype == scattered
    assert other.states["a"].tolist() == [3, 4]
    assert other.states["b"].tolist() == [0.25, 0.5]
