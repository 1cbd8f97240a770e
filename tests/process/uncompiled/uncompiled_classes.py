"""Classes of cases against the slow reference and against sums over the cases of a state; priorities in heuristics."""

import numpy as np
import pytest
from oracles.process_aims import Bill, due, step, weighed
from oracles.process_play import scenario, service
from oracles.process_reference import Reference

from longstride.process.kernel.state import NONE
from longstride.process.scenario.aims import QUANTITIES
from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream
from longstride.simulators.simulator import metrics_of, new_state

ALL = {name: 0.5 + i for i, name in enumerate(QUANTITIES)}
HOURS = {"day": [{"days": ["Monday", "Tuesday", "Thursday"], "from": "08:00", "to": "17:00"}]}


def tree(a, b, first):
    """Return a flow with two joins of two branches, one of them inside the other."""
    inner = {"and": [{"task": a}, {"seq": [{"task": b}, {"task": first}]}]}
    return {"seq": [{"task": first}, {"and": [inner, {"task": b}]}, {"xor": [{"p": 0.5, "branch": {"task": a}}]}]}


def classes(**changes):
    """Return a process with three classes: two trees with forks, and a chain with rework."""
    urgent = tree("A · urgent", "B", "C")
    urgent["seq"][2]["xor"].append({"p": 0.5, "branch": {"task": "C"}})
    plain = tree("A", "B", "C")
    plain["seq"][2]["xor"].append({"p": 0.5, "branch": {"task": "B"}})
    again = [{"p": 0.3, "activity": "A"}, {"p": 0.7, "activity": None}]
    chain = {"start": [{"p": 1.0, "activity": "A"}], "next": {"A": again}}
    content = {
        "time_unit": "hours",
        "horizon": {"value": 600.0},
        "warmup": 20.0,
        "arrivals": {"process": "poisson", "rate": 0.14},
        "activities": ["A", "A · urgent", "B", "C"],
        "resources": ["day", "night"],
        "service": [
            service("A", "day", "exponential", mean=2.0),
            service("A", "night", "constant", mean=3.0),
            service("A · urgent", "night", "exponential", mean=1.0),
            service("B", "day", "lognormal", mean=1.0, cv=1.0),
            service("B", "night", "uniform", low=0.5, high=2.0),
            service("C", "night", "exponential", mean=0.5),
        ],
        "working_hours": HOURS,
        "flow": {
            "classes": [
                {"name": "urgent", "p": 0.3, "flow": urgent},
                {"name": "plain", "p": 0.3, "flow": plain},
                {"name": "chain", "p": 0.4, "flow": chain},
            ]
        },
        "aims": {
            "objective": ALL,
            "class_weights": {"urgent": 3.0, "chain": 0.5},
            "due": {"quantiles": [1.0, 20.0, 90.0], "by_class": {"urgent": {"after": 3.0}}},
            "costs": {"everyone": 3.0, "per_task": {"A": 1.0}},
            "target": {"share": 0.9, "within": 30.0},
        },
    }
    return scenario(**{**content, **changes})


def played(made, seed=3, watch=lambda simulator, state: None):
    """Play an episode with random choices, which postpone sometimes; return simulator, states and return."""
    simulator, rng, total = ProcessSimulator(made), np.random.default_rng(seed), 0.0
    states = new_state(simulator)
    state, p = states[0], simulator.parameters
    mask = np.zeros(len(p.pair_mean) + 1, np.bool_)
    simulator.reset(state, p, stream(seed, "simulator", 0))
    while not simulator.truncated(state, p):
        simulator.action_mask(state, p, mask)
        mask[-1] = True
        total += simulator.step(state, p, int(rng.choice(np.flatnonzero(mask))), rng)[0]
        watch(simulator, state)
    return simulator, states, total


def test_classes_are_those_of_the_slow_reference_with_their_weights_and_due_dates():
    made = classes()
    simulator, rng = ProcessSimulator(made), np.random.default_rng(5)
    states = new_state(simulator)
    state, p = states[0], simulator.parameters
    simulator.reset(state, p, stream(5, "simulator", 0))
    reference, bill, rewards = Reference(made, np.uint64(state.seed)), Bill(), [0.0, 0.0]
    while not simulator.truncated(state, p):
        action = int(rng.choice([*reference.feasible(), len(reference.pairs)]))
        rewards[0] += simulator.step(state, p, action, rng)[0]
        rewards[1] += step(reference, bill, action)
    names = [made.classes[c] for c in state.case_class[: state.arrived]]
    assert names == [case.of_class for case in reference.cases]
    assert min(names.count(name) for name in made.classes) > 10
    assert state.due_time[: state.arrived] == pytest.approx([due(reference, case) for case in reference.cases])
    amounts, weighted = bill.amounts(reference), bill.weighted(reference, made.aims.class_weights)
    assert all(amounts[name] != weighted[name] for name in ("cycle_time", "tardiness", "late", "waiting", "handovers"))
    assert state.totals.tolist() == pytest.approx(list(amounts.values()), rel=1e-9)
    beyond = {**weighted, "beyond": amounts["beyond"]}  # a promise is about cases, each of which counts once
    assert (state.totals + state.extra_totals).tolist() == pytest.approx(list(beyond.values()), rel=1e-9)
    assert rewards[0] == pytest.approx(-weighed(made, weighted, 1.0) / reference.expected_cases(), rel=1e-9)
    found, now = metrics_of(simulator, states), reference.now
    cases = [c for c in reference.cases if c.arrival >= made.warmup]
    for name in made.classes:
        own = [c for c in cases if c.of_class == name]
        ends = {c.number: now if c.completion is None else c.completion for c in own}
        assert found[f"mean_cycle_time of {name}"] == pytest.approx(np.mean([ends[c.number] - c.arrival for c in own]))
        judged = [ends[c.number] > due(reference, c) for c in own if due(reference, c) < now]
        assert found[f"share_late of {name}"] == pytest.approx(np.mean(judged))
    assert simulator.main_metric == "objective_with_promise"


def test_the_objective_of_weighted_cases_is_what_the_return_adds_up():
    aims = {"objective": ALL, "class_weights": {"urgent": 3.0}, "due": {"after": 0.001}, "costs": {"everyone": 3.0}}
    simulator, states, total = played(classes(warmup=0.0, aims=aims))
    found, cases = metrics_of(simulator, states), states[0].arrived
    # With due dates at arrival all cases are judged, so means of cases and amounts of the episode are the same.
    assert found["objective"] * cases / simulator.sizes.expected_cases == pytest.approx(-total, rel=1e-6)
    assert simulator.main_metric == "objective"


def test_weights_alone_make_a_weighted_mean_cycle_time():
    simulator, states, total = played(classes(warmup=0.0, aims={"class_weights": {"urgent": 3.0}}))
    state, n = states[0], states[0].arrived
    ages = np.where(state.completion_time[:n] >= 0.0, state.completion_time[:n], state.time) - state.arrival_time[:n]
    weight = np.where(state.case_class[:n] == 0, 3.0, 1.0)
    found = metrics_of(simulator, states)
    assert (simulator.main_metric, simulator.unit_of("objective")) == ("objective", "hours")
    assert found["objective"] == pytest.approx((weight * ages).mean())
    assert -total * simulator.sizes.expected_cases == pytest.approx((weight * ages).sum())


def test_weights_of_one_leave_every_reward_to_the_bit():
    same = classes(aims={"class_weights": {"urgent": 1.0}, "due": {"after": 9.0}})
    assert played(same)[2] == played(classes(aims={}))[2] != 0.0
    assert ProcessSimulator(same).main_metric == "mean_cycle_time"


BATCH = {"activity": "B", "size": 3, "longest": 9.0}


@pytest.mark.parametrize("more", [{}, {"batches": [BATCH]}, {"batches": [{**BATCH, "start": "policy"}]}])
def test_sums_of_weights_follow_the_cases_of_the_state_with_delays_and_batches(more):
    delays = [{"activity": "B", "distribution": "exponential", "mean": 4.0}]
    made = classes(delays=delays, horizon={"value": 300.0}, **more)
    seen = set()

    def watch(simulator, state):
        extra = simulator.parameters.class_weight[state.case_class] - 1.0
        waiting = []
        for a in range(len(state.queue_length)):
            slot = state.queue_head[a]
            for _ in range(state.queue_length[a]):
                member = slot
                while member != NONE:
                    waiting.append(state.slot_case[member])
                    member = state.slot_member[member] if more else NONE
                slot = state.slot_next[slot]
        n = state.arrived
        late = (state.completion_time[:n] < 0.0) & (state.due_time[:n] < state.time)
        expected = extra[: len(state.active)][state.active > 0].sum(), extra[waiting].sum(), extra[:n][late].sum()
        assert (state.heavy_open, state.heavy_waiting, state.heavy_late) == pytest.approx(expected, abs=1e-9)
        seen.add(expected)

    played(made, watch=watch)
    assert len(seen) > 30


def test_the_weighted_rule_and_due_dates_choose_among_the_heads_of_classes():
    activities = ["A · gold", "A · plain"]
    made = scenario(
        time_unit="abstract",
        activities=activities,
        service=[service(a, "R", "constant", mean=m) for a, m in zip(activities, (2.0, 1.5), strict=True)],
        flow={
            "classes": [
                {"name": name, "p": 0.5, "flow": {"task": a}}
                for name, a in zip(("gold", "plain"), activities, strict=True)
            ]
        },
        aims={"class_weights": {"gold": 3.0}, "due": {"after": 50.0, "by_class": {"gold": {"after": 1.0}}}},
    )
    simulator = ProcessSimulator(made)
    states, rng = new_state(simulator), np.random.default_rng(0)
    state, p = states[0], simulator.parameters
    simulator.reset(state, p, rng)
    while min(state.queue_length) == 0:
        simulator.step(state, p, len(p.pair_mean), rng)
    mask = np.ones(3, np.bool_)
    chosen = {name: rule(state, p, mask, rng) for name, rule in simulator.heuristics.items()}
    assert (chosen["spt"], chosen["wspt"], chosen["edd"]) == (1, 0, 0)
    assert "wspt" not in ProcessSimulator(classes(aims={})).heuristics
    assert np.argmax(simulator.initial_logits) == 0  # 1.5 of plain work wait less long, but gold counts three times
