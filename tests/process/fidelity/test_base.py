"""The base against its log: figures by hand, and no verdict where they differ."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pydantic")

from longstride.errors import UserError
from longstride.process.fidelity.base import NO_FIGURES, Base, base_sentences, compare_base
from longstride.process.fidelity.verdict import Shares
from longstride.process.kernel.state import OPEN_CASES_FULL
from longstride.process.load import find_scenario, from_source, make_process
from longstride.process.scenario.schema import Logged, Waiting
from longstride.process.simulator import ProcessSimulator

DESK = find_scenario("loan_desk")
LOG = Logged(mean=600.0, median=580.0, p90=1100.0, work=0.4, people=0.5, external=0.1)
EVEN = np.linspace(0.0, 1200.0, 101)


def base(factor=1.0, shares=(0.4, 0.5, 0.1), cycles=EVEN, **logged):
    return Base(DESK, LOG.model_copy(update=logged), factor * cycles, Shares(*shares), 0.98)


def test_a_base_that_repeats_its_log_is_judged():
    assert base(1.1).misses == []
    assert len(base(1.1).sentences) == 1


def test_a_base_that_misses_names_the_likely_cause():
    missed = base(6.0)
    assert missed.misses == ["mean +500 %", "median +521 %", "p90 +489 %"]
    assert "no verdict and no advice is given" in missed.sentences[1]
    assert "too busy in the simulation (up to 98%" in missed.sentences[1]


def test_a_doubt_forbids_a_verdict_even_if_the_base_agrees():
    doubted = base(1.1, doubts=["agent 1 finished open tasks after hours"])
    assert doubted.misses == ["agent 1 finished open tasks after hours"]
    assert doubted.sentences[1].startswith("The base agrees, but no verdict and no advice is given: agent 1 finished")
    assert "misses the log by more than 15%" in base(6.0, doubts=["x"]).sentences[1]


def test_the_tolerance_is_that_of_the_log():
    assert base(1.2).misses == ["mean +20 %", "median +24 %", "p90 +18 %"]
    assert base(1.2, tolerance=0.3).misses == []


def test_a_night_between_the_same_cases_is_no_miss():
    """Nine cases in ten end within a day, the others after a night; the log has a few more of these."""
    cycles = np.concatenate([np.linspace(1.0, 420.0, 91), np.linspace(1380.0, 1500.0, 9)])
    near = {"mean": float(cycles.mean()), "median": 210.0}
    assert base(cycles=cycles, p90=1400.0, **near).misses == []
    assert base(cycles=cycles, p90=1600.0, **near).misses == ["p90 -74 %"]


def test_unexplained_waiting_may_be_external():
    assert base(shares=(0.4, 0.1, 0.5)).misses == []
    assert base(shares=(0.1, 0.8, 0.1)).misses == ["work -30 points", "people +30 points"]


def test_a_scenario_without_a_log_is_not_compared():
    assert compare_base(ProcessSimulator(DESK)) is None


def test_people_with_several_records_at_once_are_named():
    warning = (
        "2 of 6 people have several records open at once, on average: driver 1 8.0, driver 2 7.9. Such a name "
        "may be a team, or open work before doing it."
    )
    (_, said) = base(0.5, warnings=[warning]).sentences
    assert "in batches, or several tasks at once" in said
    assert said.endswith("(records open at once, on average: driver 1 8.0, driver 2 7.9).")
    assert "such as batches, priorities" in base(0.5).sentences[1]


def test_a_mined_scenario_without_figures_of_a_log_says_so():
    waiting = Waiting(cycle=1.0, waiting=0.0, world_at_least=0.0, world=0.0)
    assert base_sentences(None, DESK.model_copy(update={"waiting": waiting})) == [NO_FIGURES]
    assert base_sentences(None, DESK) == []
    assert base_sentences(base(), DESK) == base().sentences


def test_a_mined_scenario_keeps_the_figures_of_its_log(tmp_path):
    """Every case takes 3 hours: work, an hour of waiting, work."""
    rows = ["case,activity,resource,start,end"]
    for day in range(1, 21):
        date = f"2024-02-{day:02}T"
        rows += [f"{day},Check,Ann,{date}09:00,{date}10:00", f"{day},Decide,Bob,{date}11:00,{date}12:00"]
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    simulator = make_process(event_log=str(tmp_path / "log.csv"), log_tolerance=0.4)
    logged, hour = simulator.scenario.logged, simulator.scenario.hour
    assert (logged.mean / hour, logged.median / hour, logged.p90 / hour) == pytest.approx((3.0, 3.0, 3.0))
    assert logged.work == pytest.approx(2 / 3)
    assert logged.work + logged.people + logged.external == pytest.approx(1.0)
    assert logged.tolerance == 0.4
    source = simulator.hooks.source(simulator)
    assert from_source(source, {}).scenario.logged.tolerance == 0.4, "a checkpoint keeps it"
    assert from_source(source, {"log_tolerance": 0.1}).scenario.logged.tolerance == 0.1, "unless it is named"
    with pytest.raises(UserError, match="log_tolerance"):
        from_source(source, {"log_tolerance": "much"})
    with pytest.raises(UserError, match="--simulator-option due cannot change it"):
        from_source(source, {"due": "5 days"})
    assert any(line.startswith("Simulated base against the log") for line in simulator.hooks.opening(simulator, {}))


def test_an_episode_that_a_capacity_ends_blames_a_policy_only_where_tasks_wait():
    simulator = ProcessSimulator(DESK)
    state = SimpleNamespace(overflow=OPEN_CASES_FULL, queue_length=np.zeros(len(DESK.activities)), time=5.0, open=9)
    assert "so no policy can change that" in simulator.message(state)
    state.queue_length[0] = 1.0
    assert "The policy falls behind" in simulator.message(state)
