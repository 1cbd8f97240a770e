"""Episodes of compiled simulators, played by a trained policy or by heuristics."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from longstride.errors import PLAYING
from longstride.jit_cache.cache import cached
from longstride.policies.compiled.forward import new_actor_arrays
from longstride.policies.spec import PolicySpec
from longstride.rollout.collect_listed import build_listed_chooser
from longstride.rollout.episode_loop import (
    EpisodeArrays,
    build_heuristic_chooser,
    build_play,
    build_policy_chooser,
    new_episode_arrays,
)
from longstride.seeding import stream
from longstride.simulators.compile import compile_heuristic
from longstride.simulators.compile_errors import naming_the_episode
from longstride.simulators.simulator import (
    OK,
    Function,
    Simulator,
    compiled,
    describe_fault,
    metrics_of,
    new_state,
)

S = TypeVar("S")
T = TypeVar("T")

Records = list[dict[str, Any]]
"""One record an episode: the return under ``"return"`` and the simulator's metrics (numbers and lists of numbers)."""

POLICIES = {"trained": True, "trained_sampled": False, "untrained": True}
"""Ways to play a policy, and whether it takes its most likely action."""


class Length(NamedTuple):
    """About how many steps some episodes are to make together, and the least and most episodes."""

    steps: int
    least: int
    most: int


class Played(NamedTuple):
    """An episode that was played."""

    record: dict[str, Any]  # return and metrics
    steps: int  # environment steps
    message: str | None = None  # sentence for people


class CompiledPlayer:
    """Plays episodes of a compiled simulator; the threads change no result. The spec is the trained policy's.

    Heuristics that are named here share a loop, which is compiled with the first of them.
    """

    def __init__(
        self, simulator: Simulator, spec: PolicySpec | None, threads: int, heuristics: Sequence[str] = ()
    ) -> None:
        self._simulator, self._spec, self._threads = simulator, spec, threads
        self._loop, self._named = cache(self._build_loop), tuple(heuristics)
        self._together = cache(self._find_together)

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
        played = self.play_each(name, actor_params, range(episodes), seed, streams)
        messages = [f"{name}, episode {k}: {each.message}" for k, each in enumerate(played) if each.message]
        return [each.record for each in played], messages

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
        loop, simulator = self._loop_of(name), self._simulator

        def play_episode(episode: int) -> Played:
            states, which = new_state(simulator), (streams, episode, name)
            total, steps, _ = self._play_one(loop, states, actor_params, seed, which, longest=longest)
            with naming_the_episode(simulator, _title(name, episode)):
                record = {"return": total, **metrics_of(simulator, states)}
                return Played(record, steps, simulator.message(states[0]))

        return _in_threads(self._threads, play_episode, episodes)

    def play_from(
        self, name: str, actor_params: np.ndarray, starts: np.ndarray, steps: int, seed: int, streams: str, first: int
    ) -> list[Played]:
        """Play from some states, ``state_dtype``[n], for so many steps or to the end; records have the return alone.

        The random streams are numbered from ``first`` on. A policy with memory begins without any.
        """
        loop = self._loop_of(name)

        def play_excursion(number: int) -> Played:
            states, which = new_state(self._simulator), (streams, first + number, name)
            states[0] = starts[number]
            total, played, _ = self._play_one(loop, states, actor_params, seed, which, excursion=steps)
            return Played({"return": total}, played)

        return _in_threads(self._threads, play_excursion, range(len(starts)))

    def actions(
        self, name: str, actor_params: np.ndarray | None, episode: int, seed: int, streams: str = "evaluation"
    ) -> np.ndarray:
        """Play one of the episodes of :meth:`play` and return its actions, [steps, numbers of an action].

        Raises:
            SimulatorError: the simulator broke its contract.
            UserError: Numba cannot compile it.
        """
        loop, states, most = self._loop_of(name), new_state(self._simulator), self._simulator.max_steps
        _, steps, arrays = self._play_one(loop, states, actor_params, seed, (streams, episode, name), most)
        return arrays.actions[:steps]

    def _play_one(
        self,
        loop: Function,
        states: np.ndarray,
        actor_params: np.ndarray | None,
        seed: int,
        which: tuple[str, int, str],
        most_actions: int = 0,
        excursion: int = 0,
        longest: int = 0,
    ) -> tuple[float, int, EpisodeArrays]:
        """Play an episode of (streams, episode, policy) in ``state_dtype``[1]; return its return, steps and arrays.

        With an ``excursion`` it begins in the state as it is, and has at most so many steps; ``longest`` are the most
        steps of another one in place of those of the simulator.
        """
        simulator, (streams, episode, name) = self._simulator, which
        rngs = stream(seed, streams, episode), stream(seed, f"{streams} policy", episode)
        actor: Any = None
        if not self._is_trained(name):
            actor = self._together(name).index(name)
        elif actor_params is not None and self._spec is not None:
            actor = new_actor_arrays(actor_params, self._spec, POLICIES[name])
        with naming_the_episode(simulator, _title(name, episode)):
            arrays, limit = new_episode_arrays(simulator, most_actions), excursion or longest or simulator.max_steps
            given = states, simulator.parameters, actor, *rngs, arrays, limit, excursion > 0
            steps, total, status = loop(*given)
        if status != OK:
            raise describe_fault(status, simulator, _title(name, episode), steps)
        return total, steps, arrays

    def _is_trained(self, name: str) -> bool:
        return self._spec is not None and name in POLICIES

    def _loop_of(self, name: str) -> Function:
        """Return the loop that plays a policy or heuristic; one plays the trained policy in all its ways."""
        return self._loop(() if self._is_trained(name) else self._together(name))

    def _find_together(self, name: str) -> tuple[str, ...]:
        """Compile the heuristics that are named, or another one; return those with the same loop as this one.

        Integers of different types would become floating-point numbers in one function.
        """
        names = self._named if name in self._named else (name,)
        for each in names:
            compile_heuristic(self._simulator, each)
        functions = [compiled(self._simulator.heuristics[each]) for each in names]
        kinds = {signature.return_type for f in functions for signature in getattr(f, "nopython_signatures", ())}
        return names if len(kinds) < 2 else (name,)

    def _build_loop(self, heuristics: tuple[str, ...]) -> Function:
        """Compile the loop of some heuristics, or that of the trained policy."""
        simulator = self._simulator
        if self._spec is None or heuristics:
            chosen = [simulator.heuristics[name] for name in heuristics]
            return cached(build_play(simulator, build_heuristic_chooser(simulator.action_space, *chosen)))
        listed = self._spec.scores_actions
        choose = build_listed_chooser(simulator, self._spec) if listed else build_policy_chooser(self._spec)
        return cached(build_play(simulator, choose))


def _in_threads(threads: int, function: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """Return the results of a function for each item, in order; an interrupt waits for none that is in progress."""
    pool, waits = ThreadPoolExecutor(threads, PLAYING), True
    try:
        return list(pool.map(function, items))
    except KeyboardInterrupt:
        waits = False
        raise
    finally:
        pool.shutdown(waits)


def _title(name: str, episode: int) -> str:
    return f"{episode} of the evaluation of {name}"
