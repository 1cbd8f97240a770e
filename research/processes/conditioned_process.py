"""A process whose objective changes during an episode: a policy sees the weight and learns a front in one training.

The simulator holds the parameters of one ``ProcessSimulator`` for each of several weights of the second quantity. An
episode is split into windows of equal length, and each window draws one of the weights. All that follows from a weight
comes from its own parameters: reward, action features, and the logits of the policy prior as a further action feature
with the weight 1. So an untrained policy plays every weight like an untrained policy of that weight alone.

Rewards of small and large weights differ in level and size. So each weight's own mean reward for a time unit is
subtracted from its rewards, and they are divided by the spread of its returns, both of a rule. What is subtracted adds
up to the same in each episode, whatever a policy does.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit

from longstride.learning.algorithms.interface import RolloutBatch, Targets
from longstride.learning.algorithms.ppo import Ppo
from longstride.process.front.pair import Pair
from longstride.process.kernel import dynamics
from longstride.process.kernel.counter_rng import child, uniform
from longstride.process.scenario.scenario import Scenario
from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream
from longstride.simulators.hooks import Hooks
from longstride.simulators.simulator import Simulator, compile_functions, compiled, new_state

WEIGHT_STREAM = 2**40

_mask, _step, _observe = (compiled(getattr(ProcessSimulator, n)) for n in ("action_mask", "step", "observe"))
_features, _truncated = (compiled(getattr(ProcessSimulator, n)) for n in ("action_features", "truncated"))
_control_variate = compiled(ProcessSimulator.control_variate)


class Parameters(NamedTuple):
    """Parameters of K weights, P pairs and L inputs."""

    each: np.ndarray  # record[K], parameters of a process
    inputs: np.ndarray  # float64[K, L], what a policy sees of the weight
    rate: np.ndarray  # float64[K], subtracted from the rewards for each time unit
    scale: np.ndarray  # float64[K], factor of the rewards then
    logits: np.ndarray  # float64[K, P + 1], logits of the prior less those in the policy's biases
    window: float  # time between two draws of the weight


class WholeEpisodes(Hooks):
    """As those of a process: cut episodes leave out the cases that take long."""

    whole_episodes = True


class Conditioned(Simulator):
    """A process with one of several weights in each window of an episode.

    Args:
        scenario: process.
        pair: metrics, and the quantities that the objective weighs.
        weights: weights of the second quantity.
        inputs: float64[K, L], what a policy sees of each of them.
        centre: weight whose prior the biases of an untrained policy have.
        rewards: for each weight what is subtracted for a time unit, and the factor; None for 0 and 1.
        windows: number of windows of an episode.
        prior: prior of an untrained policy.
    """

    hooks = WholeEpisodes()

    def __init__(
        self,
        scenario: Scenario,
        pair: Pair,
        weights: Sequence[float],
        inputs: np.ndarray,
        centre: float,
        rewards: Sequence[tuple[float, float]] | None = None,
        windows: int = 1,
        prior: str = "rule",
    ) -> None:
        middle, *each = (ProcessSimulator(pair.on(scenario, weight), prior) for weight in (centre, *weights))
        records = np.zeros(len(each), middle.parameters.dtype).view(np.recarray)
        for k, simulator in enumerate(each):
            records[k] = simulator.parameters
        logits = np.array([simulator.initial_logits - middle.initial_logits for simulator in each], np.float64)
        rate, factor = np.array(rewards or [(0.0, 1.0)] * len(each)).T.copy()
        window = scenario.horizon.value / windows
        self.parameters = Parameters(records, np.asarray(inputs, np.float64), rate, factor, logits, window)
        self.observation_size = middle.observation_size + self.parameters.inputs.shape[1]
        self.action_space, self.max_steps = middle.action_space, middle.max_steps
        self.state_dtype = np.dtype(
            [(name, middle.state_dtype[name]) for name in middle.state_dtype.names] + [("which", np.int64)]
        )
        self.initial_logits = middle.initial_logits
        self.initial_feature_weights = np.append(middle.initial_feature_weights, 1.0).astype(np.float32)
        self.action_feature_size = len(self.initial_feature_weights)
        self.mean_interval, self.expected_steps = middle.mean_interval, middle.expected_steps
        self.metrics_dtype, self._process = middle.metrics_dtype, middle

    @staticmethod
    def reset(state: Any, p: Parameters, rng: np.random.Generator) -> None:
        """Begin an episode with the random streams of the process, and draw the first weight."""
        dynamics.start(state, p.each[0], rng)
        state.which = draw_weight(state, p)

    @staticmethod
    def observe(state: Any, p: Parameters, observation: np.ndarray) -> None:
        """Write what a policy of one weight sees, then the inputs of the weight."""
        own = len(observation) - p.inputs.shape[1]
        _observe(state, p.each[state.which], observation[:own])
        for i in range(p.inputs.shape[1]):
            observation[own + i] = p.inputs[state.which, i]

    @staticmethod
    def action_mask(state: Any, p: Parameters, mask: np.ndarray) -> None:
        """Write the mask of the process."""
        _mask(state, p.each[state.which], mask)

    @staticmethod
    def action_features(state: Any, p: Parameters, mask: np.ndarray, features: np.ndarray) -> None:
        """Write the features of the process, then the logits of the prior."""
        own = features.shape[1] - 1
        _features(state, p.each[state.which], mask, features[:, :own])
        for action in range(len(mask)):
            if mask[action]:
                features[action, own] = p.logits[state.which, action]

    @staticmethod
    def step(state: Any, p: Parameters, action: int, rng: np.random.Generator) -> tuple[float, bool]:
        """Decide, with the reward of the present weight; a new window draws another one."""
        before, which = state.time, state.which
        reward, terminated = _step(state, p.each[which], action, rng)
        if int(state.time / p.window) != int(before / p.window):
            state.which = draw_weight(state, p)
        return (reward - p.rate[which] * (state.time - before)) * p.scale[which], terminated

    @staticmethod
    def truncated(state: Any, p: Parameters) -> bool:
        """Whether the horizon or a capacity is reached."""
        return _truncated(state, p.each[0])

    @staticmethod
    def time(state: Any, p: Parameters) -> float:
        """Return the simulated time."""
        return state.time  # type: ignore[no-any-return]

    @staticmethod
    def control_variate(state: Any, p: Parameters) -> float:
        """Return arrivals in excess of those expected, which no weight changes."""
        return _control_variate(state, p.each[0])  # type: ignore[no-any-return]

    @staticmethod
    def episode_metrics(state: Any, p: Parameters, metrics: Any) -> None:
        """Fill the metrics of the process; its objective is that of the last weight."""
        ProcessSimulator.episode_metrics(state, p.each[int(state.which)], metrics)

    def message(self, state: Any) -> str | None:
        """Return a sentence about the capacity that ended an episode, or None."""
        return self._process.message(state)


@njit(nogil=True)
def draw_weight(state, p):  # type: ignore[no-untyped-def]
    """Return the number of the weight of the window of the present time."""
    window = int(state.time / p.window)
    return int(uniform(child(child(state.seed, WEIGHT_STREAM), window)) * len(p.scale))


def level_and_spread(simulator: ProcessSimulator, rule: str, gamma: float, seed: int = 0) -> tuple[float, float]:
    """Return the mean reward of a rule for a time unit, and the standard deviation of its discounted returns then."""
    functions, choose = compile_functions(simulator), compiled(simulator.heuristics[rule])
    reset, step, mask_of, is_over = functions.reset, functions.step, functions.action_mask, functions.truncated

    @njit
    def play(state, p, rng, rewards, times, mask):  # type: ignore[no-untyped-def]
        reset(state, p, rng)
        steps = 0
        while steps < len(rewards) and not is_over(state, p):
            mask[:] = True
            mask_of(state, p, mask)
            before = state.time
            rewards[steps], _ = step(state, p, choose(state, p, mask, rng), rng)
            times[steps] = state.time - before
            steps += 1
        return steps

    (rewards, times), mask = np.zeros((2, simulator.max_steps)), np.ones(simulator.action_space.n, np.bool_)
    steps = play(new_state(simulator)[0], simulator.parameters, stream(seed, "scale"), rewards, times, mask)
    rate = float(rewards.sum() / times.sum())
    returns, total = np.zeros(steps), 0.0
    for i in range(steps - 1, -1, -1):
        total = rewards[i] - rate * times[i] + gamma * total
        returns[i] = total
    return rate, float(returns.std())


class PerWeight(Ppo):
    """PPO whose advantages are standardised for each weight by itself; ``inputs`` are the last of an observation."""

    inputs: ClassVar[int] = 1

    def targets(
        self, rollout: RolloutBatch, values: Sequence[np.ndarray], next_values: Sequence[np.ndarray]
    ) -> Targets:
        """Return those of PPO, with advantages of mean 0 and deviation 1 among the steps of each weight."""
        found = super().targets(rollout, values, next_values)
        seen = np.concatenate([t.observations[: t.steps, -self.inputs :] for t in rollout.trajectories])
        _, kinds = np.unique(seen, axis=0, return_inverse=True)
        advantages = found.advantages.copy()
        for kind in range(kinds.max() + 1):
            of_kind = kinds.ravel() == kind
            own = advantages[of_kind]
            advantages[of_kind] = (own - own.mean()) / max(float(own.std()), 1e-6)
        return found._replace(advantages=advantages)
