"""Episodes of compiled simulators, played by a trained policy or by heuristics."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from core.jit_cache.cache import cached
from core.policies.compiled.forward import new_actor_arrays
from core.policies.spec import PolicySpec
from core.rollout.episode_loop import build_heuristic_chooser, build_play, build_policy_chooser
from core.seeding import stream
from core.simulators.compile import compile_heuristic
from core.simulators.simulator import OK, Function, Simulator, describe_fault, metrics_of, naming_the_episode, new_state

Records = list[dict[str, Any]]
"""One record an episode: the return under ``"return"`` and the simulator's metrics (numbers and lists of numbers)."""

POLICIES = {"trained": True, "trained_sampled": False}
"""Ways to play a trained policy, and whether it takes its most likely action."""


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
        loop, simulator = self._loop(name), self._simulator

        def play_episode(episode: int) -> tuple[dict[str, Any], str | None]:
            states = new_state(simulator)
            rngs = stream(seed, streams, episode), stream(seed, f"{streams} policy", episode)
            actor = None if actor_params is None or self._spec is None else new_actor_arrays(actor_params, self._spec)
            title = f"{episode} of the evaluation of {name}"
            with naming_the_episode(simulator, title):
                steps, total, status = loop(states, simulator.parameters, actor, *rngs)
            if status != OK:
                raise describe_fault(status, simulator, title, steps)
            with naming_the_episode(simulator, title):
                return {"return": total, **metrics_of(simulator, states)}, simulator.message(states[0])

        with ThreadPoolExecutor(self._threads) as pool:
            played = list(pool.map(play_episode, range(episodes)))
        messages = [f"{name}, episode {k}: {message}" for k, (_, message) in enumerate(played) if message]
        return [record for record, _ in played], messages

    def _build_loop(self, name: str) -> Function:
        if self._spec is not None and name in POLICIES:
            choose = build_policy_chooser(self._spec, greedy=POLICIES[name])
        else:
            compile_heuristic(self._simulator, name)
            choose = build_heuristic_chooser(self._simulator.action_space, self._simulator.heuristics[name])
        return cached(build_play(self._simulator, choose))
