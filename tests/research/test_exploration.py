"""Optima of the exploration problems against linear programs, enumeration, recursion and the simulators themselves."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from longstride.simulators.simulator import new_state
from research.learning.exploration.batches import BatchServer
from research.learning.exploration.booking import Booking
from research.learning.exploration.bursts import RareBurst
from research.learning.exploration.chain import best, chain_of, metric_of, metrics_of_rules, uniform
from research.learning.exploration.channels import Channels
from research.learning.exploration.crews import Crews
from research.learning.exploration.fishery import Fishery
from research.learning.exploration.hidden_goal import HiddenGoal
from research.learning.exploration.line import RepairedLine
from research.learning.exploration.lot_sizing import LotSizing
from research.learning.exploration.machines import FAULTS, HiddenMachine
from research.learning.exploration.paths import DeepSea, RiverSwim
from research.learning.exploration.priced import PricedQueue
from research.learning.exploration.problems import PROBLEMS
from research.learning.exploration.rooms import TWO_KEYS, KeyDoor
from research.learning.exploration.routing import Routing
from research.learning.exploration.servers import ThreeQueues
from research.learning.exploration.spares import Spares
from research.learning.exploration.supply import TwoEchelons

ENDLESS = {
    "three_queues": lambda: ThreeQueues(places=3, set_up=2),
    "inspection": HiddenMachine,
    "three_faults": lambda: HiddenMachine(FAULTS),
    "river_swim": RiverSwim,
    "rare_burst": lambda: RareBurst(100.0, 0.02),
    "late_burst": lambda: RareBurst(100.0, 0.02, 50),
    "batch_server": lambda: BatchServer(places=6),
    "repaired_line": lambda: RepairedLine(places=3),
    "crews": lambda: Crews(places=2),
    "channels": lambda: Channels(oldest=4),
    "lot_sizing": lambda: LotSizing(lowest=-1, highest=2),
    "routing": lambda: Routing(places=3),
    "hidden_goal": lambda: HiddenGoal(patience=4),
}
SHORT = {
    "deep_sea": lambda: DeepSea(5),
    "key_door": KeyDoor,
    "two_keys": lambda: KeyDoor(TWO_KEYS, 400),
    "booking": Booking,
}

USUALLY_FIRST = {"inspection": 0.85, "three_faults": 0.85, "rare_burst": 0.97, "late_burst": 0.97, "hidden_goal": 0.7}
"""Shares of action 0 in random play, so that there is some wear, or something to be heard before a door is opened."""


def largest_mean_reward(chain):
    """Return the optimum of the linear program of frequencies of (state, action), Puterman (1994), section 8.8."""
    states, actions = chain.rewards.shape
    flow = sparse.hstack([sparse.eye(states) - p.T for p in chain.transitions])
    constraints = sparse.vstack([flow, np.ones((1, states * actions))])
    right = np.append(np.zeros(states), 1.0)
    solution = linprog(-chain.rewards.T.ravel(), A_eq=constraints, b_eq=right, method="highs")
    assert solution.status == 0
    return -solution.fun


@pytest.mark.parametrize("name", ENDLESS)
def test_the_optimum_is_that_of_the_linear_program(name):
    problem = ENDLESS[name]()
    chain = problem.chain()
    assert problem.optimum() == pytest.approx(chain.scale * largest_mean_reward(chain), rel=1e-4)


def test_the_deep_sea_is_as_good_as_its_best_sequence_of_actions():
    problem = DeepSea(5)
    dives = [dive(problem, actions) for actions in itertools.product((0, 1), repeat=5)]
    assert problem.optimum() == pytest.approx(max(dives))
    assert metric_of(problem.chain(), uniform(problem.chain())) == pytest.approx(sum(dives) / len(dives))


def dive(problem, actions):
    """Return the rewards of a dive."""
    state = new_state(problem)[0]
    problem.reset(state, problem.parameters, None)
    return sum(problem.step(state, problem.parameters, action, None)[0] for action in actions)


def test_every_policy_of_a_short_river_is_enumerated():
    problem = RiverSwim(4)
    chain = problem.chain()
    metrics = [metric_of(chain, np.eye(2)[list(policy)]) for policy in itertools.product((0, 1), repeat=4)]
    assert max(metrics) == pytest.approx(problem.optimum(), rel=1e-3)  # an episode begins at the left end


def test_the_corridor_to_a_door_is_walked_in_the_expected_time():
    """A corridor: a step succeeds unless it slips (0.1), and then forwards in a quarter of the cases."""
    problem = KeyDoor(("SaA.G",), 100_000)
    forwards, back = 0.9 + 0.025, 0.025
    matrix = np.eye(4) * (1.0 - forwards - back) + np.diag([forwards] * 3, 1) + np.diag([back] * 3, -1)
    matrix[0, 0] += back  # before the wall
    problem.max_steps = 2_000
    assert problem.optimum() == pytest.approx(np.linalg.solve(np.eye(4) - matrix, np.ones(4))[0], rel=1e-9)


@pytest.mark.parametrize("name", [*ENDLESS, *SHORT])
def test_the_probabilities_are_those_of_the_simulator(name):
    """Random actions: each step is possible; rewards and a random function of the state are as expected."""
    problem = {**ENDLESS, **SHORT}[name]()
    chain, state, rng = problem.chain(), new_state(problem)[0], np.random.default_rng(3)
    worth = np.random.default_rng(4).random(len(chain.rewards))
    ahead = np.stack([p @ worth for p in chain.transitions], axis=1)
    spread = np.stack([p @ worth**2 for p in chain.transitions], axis=1) - ahead**2
    assert all(np.allclose(p.sum(axis=1), 1.0) for p in chain.transitions)
    surprise, variance, rewards, ended, often = 0.0, 0.0, [], True, USUALLY_FIRST.get(name, 0.0)
    moves = [[] for _ in chain.transitions]
    for _ in range(20_000):
        if ended:
            problem.reset(state, problem.parameters, rng)
            row = problem.row(state)
            assert row == chain.start
        action = 0 if rng.random() < often else int(rng.integers(chain.rewards.shape[1]))
        reward, ended = problem.step(state, problem.parameters, action, rng)
        after = problem.row(state)
        moves[action].append((row, after))
        surprise, variance = surprise + worth[after] - ahead[row, action], variance + spread[row, action]
        rewards.append(reward - chain.rewards[row, action])
        row = after
        ended = ended or ("steps" in state.dtype.names and state.steps >= problem.max_steps)
    for p, made in zip(chain.transitions, moves, strict=True):
        before, later = np.transpose(made)
        assert (np.asarray(p[before, later]) > 0.0).all()
    assert abs(surprise) <= 4.0 * math.sqrt(variance) + 1e-6
    if name not in SHORT or name in {"deep_sea", "booking"}:  # a walk is rewarded at its end, its length is what counts
        means = np.reshape(rewards, (100, -1)).mean(axis=1)  # what is hidden lasts for several steps
        assert abs(means.mean()) <= 4.0 * means.std() / 10.0 + 1e-9


def test_states_and_numbers_belong_together():
    for make in [*ENDLESS.values(), *SHORT.values()]:
        problem = make()
        state, rows = new_state(problem)[0], len(problem.chain().rewards)
        for row in range(0, rows, 7):
            problem.write(state, row)
            assert problem.row(state) == row


def test_no_rule_is_better_than_the_optimum():
    for make in ENDLESS.values():
        problem = make()
        chain, sign = problem.chain(), 1.0 if problem.main_metric_lower_is_better else -1.0
        for metric in metrics_of_rules(problem, chain).values():
            assert sign * metric >= sign * best(chain) - 1e-3


def test_orders_up_to_the_best_levels_cost_the_optimum_in_the_simulator():
    problem = TwoEchelons()
    levels = np.array(problem.best_levels())
    problem.parameters = problem.parameters._replace(levels=levels)
    state, rng, action, costs = new_state(problem)[0], np.random.default_rng(5), np.zeros(2), []
    problem.reset(state, problem.parameters, rng)
    for _ in range(40_000):
        problem.each_alone(state, problem.parameters, None, rng, action)
        costs.append(-problem.step(state, problem.parameters, action, rng)[0])
    means = np.array(costs).reshape(40, -1).mean(axis=1)
    assert means.mean() == pytest.approx(problem.optimum(), abs=4.0 * means.std() / math.sqrt(40))


def test_no_other_orders_are_better_than_those_of_clark_and_scarf():
    """Value iteration over whole units of a demand of 0, 1 or 2, next to the decomposition with the same demand."""
    chances, holding, penalty = np.array([0.3, 0.4, 0.3]), (1.0, 0.5), 9.0
    low, high, most = -12, 8, 8
    values = np.zeros((high - low + 1, most + 1))
    while True:
        backed_up = np.full_like(values, np.inf)
        for shop, store in np.ndindex(values.shape):
            for sent, ordered in itertools.product(range(store + 1), range(4)):
                if shop + low + sent > high or store - sent + ordered > most:
                    continue
                cost = 0.0
                for demand, chance in enumerate(chances):
                    sold = shop + low - demand
                    after = values[max(sold + sent, low) - low, store - sent + ordered]
                    stock = holding[0] * max(sold, 0) + penalty * max(-sold, 0) + holding[1] * store
                    cost += chance * (stock + after)
                backed_up[shop, store] = min(backed_up[shop, store], cost)
        gain = backed_up - values
        if np.ptp(gain) < 1e-3:
            break
        values = 0.5 * (values + backed_up)
        values -= values[-low, 0]
    two = np.convolve(chances, chances)

    def shop_cost(level):
        rest = level - np.arange(5)
        return two @ (0.5 * rest + (penalty + holding[0]) * np.maximum(-rest, 0))

    best_shop = min(range(10), key=shop_cost)
    both = [
        0.5 * (level - 2) + sum(c * shop_cost(min(best_shop, level - d)) for d, c in enumerate(chances))
        for level in range(12)
    ]
    assert gain.mean() == pytest.approx(min(both), abs=2e-3)


def test_prices_are_as_good_as_the_best_of_a_fine_grid():
    """Linear program over 201 prices and queues of at most 40, next to value iteration with any price."""
    problem, most, prices = PricedQueue(waiting=0.05), 40, np.linspace(0.0, 1.0, 201)
    come, leave, waiting = problem.parameters
    moves = []
    for queue, (action, price) in itertools.product(range(most + 1), enumerate(prices)):
        for served, chance in ((0, 1.0 - leave), (1, leave)):
            left = max(queue - served, 0)
            join = come * (1.0 - price) if left < most else 0.0
            moves.append((queue, action, left, chance * (1.0 - join), -waiting * left))
            moves.append((queue, action, min(left + 1, most), chance * join, price - waiting * (left + 1)))
    chain = chain_of(moves, (most + 1, len(prices)), 0, 1 << 30, 1.0)
    assert problem.optimum() == pytest.approx(largest_mean_reward(chain), rel=1e-4)


def test_prices_earn_in_the_simulator_what_value_iteration_says():
    problem = PricedQueue()
    state, rng, action = new_state(problem)[0], np.random.default_rng(5), np.zeros(1)
    for name, expected in problem.known().items():
        problem.reset(state, problem.parameters, rng)
        profits = []
        for _ in range(40_000):
            problem.heuristics[name](state, problem.parameters, None, rng, action)
            profits.append(problem.step(state, problem.parameters, action, rng)[0])
        means = np.array(profits).reshape(40, -1).mean(axis=1)
        assert means.mean() == pytest.approx(expected, abs=4.0 * means.std() / math.sqrt(40))
        assert expected < problem.optimum()


def test_problems_for_tuning_and_for_reports_are_told_apart():
    kept_back = {name for name, problem in PROBLEMS.items() if not problem.for_tuning}
    assert kept_back == {
        *("deep_sea_20", "river_swim_30", "batch_server", "three_faults", "late_burst", "two_keys"),
        *("priced_queue", "repaired_line", "fishery", "crews", "booking", "channels", "spares"),
        *("lot_sizing", "routing", "hidden_goal"),
    }


def test_the_best_catch_is_that_of_value_iteration_on_a_grid():
    """Reed's closed form, next to a stock of 1,000 sizes between which values are interpolated."""
    problem = Fishery()
    rate, shock, least = problem.parameters
    grid = np.linspace(least, 1.2, 1_000)
    values = np.zeros(1_000)
    grown = grid * np.exp(rate * (1.0 - grid))
    while True:
        ahead = 0.5 * (np.interp(grown * (1.0 + shock), grid, values) + np.interp(grown * (1.0 - shock), grid, values))
        backed_up = grid + np.maximum.accumulate(ahead - grid)  # leave any smaller stock
        gain = backed_up - values
        if np.ptp(gain) < 1e-6:
            break
        values = 0.5 * (values + backed_up)
        values -= values[0]
    assert problem.optimum() == pytest.approx(gain.mean(), rel=2e-3)


def test_a_base_stock_of_parts_earns_in_the_simulator_what_its_probabilities_say():
    problem = Spares()
    state, rng, action, profits = SimpleNamespace(), np.random.default_rng(5), np.zeros(2), []  # faster than a record
    problem.reset(state, problem.parameters, rng)
    for _ in range(40_000):
        problem.base(state, problem.parameters, None, rng, action)
        profits.append(problem.step(state, problem.parameters, action, rng)[0])
    means = np.array(profits).reshape(40, -1).mean(axis=1)
    assert means.mean() == pytest.approx(problem.known()["base"], abs=4.0 * means.std() / math.sqrt(40))
    assert problem.optimum() > problem.known()["base"]
