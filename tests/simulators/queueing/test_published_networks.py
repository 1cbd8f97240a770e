"""The networks of QGym: their routes and loads, the published figures, and the N-model's optimum."""

import numpy as np
import pytest
from helpers.long_run import long_run
from oracles.queueing import least_cost_of_n_model
from scipy.optimize import linprog

from longstride.errors import UserError
from longstride.simulators.check import check_simulator
from longstride.simulators.loading import load_simulator
from longstride.simulators.queueing.hospital import Hospital, hospital
from longstride.simulators.queueing.n_model import N_MODEL, NModel
from longstride.simulators.queueing.network import LEAVES
from longstride.simulators.queueing.reentrant_line import ReentrantLine, reentrant_line


def route(network, k):
    way = []
    while k != LEAVES:
        way.append(k)
        k = network.next_class[k]
    return way


def loads(network):
    """Return how much of the time each station is busy, where every class has one station."""
    flow = np.zeros(len(network.next_class))
    for k, rate in enumerate(network.arrival_rate):
        flow[route(network, k) if rate else []] += rate
    service = np.array(network.service_rate)
    return [sum(flow[k] / row[k] for k in np.flatnonzero(row)) for row in service]


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize("stations", [2, 3, 10])
def test_every_station_is_busy_nine_tenths_of_the_time(layout, stations):
    assert loads(reentrant_line(layout, stations, 0.0)) == pytest.approx([0.9] * stations)


def test_the_routes():
    first, second = reentrant_line(1, 2, 0.0), reentrant_line(2, 2, 0.0)
    assert [route(first, 0), route(first, 2)] == [[0, 3, 1, 4], [2, 5]]
    assert route(second, 0) == [0, 3, 1, 4, 2, 5]
    assert np.flatnonzero(first.arrival_rate).tolist() == [0, 2]
    assert np.flatnonzero(second.arrival_rate).tolist() == [0]


@pytest.mark.slow
def test_the_rules_cost_what_is_published():
    """QGym's figures are of one run of 50,000 events, so they are far from exact; only their size is compared."""
    published = {"c_mu": (19.0, 21.6), "max_weight": (14.8, 24.8), "max_pressure": (18.9, 30.9)}
    for rule, figures in published.items():
        for stations, figure in enumerate(figures, start=2):
            assert long_run(ReentrantLine(1, stations), rule, 400_000) == pytest.approx(figure, rel=0.35)


@pytest.mark.slow
def test_the_optimum_of_the_n_model():
    """The truncated optimum comes from below; its policy, played in the simulator, costs the same; no rule beats it."""
    optimum = NModel.references["optimum (policy iteration)"]
    least, helps = least_cost_of_n_model(N_MODEL, 200)
    assert optimum * 0.99 < least < optimum
    threshold = [int(np.argmax(row)) if row.any() else 1000 for row in helps[:40]]
    table = np.array([*threshold, *[threshold[-1]] * 5000])

    def play_the_optimum(state, parameters, mask, rng):
        return int(mask[1] and (not mask[0] or state.queue[1] >= table[state.queue[0]]))

    cost = long_run(NModel(), play_the_optimum, 4_000_000)
    assert cost == pytest.approx(optimum, rel=0.05)
    assert long_run(NModel(), "max_weight", 4_000_000) > cost


@pytest.mark.slow
def test_the_hospital_costs_what_is_published():
    """MaxWeight over the first 50,000 events; its beds are just enough."""
    costs = [long_run(Hospital(), "max_weight", 50_000, seed) for seed in range(8)]
    assert np.mean(costs) == pytest.approx(Hospital.references["MaxWeight (QGym 2024)"], rel=0.1)


def test_the_hospitals_beds_are_just_enough():
    """The least share of beds in use that serves all patients, a linear programme."""
    network = hospital()
    rate, wards, kinds = np.array(network.service_rate), len(network.servers), len(network.arrival_rate)
    serve, use = np.zeros((kinds, wards * kinds + 1)), np.zeros((wards, wards * kinds + 1))
    for ward in range(wards):
        use[ward, -1] = -network.servers[ward]
        for kind in range(kinds):
            serve[kind, ward * kinds + kind], use[ward, ward * kinds + kind] = rate[ward, kind], 1.0
    goal = np.r_[np.zeros(wards * kinds), 1.0]
    assert linprog(goal, use, np.zeros(wards), serve, network.arrival_rate).fun == pytest.approx(0.999, abs=5e-4)


def test_references_are_of_the_instance():
    assert ReentrantLine(1, 2).references == {"PPO-WC (QGym 2024)": 13.6}
    assert ReentrantLine(1, 6).references == {}  # a misprint
    assert ReentrantLine(2, 6).references == {"PPO-WC (QGym 2024)": 46.80}
    assert ReentrantLine(2, 10).references == {"PPO-WC (QGym 2024)": 80.36}
    assert ReentrantLine(1, 8, "hyperexponential").references == {}


@pytest.mark.slow
@pytest.mark.parametrize("simulator", [NModel(), Hospital(), ReentrantLine(2, 3, "hyperexponential")])
def test_the_contract_is_kept(simulator):
    assert check_simulator(simulator) == []


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"layout": 3}, "layout is one of 1, 2, not 3."),
        ({"stations": 11}, "stations is a whole number from 2 to 10, not 11."),
        ({"service": "normal"}, "service is one of exponential, hyperexponential, not 'normal'."),
    ],
)
def test_wrong_options_are_sentences(options, part):
    with pytest.raises(UserError) as error:
        load_simulator("reentrant_line", options)
    assert part in str(error.value)
