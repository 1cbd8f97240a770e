"""Problems of operations and control, each with its exact optimum, written when the defaults were as they are now."""

from typing import Any

import numpy as np
from scipy.linalg import solve_discrete_are
from scipy.stats import poisson

from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete
from research.learning.further_problems import LONG, NONE, Constants, best_mean


class Perishable(Simulator):
    """Goods that keep for two periods, the older ones sold first; a lost sale costs 8, a spoilt unit 5, stock 1."""

    action_space, observation_size, max_steps = Discrete(11), 2, LONG
    metrics_dtype = np.dtype([("cost", np.float64)])
    main_metric, main_metric_lower_is_better = "cost", True
    state_dtype = np.dtype([("ordered", np.int64), ("old", np.int64), ("cost", np.float64), ("periods", np.int64)])

    def __init__(self) -> None:
        self.parameters = NONE

    @staticmethod
    def reset(state: Any, parameters: Constants, rng: np.random.Generator) -> None:
        """Begin with nothing."""
        state.ordered, state.old, state.cost, state.periods = 0, 0, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Constants, observation: np.ndarray) -> None:
        """Write what arrives now, from the last period's order, and what is old."""
        observation[0], observation[1] = state.ordered, state.old

    @staticmethod
    def step(state: Any, parameters: Constants, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Receive the last order, sell, throw the old away, order."""
        demand = rng.poisson(4.0)
        from_old = min(demand, state.old)
        from_new = min(demand - from_old, state.ordered)
        kept = state.ordered - from_new
        cost = 8.0 * (demand - from_old - from_new) + 5.0 * (state.old - from_old) + kept
        state.old, state.ordered = kept, action
        state.cost += cost
        state.periods += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Constants, metrics: Any) -> None:
        """Write the mean cost a period."""
        metrics.cost = state.cost / max(1, state.periods)

    def optimum(self) -> float:
        """Return the lowest mean cost a period."""
        share = poisson.pmf(np.arange(40), 4.0)
        rewards, transitions = np.zeros((121, 11)), [np.zeros((121, 121)) for _ in range(11)]
        for arriving, old in np.ndindex(11, 11):
            row = arriving * 11 + old
            for demand, chance in enumerate(share):
                from_old = min(demand, old)
                from_new = min(demand - from_old, arriving)
                kept = arriving - from_new
                rewards[row] -= chance * (8.0 * (demand - from_old - from_new) + 5.0 * (old - from_old) + kept)
                for action in range(11):
                    transitions[action][row, action * 11 + kept] += chance
        return -best_mean(transitions, rewards)


class DualSourcing(Simulator):
    """Order for 1 a unit and wait two periods, or for 5 and have it now; backlog costs 19, stock 1."""

    action_space, observation_size, max_steps = MultiDiscrete([7, 7]), 2, LONG
    metrics_dtype = np.dtype([("cost", np.float64)])
    main_metric, main_metric_lower_is_better = "cost", True
    state_dtype = np.dtype([("stock", np.int64), ("way", np.int64, (2,)), ("cost", np.float64), ("periods", np.int64)])
    LOW, HIGH, DEMAND = -30, 30, np.array([0.15, 0.2, 0.25, 0.2, 0.1, 0.06, 0.04])

    def __init__(self) -> None:
        self.parameters = Constants(np.cumsum(self.DEMAND), np.zeros(1))

    @staticmethod
    def reset(state: Any, parameters: Constants, rng: np.random.Generator) -> None:
        """Begin with nothing."""
        state.stock, state.way[0], state.way[1], state.cost, state.periods = 0, 0, 0, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Constants, observation: np.ndarray) -> None:
        """Write stock with what arrives now, and what arrives in the next period."""
        observation[0], observation[1] = state.stock + state.way[0], state.way[1]

    @staticmethod
    def step(state: Any, parameters: Constants, action: np.ndarray, rng: np.random.Generator) -> tuple[float, bool]:
        """Receive, order, sell; stock is kept within -30 and 30."""
        u, demand = rng.random(), 0
        while demand < 6 and u >= parameters.first[demand]:
            demand += 1
        stock = min(max(state.stock + state.way[0] + action[1] - demand, -30), 30)
        cost = action[0] + 5.0 * action[1] + max(stock, 0) + 19.0 * max(-stock, 0)
        state.stock, state.way[0], state.way[1] = stock, state.way[1], action[0]
        state.cost += cost
        state.periods += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Constants, metrics: Any) -> None:
        """Write the mean cost a period."""
        metrics.cost = state.cost / max(1, state.periods)

    def optimum(self) -> float:
        """Return the lowest mean cost a period, by relative value iteration on (stock with arrivals, next arrival)."""
        seen = np.arange(self.LOW, self.HIGH + 7)  # with what arrives now
        values = np.zeros((len(seen), 7))
        after = np.clip(
            seen[:, None, None] + np.arange(7)[:, None] - np.arange(7), self.LOW, self.HIGH
        )  # seen, now, demand
        costs = (np.maximum(after, 0) + 19.0 * np.maximum(-after, 0)) @ self.DEMAND + 5.0 * np.arange(7)
        while True:
            backed_up = np.empty_like(values)
            for way in range(7):
                later = np.einsum("snda,d->sna", values[after + way - self.LOW], self.DEMAND)
                total = costs[:, :, None] + np.arange(7.0) + later
                backed_up[:, way] = total.min(axis=(1, 2))
            gain = backed_up - values
            if np.ptp(gain) < 1e-9:
                return float(gain.mean())
            values = 0.5 * (values + backed_up)
            values -= values[0, 0]


class Storage(Simulator):
    """A battery of ten units and a price that wanders: buy or sell a unit a period; a tenth is lost on the way in."""

    action_space, observation_size, max_steps = Discrete(3), 2, LONG
    metrics_dtype = np.dtype([("gain", np.float64)])
    main_metric = "gain"
    state_dtype = np.dtype([("units", np.int64), ("price", np.int64), ("gain", np.float64), ("periods", np.int64)])
    PRICES = 15

    def __init__(self) -> None:
        self.parameters = Constants(10.0 + 3.0 * np.arange(self.PRICES), np.zeros(1))

    @staticmethod
    def reset(state: Any, parameters: Constants, rng: np.random.Generator) -> None:
        """Begin empty, at the middle price."""
        state.units, state.price, state.gain, state.periods = 0, 7, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Constants, observation: np.ndarray) -> None:
        """Write what is stored and the price."""
        observation[0], observation[1] = state.units, parameters.first[state.price]

    @staticmethod
    def step(state: Any, parameters: Constants, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Wait, buy or sell; then the price moves, rather towards the middle."""
        reward = 0.0
        if action == 1 and state.units < 10:
            state.units, reward = state.units + 1, -parameters.first[state.price] / 0.9
        elif action == 2 and state.units > 0:
            state.units, reward = state.units - 1, parameters.first[state.price]
        up = 0.35 - 0.035 * (state.price - 7)
        u = rng.random()
        if u < up:
            state.price = min(state.price + 1, 14)
        elif u < 0.7:
            state.price = max(state.price - 1, 0)
        state.gain += reward
        state.periods += 1
        return reward, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Constants, metrics: Any) -> None:
        """Write the mean gain a period."""
        metrics.gain = state.gain / max(1, state.periods)

    def optimum(self) -> float:
        """Return the largest mean gain a period."""
        n, prices = self.PRICES, self.parameters.first
        rewards, transitions = np.zeros((11 * n, 3)), [np.zeros((11 * n, 11 * n)) for _ in range(3)]
        for units, price, action in np.ndindex(11, n, 3):
            row, there = units * n + price, units
            if action == 1 and units < 10:
                there, rewards[row, action] = units + 1, -prices[price] / 0.9
            elif action == 2 and units > 0:
                there, rewards[row, action] = units - 1, prices[price]
            up = 0.35 - 0.035 * (price - 7)
            for to, chance in ((min(price + 1, n - 1), up), (max(price - 1, 0), 0.7 - up), (price, 0.3)):
                transitions[action][row, there * n + to] += chance
        return best_mean(transitions, rewards)


class Impatience(Simulator):
    """One server and two kinds of customers who leave unserved: the second kind is slower, dearer and more patient."""

    action_space, observation_size, max_steps = Discrete(2), 2, LONG
    metrics_dtype = np.dtype([("cost", np.float64)])
    main_metric, main_metric_lower_is_better = "cost", True
    state_dtype = np.dtype([("queue", np.int64, (2,)), ("cost", np.float64), ("steps", np.int64)])
    MOST = 25

    def __init__(self) -> None:
        self.parameters = NONE

    @staticmethod
    def reset(state: Any, parameters: Constants, rng: np.random.Generator) -> None:
        """Begin empty."""
        state.queue[0], state.queue[1], state.cost, state.steps = 0, 0, 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Constants, observation: np.ndarray) -> None:
        """Write both queues."""
        observation[0], observation[1] = state.queue[0], state.queue[1]

    @staticmethod
    def step(state: Any, parameters: Constants, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Serve a queue for a step; one event happens: an arrival, the end of the service, or somebody leaves."""
        u, cost = rng.random(), state.queue[0] + 2.0 * state.queue[1]
        leave0, leave1 = 0.01 * state.queue[0], 0.002 * state.queue[1]
        if u < 0.12:
            state.queue[0] = min(state.queue[0] + 1, 25)
        elif u < 0.2:
            state.queue[1] = min(state.queue[1] + 1, 25)
        elif u < 0.2 + (0.3 if action == 0 else 0.18):
            state.queue[action] = max(state.queue[action] - 1, 0)
        elif 0.5 <= u < 0.5 + leave0:
            state.queue[0], cost = state.queue[0] - 1, cost + 20.0
        elif 0.5 + leave0 <= u < 0.5 + leave0 + leave1:
            state.queue[1], cost = state.queue[1] - 1, cost + 60.0
        state.cost += cost
        state.steps += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Constants, metrics: Any) -> None:
        """Write the mean cost a step."""
        metrics.cost = state.cost / max(1, state.steps)

    def optimum(self) -> float:
        """Return the lowest mean cost a step."""
        n = self.MOST + 1
        rewards, transitions = np.zeros((n * n, 2)), [np.zeros((n * n, n * n)) for _ in range(2)]
        for i, j, action in np.ndindex(n, n, 2):
            row, service = i * n + j, 0.3 if action == 0 else 0.18
            served = (max(i - 1, 0), j) if action == 0 else (i, max(j - 1, 0))
            moves = [((min(i + 1, n - 1), j), 0.12), ((i, min(j + 1, n - 1)), 0.08), (served, service)]
            moves += [((max(i - 1, 0), j), 0.01 * i), ((i, max(j - 1, 0)), 0.002 * j)]
            for (to, other), chance in moves:
                transitions[action][row, to * n + other] += chance
            transitions[action][row, row] += 1.0 - sum(chance for _, chance in moves)
            rewards[row, action] = -(i + 2.0 * j + 20.0 * 0.01 * i + 60.0 * 0.002 * j)
        return -best_mean(transitions, rewards)


class Regulator(Simulator):
    """Two masses on a spring are held at rest by two forces against random pushes: linear, with squared costs."""

    action_space, observation_size, max_steps = Box([-np.inf] * 2, [np.inf] * 2, scale=[1.0, 1.0]), 4, LONG
    metrics_dtype = np.dtype([("cost", np.float64)])
    main_metric, main_metric_lower_is_better = "cost", True
    state_dtype = np.dtype([("x", np.float64, (4,)), ("cost", np.float64), ("steps", np.int64)])
    MOVE = np.array([[1.0, 0.1, 0.0, 0.0], [-0.1, 0.98, 0.1, 0.0], [0.0, 0.0, 1.0, 0.1], [0.1, 0.0, -0.1, 0.98]])
    PUSH = np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.0], [0.0, 0.1]])
    NOISE, EFFORT = 0.1, 0.1

    def __init__(self) -> None:
        self.parameters = Constants(self.MOVE, self.PUSH)

    @staticmethod
    def reset(state: Any, parameters: Constants, rng: np.random.Generator) -> None:
        """Begin at rest."""
        for i in range(4):
            state.x[i] = 0.0
        state.cost, state.steps = 0.0, 0

    @staticmethod
    def observe(state: Any, parameters: Constants, observation: np.ndarray) -> None:
        """Write places and speeds."""
        for i in range(4):
            observation[i] = state.x[i]

    @staticmethod
    def step(state: Any, parameters: Constants, action: np.ndarray, rng: np.random.Generator) -> tuple[float, bool]:
        """Pay, move, and be pushed."""
        cost, moved = 0.0, np.zeros(4)
        for i in range(4):
            cost += state.x[i] ** 2
            for j in range(4):
                moved[i] += parameters.first[i, j] * state.x[j]
            for j in range(2):
                moved[i] += parameters.second[i, j] * action[j]
        for j in range(2):
            cost += 0.1 * action[j] ** 2
        for i in range(4):
            state.x[i] = min(max(moved[i] + 0.1 * rng.standard_normal(), -100.0), 100.0)
        state.cost += cost
        state.steps += 1
        return -cost, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Constants, metrics: Any) -> None:
        """Write the mean cost a step."""
        metrics.cost = state.cost / max(1, state.steps)

    def optimum(self) -> float:
        """Return the lowest mean cost a step: noise times the trace of the solution of the Riccati equation."""
        riccati = solve_discrete_are(self.MOVE, self.PUSH, np.eye(4), self.EFFORT * np.eye(2))
        return float(self.NOISE**2 * np.trace(riccati))


class AssetSale(Simulator):
    """Thirty offers, one after the other, uniform between 0 and 1: take one or wait; only the sale brings a reward."""

    action_space, observation_size, max_steps = Discrete(2), 2, 30
    metrics_dtype = np.dtype([("price", np.float64)])
    main_metric = "price"
    state_dtype = np.dtype([("offer", np.float64), ("seen", np.int64), ("price", np.float64)])

    def __init__(self) -> None:
        self.parameters = NONE

    @staticmethod
    def reset(state: Any, parameters: Constants, rng: np.random.Generator) -> None:
        """See the first offer."""
        state.offer, state.seen, state.price = rng.random(), 1, 0.0

    @staticmethod
    def observe(state: Any, parameters: Constants, observation: np.ndarray) -> None:
        """Write the offer and how many there were."""
        observation[0], observation[1] = state.offer, state.seen

    @staticmethod
    def step(state: Any, parameters: Constants, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Sell, or see the next offer; the last one must be taken."""
        if action == 1 or state.seen == 30:
            state.price = state.offer
            return state.offer, True
        state.offer = rng.random()
        state.seen += 1
        return 0.0, False

    @staticmethod
    def episode_metrics(state: Any, parameters: Constants, metrics: Any) -> None:
        """Write the price."""
        metrics.price = state.price

    def optimum(self) -> float:
        """Return the largest expected price: v becomes (1 + v²) / 2 with each further offer (Moser 1956)."""
        value = 0.0
        for _ in range(30):
            value = (1.0 + value**2) / 2.0
        return value
