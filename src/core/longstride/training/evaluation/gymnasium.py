"""Episodes of a Gymnasium environment, played by a trained policy or by heuristics."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from longstride.policies.compiled.forward import new_policy_states
from longstride.policies.make_spec import spec_for
from longstride.policies.spec import PolicySpec
from longstride.rollout.single_step_policy import build_step_policy
from longstride.rollout.trajectory import allocate
from longstride.seeding import stream
from longstride.simulators.gym.open_environment import OpenEnvironment, seed_of
from longstride.simulators.simulator import OK, Simulator
from longstride.training.evaluation.compiled import POLICIES, Played, Records


class GymnasiumPlayer:
    """Plays episodes of a Gymnasium environment in one that stays open. The spec is the trained policy's."""

    def __init__(self, simulator: Simulator, spec: PolicySpec | None) -> None:
        self._simulator, self._environment = simulator, OpenEnvironment(simulator)
        self._rows = allocate(spec or spec_for(simulator, (), (), "tanh"), 1)
        self._spec, self._policy = spec, build_step_policy(spec) if spec else None

    def play(
        self, name: str, actor_params: np.ndarray | None, episodes: int, seed: int, streams: str = "evaluation"
    ) -> tuple[Records, list[str]]:
        """Play episodes with one policy, as :meth:`CompiledPlayer.play` does.

        Raises:
            SimulatorError: the environment failed or returned invalid values.
        """
        longest = self._environment.longest_of(episodes)
        played = self.play_each(name, actor_params, range(episodes), seed, streams, longest)
        stopped, environment = sum(each.message is not None for each in played), self._environment.name
        message = (
            f"{stopped} of {episodes} episodes of {name} were stopped after {longest:,} steps and count up to there: "
            f"{environment} has no time limit (--simulator-option max_episode_steps=N sets one)."
        )
        return [each.record for each in played], [message] if stopped else []

    def play_each(
        self,
        name: str,
        actor_params: np.ndarray | None,
        episodes: Iterable[int],
        seed: int,
        streams: str,
        longest: int = 0,
    ) -> list[Played]:
        """Play some of the episodes of :meth:`play`, by their numbers, of at most ``longest`` steps, if it is not 0."""
        played, longest = [], longest or self._simulator.max_steps
        for episode in episodes:
            title, rng = f"{episode} of the evaluation of {name}", stream(seed, f"{streams} policy", episode)
            self._environment.begin(seed_of(stream(seed, streams, episode)), title)
            record, ended = self._play_episode(self._build_choose(name, actor_params, rng), longest)
            played.append(Played(record, record["length"], None if ended else f"stopped after {longest:,} steps"))
        return played

    def _play_episode(self, choose: Callable[[], np.ndarray], longest: int) -> tuple[dict[str, Any], bool]:
        """Play an episode that has begun; return its record and whether it ended within its longest length."""
        environment, rows, total, ended = self._environment, self._rows, 0.0, False
        rows.masks[0] = True
        while not ended and environment.steps < longest:
            environment.observe(rows.observations[0])
            if environment.masked:
                environment.read_mask(rows.masks[0])
            reward, terminated, truncated = environment.step(choose())
            total, ended = total + reward, terminated or truncated
        return {"return": total, "length": environment.steps}, ended

    def _build_choose(
        self, name: str, actor_params: np.ndarray | None, rng: np.random.Generator
    ) -> Callable[[], np.ndarray]:
        """Return a function that returns the action for the observation and mask in row 0."""
        simulator, rows = self._simulator, self._rows
        if self._spec is None or self._policy is None or actor_params is None:
            heuristic = simulator.heuristics[name]
            return lambda: np.asarray(heuristic(simulator.action_space, rows.masks[0], rng))
        slot = self._policy.new_slot(actor_params, rng, rows, new_policy_states(self._spec, 1)[0])
        act = self._policy.greedy if POLICIES[name] else self._policy.sample

        def choose() -> np.ndarray:
            status = act(slot.handle, 0)
            if status != OK:
                self._environment.fail(status)
            return np.asarray(slot.actions[0])

        return choose
