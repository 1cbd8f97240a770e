"""Small simulators for the tests: a shop with every optional part of the contract, a bandit, one that is faulty."""

from typing import ClassVar, NamedTuple

import numpy as np

from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete


class ShopParameters(NamedTuple):
    """Prices of a shop; `days` is where its episodes are cut."""

    price: float
    holding: float
    days: int


class Shop(Simulator):
    """Order 0 .. 3 items a day, as many as the shelf of 6 holds; broke is terminated, the last day is truncated.

    Its clock is irregular and its demand has a control variate.
    """

    observation_size = 4
    action_space = Discrete(4)
    max_steps = 40
    state_dtype = np.dtype(
        [
            ("stock", np.int64),
            ("day", np.int64),
            ("clock", np.float64),
            ("cash", np.float64),
            ("demand", np.int64),
            ("sold", np.int64),
            ("wanted", np.int64),
        ]
    )
    metrics_dtype = np.dtype([("cash", np.float64), ("days", np.int64), ("sold_by_kind", np.float64, (2,))])
    parameters = ShopParameters(price=1.5, holding=0.1, days=30)
    mean_interval = 1.25
    action_feature_size = 2
    initial_feature_weights = np.array([0.5, -0.25])
    main_metric = "cash"

    def reset(state, parameters, rng):
        """Start with 1 .. 3 items and some cash."""
        state.stock = 1 + int(rng.random() * 3)
        state.day = 0
        state.clock = 0.0
        state.cash = 1.5
        state.demand = 0
        state.sold = 0
        state.wanted = 0

    def observe(state, parameters, observation):
        """Write stock, cash, an indicator of weekend and the last demand."""
        observation[0] = state.stock
        observation[1] = 0.1 * state.cash
        observation[2] = 1.0 if state.day % 7 >= 5 else 0.0
        observation[3] = 0.5 * state.demand - 1.0

    def action_mask(state, parameters, mask):
        """Forbid orders that the shelf cannot hold."""
        for order in range(4):
            mask[order] = state.stock + order <= 6

    def action_features(state, parameters, mask, features):
        """Write the stock after an order and, where it is allowed and not 0, a figure of the order alone."""
        for order in range(4):
            features[order, 0] = 0.3 * (state.stock + order - 3)
            if mask[order] and order > 0:
                features[order, 1] = 1.0 / order

    def step(state, parameters, action, rng):
        """Buy, let customers come, pay for what stays and the rent."""
        demand = int(rng.random() * 5)
        stock = state.stock + action
        sold = min(stock, demand)
        reward = parameters.price * sold - 1.0 * action - parameters.holding * (stock - sold) - 0.2
        state.stock = stock - sold
        state.demand = demand
        state.cash += reward
        state.sold += sold
        state.wanted += demand
        state.day += 1
        state.clock += 0.5 + 1.5 * rng.random()
        return reward, state.cash < 0.0

    def truncated(state, parameters):
        """Cut after the last day."""
        return state.day >= parameters.days

    def control_variate(state, parameters):
        """Return how much more was wanted than the mean of 2 a day."""
        return state.wanted - 2.0 * state.day

    def time(state, parameters):
        """Return the clock."""
        return state.clock

    def episode_metrics(state, parameters, metrics):
        """Fill the metrics."""
        metrics.cash = state.cash
        metrics.days = state.day
        metrics.sold_by_kind[0] = state.sold
        metrics.sold_by_kind[1] = state.wanted - state.sold

    def order_nothing(state, parameters, mask, rng):
        """Never order."""
        return 0

    def order_up(state, parameters, mask, rng):
        """Order up to four items."""
        return min(max(4 - state.stock, 0), 3)

    def order_at_random(state, parameters, mask, rng):
        """Order some number that the shelf holds."""
        action = int(rng.random() * 4)
        while not mask[action]:
            action -= 1
        return action

    def sell_everything(state, parameters, metrics):
        """Bound: more than 4 items a day can never be sold."""
        metrics.cash = state.cash + 4 * parameters.days * (parameters.price - 1.0) + 6

    heuristics: ClassVar = {"order_nothing": order_nothing, "order_up": order_up, "order_at_random": order_at_random}
    bounds: ClassVar = {"upper_bound": sell_everything}


class Bandit(Simulator):
    """Four contexts, shown as one-hot; the right one of four actions earns 1, every third time two are forbidden.

    The best policy earns 1 at every step. No clock, no metrics, cut by `max_steps`.
    """

    observation_size = 5
    action_space = Discrete(4)
    max_steps = 256
    state_dtype = np.dtype([("context", np.int64), ("count", np.int64), ("noise", np.float64)])

    def reset(state, parameters, rng):
        """Draw the first context."""
        state.context = int(rng.random() * 4)
        state.count = 0
        state.noise = rng.random()

    def observe(state, parameters, observation):
        """Write the context as one-hot, and noise."""
        observation[:] = 0.0
        observation[state.context] = 1.0
        observation[4] = 30.0 * state.noise

    def action_mask(state, parameters, mask):
        """Forbid the two actions after the right one every third time."""
        if state.count % 3 == 0:
            mask[(state.context + 1) % 4] = False
            mask[(state.context + 2) % 4] = False

    def step(state, parameters, action, rng):
        """Pay for the right action and draw the next context."""
        reward = 1.0 if action == state.context else 0.0
        state.context = int(rng.random() * 4)
        state.count += 1
        state.noise = rng.random()
        return reward, False

    def right(state, parameters, mask, rng):
        """Choose the right action."""
        return state.context

    heuristics: ClassVar = {"right": right}


class Choices(Simulator):
    """Three choices at once, each right or wrong by a context of its own; all three right earns 1, each wrong one -1/3.

    The best policy earns 1 at every step. Every third time the values beside the right ones are forbidden.
    """

    observation_size = 9
    action_space = MultiDiscrete([3, 2, 4])
    max_steps = 200
    state_dtype = np.dtype([("right", np.int64, (3,)), ("count", np.int64)])
    parameters = np.array([3, 2, 4])

    def reset(state, parameters, rng):
        """Draw what is right."""
        for i in range(3):
            state.right[i] = int(rng.random() * parameters[i])
        state.count = 0

    def observe(state, parameters, observation):
        """Write what is right, each as one-hot."""
        begin = 0
        for i in range(3):
            observation[begin + state.right[i]] = 1.0
            begin += parameters[i]

    def action_mask(state, parameters, mask):
        """Forbid the value after the right one of the first and of the last choice every third time."""
        if state.count % 3 == 0:
            mask[(state.right[0] + 1) % 3] = False
            mask[5 + (state.right[2] + 1) % 4] = False

    def step(state, parameters, action, rng):
        """Pay for right values, draw new ones, and spoil the action, which must not be recorded."""
        reward = 1.0
        for i in range(3):
            if action[i] != state.right[i]:
                reward -= 1.0 / 3.0
            state.right[i] = int(rng.random() * parameters[i])
            action[i] = 77
        state.count += 1
        return reward, False

    def right(state, parameters, mask, rng, action):
        """Choose what is right."""
        for i in range(3):
            action[i] = state.right[i]

    def forbidden(state, parameters, mask, rng, action):
        """Choose a value that the mask forbids at the first step."""
        action[2] = (state.right[2] + 1) % 4

    heuristics: ClassVar = {"right": right, "forbidden": forbidden}


class Tracker(Simulator):
    """Follow a target that depends on the observation linearly; the cost is the squared distance.

    The best policy earns 0 at every step, by action = target. Past actions move the observation a little.
    """

    observation_size = 2
    action_space = Box([-1.5, -np.inf], [1.5, np.inf], scale=[1.5, 1.0])
    max_steps = 200
    state_dtype = np.dtype([("x", np.float64, (2,)), ("moved", np.float64), ("largest", np.float64)])

    def reset(state, parameters, rng):
        """Draw the first observation."""
        state.x[0] = 2.0 * rng.random() - 1.0
        state.x[1] = 2.0 * rng.random() - 1.0
        state.moved = 0.0
        state.largest = 0.0

    def observe(state, parameters, observation):
        """Write the observation."""
        observation[0] = state.x[0]
        observation[1] = state.x[1]

    def step(state, parameters, action, rng):
        """Pay the squared distances of the action from x0 and from (x0 + x1) / 2, and spoil the action."""
        first = action[0] - state.x[0]
        second = action[1] - 0.5 * (state.x[0] + state.x[1])
        state.largest = max(state.largest, abs(action[0]))
        state.moved = 0.5 * state.moved + 0.01 * action[1]
        action[0] = 77.0
        state.x[0] = 2.0 * rng.random() - 1.0
        state.x[1] = 2.0 * rng.random() - 1.0 + 0.1 * state.moved
        return -(first * first + second * second), False

    def right(state, parameters, mask, rng, action):
        """Choose the target."""
        action[0] = state.x[0]
        action[1] = 0.5 * (state.x[0] + state.x[1])

    def far(state, parameters, mask, rng, action):
        """Choose beyond a bound."""
        action[0] = 100.0

    def nothing(state, parameters, mask, rng, action):
        """Choose what is no number."""
        action[1] = np.nan

    heuristics: ClassVar = {"right": right, "far": far, "nothing": nothing}


class Squashed(Tracker):
    """The same with draws that tanh maps onto bounds of different widths."""

    action_space = Box([-1.5, -2.0], [1.5, 1.0], squashed=True)


class SmallBandit(Bandit):
    """The same of another size of observation and description."""

    observation_size = 6


class Forgetful(Bandit):
    """Writes one entry of its observation and relies on the others being zero."""

    def observe(state, parameters, observation):
        """Write the one, not the zeros."""
        observation[state.context] = 1.0


class Unfilled(Bandit):
    """Leaves a metric unfilled in the episodes whose last context is 0, as a mean over nothing would be."""

    metrics_dtype = np.dtype([("last", np.float64)])
    max_steps = 8

    def episode_metrics(state, parameters, metrics):
        """Fill the metric if there is something to say."""
        if state.context != 0:
            metrics.last = state.context


NO_FAULT, NAN_OBSERVATION, LONG_OBSERVATION, NO_ACTION, NAN_REWARD = range(5)


class FaultParameters(NamedTuple):
    """What goes wrong, and at which step."""

    fault: int
    step: int


class Faulty(Simulator):
    """Keeps the contract until the step that its parameters name."""

    observation_size = 2
    action_space = Discrete(2)
    max_steps = 12
    state_dtype = np.dtype([("count", np.int64)])
    parameters = FaultParameters(NO_FAULT, 0)

    def reset(state, parameters, rng):
        """Start."""
        state.count = 0

    def observe(state, parameters, observation):
        """Write a NaN or one number too many when its time has come."""
        now = state.count == parameters.step
        observation[0] = np.nan if now and parameters.fault == 1 else 0.5
        observation[1] = state.count
        if now and parameters.fault == 2:
            observation[2] = 1.0

    def action_mask(state, parameters, mask):
        """Forbid everything when its time has come."""
        if state.count == parameters.step and parameters.fault == 3:
            mask[:] = False

    def step(state, parameters, action, rng):
        """Return a NaN when its time has come."""
        reward = np.nan if state.count == parameters.step and parameters.fault == 4 else 1.0
        state.count += 1
        return reward, False


class Errors(Simulator):
    """One of four actions is right in each of four states; another one may end the episode, which never ends else."""

    observation_size, action_space, max_steps, expected_steps = 4, Discrete(4), 20_000, 50
    state_dtype = np.dtype([("kind", np.int64)])

    def reset(state, parameters, rng):
        state.kind = int(4 * rng.random())

    def observe(state, parameters, observation):
        observation[:] = 0.0
        observation[state.kind] = 1.0

    def step(state, parameters, action, rng):
        ends = action != (state.kind + 1) % 4 and rng.random() < 0.1
        state.kind = int(4 * rng.random())
        return 1.0, ends
