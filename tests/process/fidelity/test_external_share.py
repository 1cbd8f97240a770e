"""The sentence about the largest change by allocation."""

import pytest

pytest.importorskip("pydantic")

from oracles.process_play import scenario

from longstride.process.fidelity.external_share import external_share_sentence


def times(cycle, external, people, work):
    return {
        f"mean_{name}_time": t
        for name, t in zip(("cycle", "world", "people", "work"), (cycle, external, people, work), strict=False)
    }


def test_by_hand():
    """10 hours of which the bound saves 4; an episode in which no case is finished has no times and does not count."""
    played = {
        "trained": [times(1, 1, 0, 0)],
        "logged": [times(9, 4, 3, 2), {"return": 0.0}, times(11, 6, 3, 2)],
        "lower_bound": [{"return": 0.0}, times(6, 4, 0, 2)],
    }
    assert external_share_sentence(played, scenario(time_unit="hours")) == (
        "Of the cycle time under logged, 10.0 hours, 20.0% is work, 30.0% waits for people and 50.0% is external "
        "delay: allocation can change at most 4.0 hours of 10.0 hours."
    )


@pytest.mark.parametrize("played", [{}, {"logged": [{"return": 0.0}]}, {"logged": [{"mean_cycle_time": 2.0}]}])
def test_there_is_none_without_external_delays_or_finished_cases(played):
    assert external_share_sentence(played, scenario()) is None
