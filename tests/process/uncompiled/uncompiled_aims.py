"""Costs, due dates and targets against the slow reference: the amounts of an episode, its return and its metrics."""

import numpy as np
import pytest
from oracles.process_aims import Bill, due, step, weighed
from oracles.process_play import office, rework, scenario, service
from oracles.process_reference import Reference

from longstride.process.scenario.aims import QUANTITIES
from longstride.process.scenario_file import parse_scenario, scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream
from longstride.simulators.simulator import metrics_of, new_state

ALL = {name: 0.5 + i for i, name in enumerate(QUANTITIES)}


def with_aims(made, **aims):
    return parse_scenario({**scenario_content(made), "aims": aims}, "test")


def played(made, seed=5, choose=lambda rng, feasible: rng.choice(feasible)):
    """Play an episode with random choices in both, which postpone sometimes; return states, reference and bill."""
    simulator, rng = ProcessSimulator(made), np.random.default_rng(seed)
    states = new_state(simulator)
    state, p = states[0], simulator.parameters
    simulator.reset(state, p, stream(seed, "simulator", 0))
    reference, bill, rewards = Reference(made, np.uint64(state.seed)), Bill(), [0.0, 0.0]
    while not simulator.truncated(state, p):
        feasible = reference.feasible()
        action = int(choose(rng, [*feasible, len(reference.pairs)]))
        rewards[0] += simulator.step(state, p, action, rng)[0]
        rewards[1] += step(reference, bill, action)
    return simulator, states, reference, bill, rewards


CASES = {
    "office at work": (
        office(),
        {"everyone": 30.0, "per_hour": {"day": 12.0}, "per_task": {"B": 7.0}},
        {"after": 300.0},
    ),
    "office on duty": (office(), {"everyone": 30.0, "paid": "on duty"}, {"quantiles": [100.0, 1000.0, 9000.0]}),
    "rework": (rework(), {"per_hour": {"r": 2.0, "s": 5.0}}, {"each": [float(1 + 7 * i % 11) for i in range(192)]}),
}


@pytest.mark.parametrize("case", CASES)
def test_amounts_and_return_are_those_of_the_slow_reference(case):
    made, costs, dates = CASES[case]
    made = with_aims(made, objective=ALL, costs=costs, due=dates, target={"share": 0.9, "within": 70.0})
    _, states, reference, bill, rewards = played(made)
    amounts = bill.amounts(reference)
    assert len(reference.cases) > 60
    assert all(amounts[name] > 0 for name in (*QUANTITIES, "beyond") if (case, name) != ("rework", "overtime"))
    assert states[0].totals.tolist() == pytest.approx(list(amounts.values()), rel=1e-9)
    hour = {"minutes": 60.0, "abstract": 1.0}[made.time_unit]
    expected = -weighed(made, amounts, hour) / reference.expected_cases()
    assert rewards[0] == pytest.approx(expected, rel=1e-9)


def test_the_metrics_of_aims_are_those_of_the_cases_after_the_warm_up():
    made, costs, dates = CASES["office on duty"]
    made = with_aims(made, objective=ALL, costs=costs, due=dates, target={"share": 0.9, "within": 900.0})
    fewer = made.arrivals.model_copy(update={"rates": [rate / 5.0 for rate in made.arrivals.rates]})
    made = made.model_copy(update={"arrivals": fewer})
    simulator, states, reference, bill, _ = played(made, choose=lambda rng, feasible: feasible[0])
    metrics, amounts, now = metrics_of(simulator, states), bill.amounts(reference), reference.now
    cases = [c for c in reference.cases if c.arrival >= made.warmup]
    ends = {c.number: now if c.completion is None else c.completion for c in cases}
    assert metrics["mean_tardiness"] == pytest.approx(
        np.mean([max(ends[c.number] - due(reference, c), 0) for c in cases])
    )
    judged = [ends[c.number] > due(reference, c) for c in cases if due(reference, c) < now]
    assert 0.0 < np.mean(judged) < 1.0
    assert metrics["share_late"] == pytest.approx(np.mean(judged))
    beyond = [ends[c.number] > c.arrival + 900.0 for c in cases if c.arrival + 900.0 < now]
    assert metrics["share_beyond_target"] == pytest.approx(np.mean(beyond))
    missed = max(np.mean(beyond) / 0.1 - 1.0, 0.0)
    assert metrics["objective_with_promise"] == pytest.approx(metrics["objective"] * (1.0 + missed))
    for name in ("cost", "waiting", "handovers", "overtime"):
        assert metrics[QUANTITIES[name]] == pytest.approx(amounts[name] / len(reference.cases))
    shown = {
        name: metrics[metric] / (60.0 if metric.endswith("time") or name in ("tardiness", "overtime") else 1.0)
        for name, metric in QUANTITIES.items()
    }
    shown["overtime"] = metrics["overtime_per_case"] / 60.0
    assert metrics["objective"] == pytest.approx(sum(ALL[name] * shown[name] for name in QUANTITIES))


def test_an_objective_of_one_quantity_is_its_mean_whatever_its_weight():
    made = with_aims(rework(), objective={"tardiness": 7.0}, due={"after": 3.0})
    simulator, _, reference, _, rewards = played(made)
    late = sum(
        max(0.0, (reference.now if c.completion is None else c.completion) - c.arrival - 3.0) for c in reference.cases
    )
    assert rewards[0] == pytest.approx(-late / reference.expected_cases())
    assert simulator.main_metric == "mean_tardiness"


def test_due_dates_and_costs_alone_leave_every_reward_to_the_bit():
    plain, more = office(), with_aims(office(), due={"after": 60.0}, costs={"everyone": 3.0})
    assert played(plain)[4][0] == played(more)[4][0] != 0.0


def test_work_that_rests_is_neither_paid_nor_overtime():
    hours = {"R": [{"days": ["Monday", "Tuesday"], "from": "09:00", "to": "12:00"}]}
    made = scenario(
        horizon={"value": 72.0},
        arrivals={"process": "replay", "times": [10.0]},
        service=[service("A", "R", "constant", mean=4.0)],
        working_hours=hours,
        at_end_of_duty="pause",
        aims={"costs": {"everyone": 10.0}, "objective": {"cost": 1.0, "overtime": 1.0}},
    )
    simulator = ProcessSimulator(made)
    states, rng = new_state(simulator), np.random.default_rng(0)
    simulator.reset(states[0], simulator.parameters, rng)
    while not simulator.truncated(states[0], simulator.parameters):
        action = 0 if states[0].waiting else 1
        simulator.step(states[0], simulator.parameters, action, rng)
    assert states[0].completion_time[0] == 35.0  # two hours on Monday, two on Tuesday
    metrics = metrics_of(simulator, states)
    assert metrics["cost_per_case"] == pytest.approx(40.0)
    assert metrics["overtime_per_case"] == 0.0
