"""Policies side by side in a Gymnasium environment, on the same seeds.

What :mod:`core.training.evaluation` is for compiled simulators.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from core.rollout.acting import Seat, build_acting
from core.rollout.trajectory import Trajectory, allocate
from core.seeding import stream
from core.simulators.gymnasium_bridge import GymnasiumSimulator, OpenEnvironment, seed_of
from core.simulators.simulator import OK, Function
from core.training.evaluation import Evaluation, TrainedPolicy

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
    environment = OpenEnvironment(simulator)
    rows = allocate(1, simulator.observation_size, simulator.action_space)
    acting = build_acting(simulator.action_space, trained.sizes, trained.activation) if trained else None
    evaluation = Evaluation(episodes)
    for name in [*(("trained", "trained_sampled") if trained else ()), *names]:
        progress(name)
        records = evaluation.records[name] = []
        for episode in range(episodes):
            where, rng = f"{episode} of the evaluation of {name}", stream(seed, "evaluation policy", episode)
            environment.begin(seed_of(stream(seed, "evaluation", episode)), where)
            if acting is not None and trained is not None and name not in names:
                seat = acting.new_seat(trained.weights, rng, rows)
                decide = _policy(environment, seat, acting.greedy if name == "trained" else acting.sample)
            else:
                decide = _heuristic(simulator, name, rows.masks[0], rng)
            record, ended = _play(environment, decide, rows, simulator.max_steps)
            records.append(record)
            if not ended:
                evaluation.messages.append(
                    f"Episode {where} was stopped after {environment.steps:,} decisions and counts up to there: "
                    f"{simulator.name} has no time limit (--simulator-option max_episode_steps=N sets one)."
                )
    return evaluation


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


def _policy(environment: OpenEnvironment, seat: Seat, act: Function) -> Decide:
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
