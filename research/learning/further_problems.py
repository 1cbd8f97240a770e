"""Small problems of other kinds than the bundled ones, each with its exact optimum, on which no default was tuned."""

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import poisson

from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete

LONG = 50_000
"""Steps of an episode of a process without an end."""


class Constants(NamedTuple):
    """Arrays that a problem's functions read; what they are stands where they are made."""

    first: np.ndarray
    second: np.ndarray


NONE = Constants(np.zeros(1), np.zeros(1))


def best_mean(transitions: list[np.ndarray], rewards: np.ndarray) -> float:
    """Return the largest mean reward a step, by relative value iteration (Puterman 1994, section 8.5).

    Args:
        transitions: for each action, float64[states, states] probabilities.
        rewards: float64[states, actions], expected.
    """
    values = np.zeros(len(rewards))
    while True:
        backed_up = np.stack([rewards[:, a] + p @ values for a, p in enumerate(transitions)], axis=1).max(axis=1)
        gain = backed_up - values
        if np.ptp(gain) < 1e-9:
            return float(gain.mean())
        values = 0.5 * (values + backed_up)  # half a step of a chain that may be periodic
        values -= values[0]


class Machine(Simulator):
    """A machine wears and fails, seldom and expensively; repair it a little for 8, replace it for 20, or wait."""

    action_space, observation_size, max_steps = Discrete(3), 1, LONG
    metrics_dtype = np.dtype([("cost", np.float64)])
    main_metric, main_metric_lower_is_better = "cost", True
    state_dtype = np.dtype([("wear", np.int64), ("cost", np.float64), ("periods", np.int64)])
    LEVELS = 21

    def __init__(self) -> None:
        self.parameters = Constants(0.4 * (np.arange(self.LEVELS) / 20.0) ** 3, np.zeros(1))  # risk of a failure

    @staticmethod
    def reset(state: Any, parameters: Constants, rng: np.random.Generator) -> None:
        """Begin with a new machine."""
        state.wear, state.cost, state.periods = 0, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Constants, observation: np.ndarray) -> None:
        """Write the wear."""
        observation[0] = state.wear

    @staticmethod
    def step(state: Any, parameters: Constants, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Repair, then work for a period."""
        cost = 0.0
        if action == 1:
            state.wear, cost = max(0, state.wear - 4), 8.0
        elif action == 2:
            state.wear, cost = 0, 20.0
        if rng.random() < parameters.first[state.wear]:
            state.wear, cost = 0, cost + 100.0
        else:
            u = rng.random()
            state.wear = min(20, state.wear + (2 if u < 0.2 else (1 if u < 0.7 else 0)))
        state.cost += cost
        state.periods += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Constants, metrics: Any) -> None:
        """Write the mean cost a period."""
        metrics.cost = state.cost / max(1, state.periods)

    def optimum(self) -> float:
        """Return the lowest mean cost a period."""
        n, risk = self.LEVELS, self.parameters.first
        rewards, transitions = np.zeros((n, 3)), [np.zeros((n, n)) for _ in range(3)]
        for wear in range(n):
            for action, (left, cost) in enumerate([(wear, 0.0), (max(0, wear - 4), 8.0), (0, 20.0)]):
                rewards[wear, action] = -cost - 100.0 * risk[left]
                transitions[action][wear, 0] += risk[left]
                for more, share in ((2, 0.2), (1, 0.5), (0, 0.3)):
                    transitions[action][wear, min(n - 1, left + more)] += (1.0 - risk[left]) * share
        return -best_mean(transitions, rewards)


class Admission(Simulator):
    """Customers of four kinds ask to join a queue of at most 30; each brings a fee, waiting costs 0.1 a step."""

    action_space, observation_size, max_steps = Discrete(2), 5, LONG
    metrics_dtype = np.dtype([("gain", np.float64)])
    main_metric = "gain"
    state_dtype = np.dtype([("queue", np.int64), ("kind", np.int64), ("gain", np.float64), ("steps", np.int64)])
    SERVICE = 0.35

    def __init__(self) -> None:
        self.parameters = Constants(np.array([1.0, 2.0, 5.0, 10.0]), np.array([0.2, 0.15, 0.1, 0.05]))  # fees, arrivals

    @staticmethod
    def reset(state: Any, parameters: Constants, rng: np.random.Generator) -> None:
        """Begin with an empty queue and a customer of the first kind."""
        state.queue, state.kind, state.gain, state.steps = 0, 0, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Constants, observation: np.ndarray) -> None:
        """Write the queue and who asks; kind 4 is nobody."""
        observation[0] = state.queue
        if state.kind < 4:
            observation[1 + state.kind] = 1.0

    @staticmethod
    def step(state: Any, parameters: Constants, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Admit or not, wait, serve, and see who comes."""
        reward = 0.0
        if action == 1 and state.kind < 4 and state.queue < 30:
            reward += parameters.first[state.kind]
            state.queue += 1
        reward -= 0.1 * state.queue
        if state.queue > 0 and rng.random() < 0.35:
            state.queue -= 1
        u, state.kind = rng.random(), 0
        while state.kind < 4 and u >= parameters.second[state.kind]:
            u -= parameters.second[state.kind]
            state.kind += 1
        state.gain += reward
        state.steps += 1
        return reward, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Constants, metrics: Any) -> None:
        """Write the mean gain a step."""
        metrics.gain = state.gain / max(1, state.steps)

    def optimum(self) -> float:
        """Return the largest mean gain a step."""
        fees, arrivals = self.parameters
        next_kind = np.append(arrivals, 1.0 - arrivals.sum())
        rewards, transitions = np.zeros((31 * 5, 2)), [np.zeros((31 * 5, 31 * 5)) for _ in range(2)]
        for queue, kind, action in np.ndindex(31, 5, 2):
            admitted = action == 1 and kind < 4 and queue < 30
            there, row = queue + admitted, queue * 5 + kind
            rewards[row, action] = (fees[kind] if admitted else 0.0) - 0.1 * there
            for left, share in ((there - 1, self.SERVICE), (there, 1.0 - self.SERVICE)) if there else ((0, 1.0),):
                transitions[action][row, left * 5 : left * 5 + 5] += share * next_kind
        return best_mean(transitions, rewards)


class JointOrders(Simulator):
    """Two goods, up to 8 of each a period: 15 for any order, 3 for each good in it; a lost sale costs 10, stock 1."""

    action_space, observation_size, max_steps = MultiDiscrete([9, 9]), 2, LONG
    metrics_dtype = np.dtype([("cost", np.float64)])
    main_metric, main_metric_lower_is_better = "cost", True
    state_dtype = np.dtype([("stock", np.int64, (2,)), ("cost", np.float64), ("periods", np.int64)])
    MOST, DEMAND = 15, (2.0, 1.0)

    def __init__(self) -> None:
        self.parameters = NONE

    @staticmethod
    def reset(state: Any, parameters: Constants, rng: np.random.Generator) -> None:
        """Begin with five of each."""
        state.stock[0], state.stock[1], state.cost, state.periods = 5, 5, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Constants, observation: np.ndarray) -> None:
        """Write the stock of each good."""
        observation[0], observation[1] = state.stock[0], state.stock[1]

    @staticmethod
    def step(state: Any, parameters: Constants, action: np.ndarray, rng: np.random.Generator) -> tuple[float, bool]:
        """Receive the orders, then sell."""
        cost = 15.0 if action[0] > 0 or action[1] > 0 else 0.0
        for i in range(2):
            cost += 3.0 if action[i] > 0 else 0.0
            stock = min(15, state.stock[i] + action[i])
            demand = rng.poisson(2.0 if i == 0 else 1.0)
            state.stock[i] = max(0, stock - demand)
            cost += 10.0 * max(0, demand - stock) + state.stock[i]
        state.cost += cost
        state.periods += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Constants, metrics: Any) -> None:
        """Write the mean cost a period."""
        metrics.cost = state.cost / max(1, state.periods)

    def optimum(self) -> float:
        """Return the lowest mean cost a period."""
        levels, demands = np.arange(self.MOST + 1), np.arange(60)
        left = np.maximum(levels[:, None] - demands, 0)
        chances, costs = [], []
        for mean in self.DEMAND:
            share = poisson.pmf(demands, mean)
            chances.append(np.stack([np.bincount(row, share, self.MOST + 1) for row in left]))
            costs.append((10.0 * np.maximum(demands - levels[:, None], 0) + left) @ share)
        values = np.zeros((self.MOST + 1, self.MOST + 1))
        while True:
            after = costs[0][:, None] + costs[1] + chances[0] @ values @ chances[1].T
            backed_up = np.full_like(values, np.inf)
            for a, b in np.ndindex(9, 9):
                there = np.ix_(np.minimum(levels + a, self.MOST), np.minimum(levels + b, self.MOST))
                backed_up = np.minimum(backed_up, after[there] + 15.0 * (a + b > 0) + 3.0 * (a > 0) + 3.0 * (b > 0))
            gain = backed_up - values
            if np.ptp(gain) < 1e-9:
                return float(gain.mean())
            values = 0.5 * (values + backed_up)
            values -= values[0, 0]


class Prices(Simulator):
    """Thirty units, fifty days: set a price a day; at the price p, Poisson(3 exp(-p / 100)) customers buy."""

    action_space, observation_size, max_steps = Box([0.0], [np.inf], scale=[100.0]), 2, 50
    metrics_dtype = np.dtype([("revenue", np.float64)])
    main_metric = "revenue"
    state_dtype = np.dtype([("left", np.int64), ("day", np.int64), ("revenue", np.float64)])

    def __init__(self) -> None:
        self.parameters = NONE

    @staticmethod
    def reset(state: Any, parameters: Constants, rng: np.random.Generator) -> None:
        """Begin a season."""
        state.left, state.day, state.revenue = 30, 0, 0.0

    @staticmethod
    def observe(state: Any, parameters: Constants, observation: np.ndarray) -> None:
        """Write the units that are left and the day."""
        observation[0], observation[1] = state.left, state.day

    @staticmethod
    def step(state: Any, parameters: Constants, action: np.ndarray, rng: np.random.Generator) -> tuple[float, bool]:
        """Sell for a day; the season ends with the last day or unit."""
        sold = min(state.left, rng.poisson(3.0 * np.exp(-action[0] / 100.0)))
        state.left -= sold
        state.day += 1
        state.revenue += action[0] * sold
        return action[0] * sold, state.day >= 50 or state.left == 0

    @staticmethod
    def episode_metrics(state: Any, parameters: Constants, metrics: Any) -> None:
        """Write the revenue of the season."""
        metrics.revenue = state.revenue

    def optimum(self) -> float:
        """Return the largest expected revenue, with prices in steps of a half."""
        prices, demands = np.linspace(0.0, 800.0, 1_601), np.arange(40)
        chances = poisson.pmf(demands, 3.0 * np.exp(-prices / 100.0)[:, None])
        values = np.zeros(31)
        for _ in range(50):
            sold = np.minimum(demands, np.arange(31)[:, None])
            later = values[np.arange(31)[:, None] - sold]
            values = np.array([(chances * (prices[:, None] * sold[n] + later[n])).sum(axis=1).max() for n in range(31)])
        return float(values[30])
