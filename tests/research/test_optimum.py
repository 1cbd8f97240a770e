"""The optimum of small scenarios against closed formulas, a brute-force search and the simulator itself."""

import json

import numpy as np
import pytest
from oracles.process_play import scenario, service
from scipy.linalg import expm
from scipy.optimize import brentq

from longstride.errors import UserError
from longstride.process.scenario.schema import Batch, Horizon
from longstride.process.scenario_file import scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream
from longstride.simulators.simulator import compile_functions, new_state
from longstride.training.evaluation.evaluate import evaluate
from research.processes.decision_problem import build_problem
from research.processes.optimum import find_optimum, main, optimal_heuristic
from research.processes.queue_control import build_model
from research.processes.value_iteration import solve

pytestmark = pytest.mark.slow

SEQUENCE = {"seq": [{"task": "A"}, {"task": "B"}]}
FORK = {"and": [{"task": "A"}, {"task": "B"}]}


def markov(rate, means, flow=None, horizon=1000.0):
    """Return a scenario with exponential times: means is {activity: {resource: mean}}."""
    entries = [service(a, r, "exponential", mean=m) for a, of in means.items() for r, m in of.items()]
    return scenario(
        horizon={"value": horizon},
        arrivals={"process": "poisson", "rate": rate},
        activities=list(means),
        resources=sorted({e["resource"] for e in entries}),
        service=entries,
        flow=flow or {"task": "A"},
    )


def uneven_fork(horizon=150.0):
    return markov(0.5, {"A": {"R1": 1.0, "R2": 2.0}, "B": {"R1": 1.5, "R2": 1.2}}, FORK, horizon)


def test_one_server_is_mm1():
    solution = find_optimum(markov(0.7, {"A": {"R": 1.0}})).solution
    assert solution.mean == pytest.approx(0.7 / 0.3, rel=1e-4)


def test_two_equal_servers_are_mm2():
    solution = find_optimum(markov(1.6, {"A": {"R1": 1.0, "R2": 1.0}})).solution
    assert solution.mean == pytest.approx(1.6 / (1 - 0.8**2), rel=1e-4)  # Erlang C with two servers


def test_two_stations_in_a_row_are_two_mm1():
    """Burke's theorem: with people of their own the stations are independent."""
    solution = find_optimum(markov(0.5, {"A": {"R1": 1.0}, "B": {"R2": 1.2}}, SEQUENCE)).solution
    assert solution.mean == pytest.approx(0.5 / 0.5 + 0.6 / 0.4, rel=1e-4)


def test_cost_from_empty_is_the_integral_of_the_transient_mm1():
    """The backward equations of M/M/1 with one row more for the integral of the mean, by the matrix exponential."""
    rate, horizon, n = 0.7, 200.0, 100
    generator = np.diag([rate] * (n - 1), 1) + np.diag([1.0] * (n - 1), -1)
    generator -= np.diag(generator.sum(axis=1))
    with_cost = np.block([[generator, np.arange(n)[:, None]], [np.zeros((1, n + 1))]])
    integral = expm(with_cost * horizon)[0, n]
    solution = find_optimum(markov(rate, {"A": {"R": 1.0}}, horizon=horizon)).solution
    assert solution.horizon_cost == pytest.approx(integral / horizon, rel=1e-3)
    assert solution.horizon_cost < 0.98 * solution.mean


def threshold_cost(rate, fast, slow, threshold, most=80):
    """Return the mean open cases if the slow server starts only with so many waiting: stationary equations.

    A dense chain over (waiting, fast busy, slow busy); fast and slow are rates; arrivals are lost beyond ``most``.
    """
    states = [(q, f, s) for q in range(most) for f in (0, 1) for s in (0, 1)]
    index = {state: i for i, state in enumerate(states)}

    def decide(q, f, s):
        if q and not f:
            q, f = q - 1, 1
        if q >= threshold and not s:
            q, s = q - 1, 1
        return index[q, f, s]

    generator = np.zeros((len(states), len(states)))
    for (q, f, s), i in index.items():
        generator[i, decide(min(q + 1, most - 1), f, s)] += rate
        if f:
            generator[i, decide(q, 0, s)] += fast
        if s:
            generator[i, decide(q, f, 0)] += slow
    generator -= np.diag(generator.sum(axis=1))
    equations = np.vstack([generator.T, np.ones(len(states))])
    pi = np.linalg.lstsq(equations, np.append(np.zeros(len(states)), 1.0), rcond=None)[0]
    return float(pi @ [sum(state) for state in states])


def test_a_slow_server_is_used_above_the_best_threshold_only():
    """Lin and Kumar, "Optimal control of a queueing system with two heterogeneous servers" (1984)."""
    costs = {m: threshold_cost(0.6, 1.0, 1 / 30, m) for m in range(1, 16)}
    best = min(costs, key=costs.get)
    assert 2 < best < 15
    optimum = find_optimum(markov(0.6, {"A": {"R1": 1.0, "R2": 30.0}}))
    assert optimum.solution.mean == pytest.approx(costs[best], rel=1e-4)
    actions = dict(zip(map(tuple, optimum.problem.codes.tolist()), optimum.solution.action.tolist(), strict=True))
    assert [actions[q, 1, 0] for q in range(30)] == [2] * best + [1] * (30 - best)
    assert all(actions[q, 0, 0] == actions[q, 0, 1] == 0 for q in range(1, 30))


def batches(rate, size, **changes):
    made = markov(rate, {"A": {"R": 1.0}})
    return made.model_copy(update={"batches": [Batch(activity="A", size=size, start="policy")], **changes})


def cycle_time_at_once(rate, size):
    """Return the mean time of M/M^[1,b]/1 that begins with whoever waits, at a mean service time of 1.

    While it serves, n wait with a probability in proportion to r^n (Bailey, "On queueing processes with bulk service",
    1954): r is the root of r^(b+1) - (rate + 1) r + rate in (0, 1), and it is empty 1 / rate times as often as n = 0.
    """
    r = brentq(lambda r: r ** (size + 1) - (rate + 1) * r + rate, 0.0, 1.0 - 1e-6)
    share = 1.0 / (1.0 / (1.0 - r) + 1.0 / rate)
    return share * r / (1.0 - r) ** 2 / rate + 1.0


def test_a_server_of_batches_waits_for_a_number_of_tasks_and_begins_at_once_if_they_are_few():
    """Deb and Serfozo, "Optimal control of batch service queues" (1973): a control limit is optimal."""
    assert find_optimum(batches(0.8, 8)).solution.mean / 0.8 == pytest.approx(cycle_time_at_once(0.8, 8), rel=1e-4)
    optimum = find_optimum(batches(4.0, 8))
    assert optimum.solution.mean / 4.0 < 0.95 * cycle_time_at_once(4.0, 8)
    actions = dict(zip(map(tuple, optimum.problem.codes.tolist()), optimum.solution.action.tolist(), strict=True))
    assert [actions[n, 0] for n in range(30)] == [1] * 5 + [0] * 25


def test_played_in_the_simulator_batches_cost_what_was_computed():
    made = batches(4.0, 8, horizon=Horizon(value=400.0))
    optimum, simulator = find_optimum(made), ProcessSimulator(made)
    simulator.heuristics, simulator.bounds = {**simulator.heuristics, "optimum": optimal_heuristic(optimum)}, {}
    records = evaluate(simulator, ["optimum", "fifo"], None, 200, seed=3).records
    costs = {name: -np.array([record["return"] for record in of]) for name, of in records.items()}
    error = costs["optimum"].std() / np.sqrt(200)
    assert costs["optimum"].mean() == pytest.approx(optimum.solution.horizon_cost / 4.0, abs=4 * error)
    error = costs["fifo"].std() / np.sqrt(200)
    assert costs["fifo"].mean() == pytest.approx(cycle_time_at_once(4.0, 8), abs=4 * error + 0.005)
    assert error < 0.01 * costs["fifo"].mean()


def test_one_server_does_both_tasks_of_a_fork_as_one_service():
    """M/G/1 with the sum of two exponentials (Pollaczek and Khinchine): a case begun is worth most when finished."""
    a, b, rate = 0.5, 0.8, 0.5
    solution = find_optimum(markov(rate, {"A": {"R": a}, "B": {"R": b}}, FORK)).solution
    load, second_moment = rate * (a + b), a * a + b * b + (a + b) ** 2
    assert solution.mean == pytest.approx(load + rate**2 * second_moment / (2 * (1 - load)), rel=1e-4)


def test_two_servers_of_their_own_are_the_fork_and_join_queue():
    """Nelson and Tantawi (1988), equation 6 (Flatto and Hahn): mean time (12 - load) / 8 of that of M/M/1."""
    fork = markov(0.3, {"A": {"R1": 1.0}, "B": {"R2": 1.0}}, FORK)
    problem = build_problem(build_model(fork, lead=24), 24, 100_000)
    assert solve(problem, 1.0, 1e-5).mean == pytest.approx(0.3 * (12 - 0.3) / 8 / (1 - 0.3), rel=1e-4)


@pytest.mark.parametrize("flow", [SEQUENCE, FORK], ids=["sequence", "fork"])
def test_the_model_follows_the_simulator(flow):
    """Random decisions: open cases agree, and what an assignment makes of a state."""
    case = uneven_fork().model_copy(update={"flow": flow})
    model, simulator = build_model(case, lead=1000), ProcessSimulator(case)
    f, p, states, rng = (
        compile_functions(simulator),
        simulator.parameters,
        new_state(simulator),
        np.random.default_rng(1),
    )
    encode, state, code, compared = model.encode().py_func, states[0], np.zeros(4, np.int64), 0
    f.reset(state, p, stream(0, "test"))
    while not f.truncated(state, p):
        encode(state, p, code)
        before, now, mask = tuple(code.tolist()), float(state.time), np.ones(5, np.bool_)
        assert model.open_cases(before) == state.open
        f.action_mask(state, p, mask)
        action = int(rng.choice(np.flatnonzero(mask)))
        f.step(state, p, action, rng)
        if action < 4 and state.time == now:
            encode(state, p, code)
            assert tuple(code.tolist()) == model.assignment(before, p.pair_activity[action], p.pair_resource[action])
            compared += 1
    assert compared > 10


def test_played_in_the_simulator_the_optimum_costs_what_was_computed():
    """A return is minus the integral of open cases over the expected cases; at this horizon that cost is exact."""
    case = uneven_fork()
    optimum, simulator = find_optimum(case), ProcessSimulator(case)
    simulator.heuristics, simulator.bounds = {**simulator.heuristics, "optimum": optimal_heuristic(optimum)}, {}
    records = evaluate(simulator, ["optimum"], None, 2000, seed=3).records
    costs = -np.array([record["return"] for record in records["optimum"]])
    computed, error = optimum.solution.horizon_cost / 0.5, costs.std() / np.sqrt(2000)
    assert costs.mean() == pytest.approx(computed, abs=4 * error)
    assert error < 0.02 * computed


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"service": [service("A", "R", "constant", mean=1.0)]}, r"service\[0\]\.distribution: .* not constant"),
        ({"arrivals": {"process": "replay", "times": [1.0]}}, "poisson arrivals, not replay"),
        ({"flow": {"seq": [{"task": "A"}, {"task": "A"}]}}, "exactly once"),
        ({"flow": {"xor": [{"p": 1.0, "branch": {"task": "A"}}]}}, "nothing nested or random"),
        ({"flow": {"start": [{"p": 1, "activity": "A"}], "next": {"A": [{"p": 1, "activity": None}]}}}, "flow: "),
        ({"working_hours": {"R": [{"days": ["Monday"], "from": "09:00", "to": "17:00"}]}}, "always on duty"),
        ({"batches": [{"activity": "A", "size": 2}]}, "batches without longest that policies begin"),
        ({"arrivals": {"process": "poisson", "rate": 1.5}}, "can hardly carry"),
    ],
)
def test_what_cannot_be_solved_is_refused_with_a_sentence(changes, sentence):
    base = {"service": [service("A", "R", "exponential", mean=1.0)]}
    with pytest.raises(UserError, match=sentence):
        find_optimum(scenario(**{**base, **changes}))


def test_too_many_states_are_refused():
    with pytest.raises(UserError, match="more than the 100 states"):
        build_problem(build_model(uneven_fork()), 50, 100)


def test_the_command_says_what_it_refuses_and_returns_2(tmp_path, capsys):
    path = tmp_path / "constant.json"
    path.write_text(json.dumps(scenario_content(scenario(service=[service("A", "R", "constant", mean=1.0)]))))
    assert main([str(path)]) == 2
    assert "exponential times, not constant" in capsys.readouterr().err
