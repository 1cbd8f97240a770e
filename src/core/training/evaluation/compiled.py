"""Episodes of compiled simulators, played by a trained policy or by heuristics."""

from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import cache
from typing import Any

import numpy as np

from core.jit_cache.cache import cached
from core.policies.compiled.forward import new_actor_arrays
from core.policies.compiled.sampling import row_of
from core.policies.spec import PolicySpec
from core.rollout.collect_listed import build_listed_chooser
from core.rollout.episode_loop import build_heuristic_chooser, build_play, build_policy_chooser
from core.seeding import stream
from core.simulators.compile import compile_heuristic
from core.simulators.simulator import OK, Function, Simulator, describe_fault, metrics_of, naming_the_episode, new_state

Records = list[dict[str, Any]]
"""One record an episode: the return under ``"return"`` and the simulator's metrics (numbers and lists of numbers)."""

POLICIES = {"trained": True, "trained_sampled": False, "untrained": True}
"""Ways to play a policy, and whether it takes its most likely action."""


class CompiledPlayer:
    """Plays episodes of a compiled simulator; the threads change no result. The spec is the trained policy's."""

    def __init__(self, simulator: Simulator, spec: PolicySpec | None, threads: int) -> None:
        self._simulator, self._spec, self._threads = simulator, spec, threads
        self._loop = cache(self._build_loop)

    def play(
        self, name: str, actor_params: np.ndarray | None, episodes: int, seed: int, streams: str = "evaluation"
    ) -> tuple[Records, list[str]]:
        """Play episodes with a heuristic or one of ``POLICIES``, which needs actor_params: float32[*].

        Returns:
            Records of the episodes, and lines for people.

        Raises:
            SimulatorError: the simulator broke its contract.
            UserError: Numba cannot compile it.
        """
        loop, simulator = self._loop(self._plays(name)), self._simulator
        nothing = self._rows(0)

        def play_episode(episode: int) -> tuple[dict[str, Any], str | None]:
            states, total, _ = self._play_one(loop, actor_params, seed, (streams, episode, name), nothing)
            with naming_the_episode(simulator, _title(name, episode)):
                return {"return": total, **metrics_of(simulator, states)}, simulator.message(states[0])

        with ThreadPoolExecutor(self._threads) as pool:
            played = list(pool.map(play_episode, range(episodes)))
        messages = [f"{name}, episode {k}: {message}" for k, (_, message) in enumerate(played) if message]
        return [record for record, _ in played], messages

    def on(self, simulator: Simulator) -> "CompiledPlayer":
        """Return a player of another simulator with arrays of the same sizes, by the loops of this one."""
        player = copy(self)
        player._simulator = simulator
        return player

    def actions(
        self, name: str, actor_params: np.ndarray | None, episode: int, seed: int, streams: str = "evaluation"
    ) -> np.ndarray:
        """Play one of the episodes of :meth:`play` and return its actions, [steps, numbers of an action].

        Raises:
            SimulatorError: the simulator broke its contract.
            UserError: Numba cannot compile it.
        """
        rows = self._rows(self._simulator.max_steps)
        _, _, steps = self._play_one(self._loop(self._plays(name)), actor_params, seed, (streams, episode, name), rows)
        return rows[:steps]

    def _rows(self, count: int) -> np.ndarray:
        size, dtype = row_of(self._simulator.action_space)
        return np.zeros((count, size), dtype)

    def _play_one(
        self,
        loop: Function,
        actor_params: np.ndarray | None,
        seed: int,
        which: tuple[str, int, str],
        actions: np.ndarray,
    ) -> tuple[np.ndarray, float, int]:
        """Play an episode of (streams, episode, policy); return the state at its end, its return and its steps."""
        simulator, (streams, episode, name) = self._simulator, which
        states = new_state(simulator)
        rngs = stream(seed, streams, episode), stream(seed, f"{streams} policy", episode)
        actor = None
        if actor_params is not None and self._spec is not None:
            actor = new_actor_arrays(actor_params, self._spec, POLICIES.get(name, True))
        with naming_the_episode(simulator, _title(name, episode)):
            steps, total, status = loop(states, simulator.parameters, actor, *rngs, actions)
        if status != OK:
            raise describe_fault(status, simulator, _title(name, episode), steps)
        return states, total, steps

    def _plays(self, name: str) -> str:
        """Return the name of the loop that plays a policy: all ways to play the trained one share a loop."""
        return "trained" if self._spec is not None and name in POLICIES else name

    def _build_loop(self, name: str) -> Function:
        if self._spec is not None and name in POLICIES:
            listed = self._spec.scores_actions
            choose = build_listed_chooser(self._simulator, self._spec) if listed else build_policy_chooser(self._spec)
        else:
            compile_heuristic(self._simulator, name)
            choose = build_heuristic_chooser(self._simulator.action_space, self._simulator.heuristics[name])
        return cached(build_play(self._simulator, choose))


def _title(name: str, episode: int) -> str:
    return f"{episode} of the evaluation of {name}"
