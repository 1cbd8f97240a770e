"""People who do several tasks at once: by hand, and against as many people as they have slots."""

import numpy as np
import pytest
from helpers.generated_logs import log_of
from oracles.process_play import FIFO, play, scenario, service

from longstride.errors import UserError
from longstride.process.changes.apply import apply_changes
from longstride.process.changes.people import people_at_work
from longstride.process.resamples.simulated_log import _people, simulated_log
from longstride.process.scenario.at_once import with_slots, without_slots
from longstride.process.simulator import ProcessSimulator

TIMES = [9.0, 9.5, 9.75, 9.8]
ROSTERS = {"R": [{"days": ["Monday", "Tuesday"], "p": 0.5, "hours": ["09:00-17:00"]}]}


def agent(**changes):
    data = {
        "time_unit": "hours",
        "horizon": {"value": 168.0},
        "arrivals": {"process": "replay", "times": TIMES},
        "service": [service("A", "R", "constant", mean=5.0, observations=9)],
        "at_once": {"R": 3},
    }
    return scenario(**{**data, **changes})


def completions(made, cases=4):
    (episode,) = play(ProcessSimulator(made), FIFO, 1)
    return episode.state.completion_time[:cases].tolist()


def test_three_tasks_have_full_speed_and_the_fourth_waits():
    assert completions(agent()) == [14.0, 14.5, 14.75, 19.0]
    assert completions(agent(at_once={"R": 1})) == completions(agent(at_once={})) == [14.0, 19.0, 24.0, 29.0]


def test_a_person_with_slots_is_like_as_many_people_without():
    rng = np.random.default_rng(1)
    times = np.sort(rng.uniform(0.0, 150.0, 60)).tolist()
    one = agent(arrivals={"process": "replay", "times": times})
    more = [service("A", name, "constant", mean=5.0) for name in ("R", "S", "T")]
    three = agent(arrivals={"process": "replay", "times": times}, resources=["R", "S", "T"], service=more, at_once={})
    assert completions(one, 60) == completions(three, 60)


def test_slots_of_a_person_are_on_duty_together():
    weeks = 168.0 * 40
    made = agent(horizon={"value": weeks}, rosters=ROSTERS, arrivals={"process": "replay", "times": [weeks - 1.0]})
    (episode,) = play(ProcessSimulator(made), FIFO, 1)
    (alone,) = play(ProcessSimulator(made.model_copy(update={"at_once": {}})), FIFO, 1)
    assert episode.state.duty_time.tolist() == alone.state.duty_time.tolist() * 3
    assert 0 < episode.state.duty_time[0] < 40 * 16


def test_slots_share_rates_and_habits_and_can_be_undone():
    made = agent(
        aims={"costs": {"everyone": 30.0}}, rosters=ROSTERS, absences=[{"person": "R", "from": 24.0, "to": 48.0}]
    )
    slots = with_slots(made)
    assert slots.resources == ["R", "R · task 2", "R · task 3"]
    assert [entry.observations for entry in slots.service] == [3, 3, 3]
    assert slots.aims.costs.rates(slots.resources) == [10.0, 10.0, 10.0]
    assert len(slots.absences) == len(slots.rosters) == 3 and with_slots(slots) is slots
    back = without_slots(slots)
    assert back.aims.costs.rates(["R"]) == [30.0]
    assert back.model_copy(update={"aims": made.aims}) == made and without_slots(made) is made


def test_changes_of_people_are_those_of_whole_people():
    base = ProcessSimulator(agent(resources=["R"]))
    more = apply_changes(base.scenario, "people +1 R").scenario
    assert more.resources == ["R", "R 2"] and more.at_once == {"R": 3, "R 2": 3}
    assert completions(more) == [14.0, 14.5, 14.75, 14.8]
    fewer = apply_changes(more, "people -1 R 2").scenario
    assert completions(fewer) == completions(agent())


def test_impossible_numbers_are_refused():
    with pytest.raises(UserError, match="at_once: 'S' is not listed"):
        agent(at_once={"S": 2})
    with pytest.raises(UserError, match="at_once: 'R' does 0 tasks at once; expected 1 to 100"):
        agent(at_once={"R": 0})


def test_the_utilisation_of_a_person_is_that_of_all_tasks():
    """Four tasks of five hours, three of them at once, in a week of 168 hours: 20 of three times 168."""
    (episode,) = play(ProcessSimulator(agent()), FIFO, 1)
    assert episode.metrics["utilisation"] == pytest.approx([20.0 / (3 * 168.0)])


def test_people_are_counted_and_not_their_tasks():
    assert people_at_work(with_slots(agent())) == people_at_work(agent()) == 1


def test_a_simulated_log_names_people_and_not_their_slots():
    made = agent(arrivals={"process": "replay", "times": TIMES}, resources=["R", "S"], at_once={"R": 3, "S": 2})
    log = log_of(np.arange(4), np.zeros(4), np.zeros(4), np.array(TIMES), np.array(TIMES) + 5.0)
    for scenario_of_it in (made, with_slots(made)):
        simulated = simulated_log(scenario_of_it, log, 1)
        assert simulated.resources == ("R",)
        assert (simulated.start / 3600.0).tolist() == pytest.approx([9.0, 9.5, 9.75, 14.0])
        people = _people(scenario_of_it, np.array([-1, 0, 1, 2, 3, 4, -1]))
        assert (people.values, people.code.tolist()) == (["R", "S"], [-1, 0, 1, 0, 0, 1, -1])
