"""Policies side by side in a Gymnasium environment, on the same seeds.

What :mod:`core.training.evaluation.evaluate` is for compiled simulators.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from core.policies.compiled.forward import new_policy_states
from core.policies.spec import PolicySpec
from core.rollout.single_step_policy import PolicySlot, build_step_policy
from core.rollout.trajectory import Trajectory, allocate
from core.seeding import stream
from core.simulators.gym.adapter import GymnasiumSimulator, OpenEnvironment, seed_of
from core.simulators.simulator import OK, Function
from core.training.evaluation.evaluate import Evaluation, Records, TrainedPolicy

Decide = Callable[[], np.ndarray]
"""Returns the action for the observation and mask in row 0."""


def evaluate_environment(
    simulator: GymnasiumSimulator,
    names: Sequence[str],
    trained: TrainedPolicy | None,
    episodes: int,
    seed: int,
    progress: Callable[[str], None],
) -> Evaluation:
    """Play episodes with each policy, one after another in one environment.

    Args:
        simulator: the environment.
        names: of its heuristics to play.
        trained: played greedily as ``trained`` and by sampling as ``trained_sampled``; None for heuristics alone.
        episodes: episodes of each policy.
        seed: names the random streams, apart from those of training.
        progress: called with the name of each policy before it plays.

    Raises:
        SimulatorError: the environment failed or returned what it should not.
    """
    stage = GymEvaluator(simulator, trained.spec) if trained else GymEvaluator(simulator)
    evaluation = Evaluation(episodes)
    for name in [*(("trained", "trained_sampled") if trained else ()), *names]:
        progress(name)
        weights = trained.weights if trained and name not in names else None
        records, messages = stage.play(name, weights, episodes, seed)
        evaluation.records[name] = records
        evaluation.messages += messages
    return evaluation


class GymEvaluator:
    """An open environment, and a policy that is compiled for it, to play with again and again.

    Args:
        simulator: the environment.
        spec: architecture of the policy; None for heuristics alone.
    """

    def __init__(self, simulator: GymnasiumSimulator, spec: PolicySpec | None = None) -> None:
        self._simulator, self._environment = simulator, OpenEnvironment(simulator)
        self._rows = allocate(1, simulator.observation_size, simulator.action_space)
        self._spec, self._acting = spec, build_step_policy(spec) if spec else None

    def play(
        self, name: str, weights: np.ndarray | None, episodes: int, seed: int, streams_of: str = "evaluation"
    ) -> tuple[Records, list[str]]:
        """Play episodes with one policy.

        Args:
            name: of a heuristic; or ``"trained"``, which plays greedily, or ``"trained_sampled"``.
            weights: of the trained policy; None of a heuristic.
            episodes: how many.
            seed: names the random streams.
            streams_of: names them too.

        Returns:
            Their records, and what users should read.
        """
        records, messages = [], []
        for episode in range(episodes):
            where, rng = f"{episode} of the evaluation of {name}", stream(seed, f"{streams_of} policy", episode)
            self._environment.begin(seed_of(stream(seed, streams_of, episode)), where)
            decide = self._decide(name, weights, rng)
            record, ended = _play(self._environment, decide, self._rows, self._simulator.max_steps)
            records.append(record)
            if not ended:
                messages.append(
                    f"Episode {where} was stopped after {self._environment.steps:,} decisions and counts up to there: "
                    f"{self._simulator.name} has no time limit (--simulator-option max_episode_steps=N sets one)."
                )
        return records, messages

    def _decide(self, name: str, weights: np.ndarray | None, rng: np.random.Generator) -> Decide:
        if self._acting is None or self._spec is None or weights is None:
            return _heuristic(self._simulator, name, self._rows.masks[0], rng)
        seat = self._acting.new_slot(weights, rng, self._rows, new_policy_states(self._spec, 1)[0])
        return _policy(self._environment, seat, self._acting.greedy if name == "trained" else self._acting.sample)


def _play(environment: OpenEnvironment, decide: Decide, rows: Trajectory, longest: int) -> tuple[dict[str, Any], bool]:
    """Play an episode that has begun; return its record and whether it ended. Observation and mask go to row 0."""
    total, ended = 0.0, False
    rows.masks[0] = True
    while not ended and environment.steps < longest:
        environment.look(rows.observations[0])
        if environment.masked:
            environment.look_at_mask(rows.masks[0])
        reward, terminated, truncated = environment.step(decide())
        total, ended = total + reward, terminated or truncated
    return {"return": total, "length": environment.steps}, ended


def _policy(environment: OpenEnvironment, seat: PolicySlot, act: Function) -> Decide:
    def decide() -> np.ndarray:
        status = act(seat.handle, 0)
        if status != OK:
            environment.fail(status)
        return np.asarray(seat.actions[0])

    return decide


def _heuristic(simulator: GymnasiumSimulator, name: str, mask: np.ndarray, rng: np.random.Generator) -> Decide:
    def decide() -> np.ndarray:
        return np.asarray(simulator.heuristics[name](simulator.action_space, mask, rng))

    return decide
