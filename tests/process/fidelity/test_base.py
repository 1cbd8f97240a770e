"""The base against its log: figures by hand, and no verdict where they differ."""

import pytest

pytest.importorskip("pydantic")

from longstride.process.fidelity.base import Base, compare_base
from longstride.process.fidelity.verdict import Shares
from longstride.process.load import find_scenario
from longstride.process.scenario.schema import Logged

DESK = find_scenario("loan_desk")
LOG = Logged(mean=600.0, median=300.0, p90=1200.0, work=0.4, people=0.5, external=0.1)


def base(mean, p90=1200.0, shares=(0.4, 0.5, 0.1)):
    return Base(DESK, LOG, (mean, 300.0, p90), Shares(*shares), 0.98)


def test_a_base_that_repeats_its_log_is_judged():
    assert base(660.0).misses == []
    assert len(base(660.0).sentences) == 1


def test_a_base_that_misses_names_the_likely_cause():
    missed = base(3600.0)
    assert missed.misses == ["mean +500 %"]
    assert "no verdict and no advice is given" in missed.sentences[1]
    assert "too busy in the simulation (up to 98%" in missed.sentences[1]


def test_quantiles_alone_withhold_nothing():
    assert base(600.0, p90=700.0).misses == []
    assert base(600.0, p90=700.0).sentences[0].endswith("The spread differs: p90 -42 %.")


def test_unexplained_waiting_may_be_external():
    assert base(600.0, shares=(0.4, 0.1, 0.5)).misses == []
    assert base(600.0, shares=(0.1, 0.8, 0.1)).misses == ["work -30 points", "people +30 points"]


def test_a_scenario_without_a_log_is_not_compared():
    assert compare_base(DESK) is None
