"""The check: play, play again, resume, compile."""

import time
from functools import partial
from typing import Any

import numpy as np

from core.errors import UserError
from core.seeding import stream
from core.simulators.check.advice import hint_at_compared_actions, hint_at_endless_episodes, hint_at_scales
from core.simulators.check.calls import Calls
from core.simulators.check.determinism import (
    Decision,
    after_step,
    fail_for_leftovers,
    fail_for_memory,
    look,
    replay,
    require_repeatable,
    restored,
    resume,
)
from core.simulators.check.instrumented_arrays import Hints, watched_record
from core.simulators.check.random_action import random_action
from core.simulators.compile import compile_each
from core.simulators.simulator import Simulator, new_state, require_complete

_SEED = 20_261_120
_SNAPSHOT_BYTES = 64_000_000  # of all state records that are kept
_PLAY_SECONDS = 20.0  # a simulator that is slow as ordinary Python plays fewer decisions


def check_simulator(simulator: Simulator, steps: int = 200, seconds_per_call: float = 10.0) -> list[str]:
    """Play random allowed actions as ordinary Python, again, and again from copies; then compile every function.

    As ordinary Python, writes beyond an array raise and errors carry the user's own line, which compiled code does not.

    Args:
        simulator: what to check.
        steps: decisions to play, over as many episodes as they take.
        seconds_per_call: that one call of a function may take, in the main thread.

    Returns:
        Hints: sentences about what is no error.

    Raises:
        UserError: an attribute or function is missing, or Numba cannot compile a function.
        SimulatorError: the first breach of the contract found, with function, step and remedy.
    """
    require_complete(simulator)
    _require_plain_fields(simulator)
    hints = Hints()
    call = Calls(simulator, seconds_per_call, hints)
    with np.errstate(over="call", call=hints.arithmetic_overflow):
        game = _Game(call, steps)
        game.play()
    with np.errstate(over="ignore"):
        game.play_again()
    compile_each(simulator)
    hint_at_scales(np.array(game.observations), call.name, hints)
    hint_at_compared_actions(call.functions["step"], hints)
    if game.episodes_ended == 0:
        hint_at_endless_episodes(simulator, len(game.decisions), hints)
    return hints.as_list()


def _require_plain_fields(simulator: Simulator) -> None:
    """Refuse fields that hold Python objects, whose contents no copy of the record copies.

    Raises:
        UserError: there is one.
    """
    dtype = np.dtype(simulator.state_dtype)
    for name in dtype.names or ():
        if dtype[name].hasobject:
            raise UserError(
                f"{type(simulator).__name__}.state_dtype: the field {name} holds Python objects, which cannot be "
                "compiled; use numbers and arrays of numbers."
            )


class _Game:
    """Decisions of random actions, kept so that they can be played again."""

    def __init__(self, call: Calls, steps: int) -> None:
        self.call, self._steps = call, steps
        self.decisions: list[Decision] = []
        self.observations: list[np.ndarray] = []
        self.episodes_ended = 0
        self._states, self._actions = new_state(call.simulator), stream(_SEED, "check actions")
        self._starts: list[np.ndarray] = []
        size = np.dtype(call.simulator.state_dtype).itemsize
        self._stride = -(-steps * size // _SNAPSHOT_BYTES)

    def play(self) -> None:
        """Play episodes until there are enough decisions, or time is up."""
        end, call, episode = time.monotonic() + _PLAY_SECONDS, self.call, 0
        while len(self.decisions) < self._steps and (episode == 0 or time.monotonic() < end):
            call.episode, call.step = episode, 0
            self._play_episode(self._reset(episode), end)
            episode += 1

    def play_again(self) -> None:
        """Play the same episodes from records that hold something else, then decisions backwards from copies."""
        for episode, start in enumerate(self._starts):
            self.call.episode = episode
            decisions = [d for d in self.decisions if d.episode == episode]
            left = self._states.copy()
            if replay(self.call, self._states, _rng(episode), decisions):
                function = replay(self.call, start.copy(), _rng(episode), decisions)
                if function:
                    fail_for_memory(self.call, function)
                fail_for_leftovers(self.call, left, partial(_rng, episode))
        for decision in reversed(self.decisions):
            if decision.before and (function := resume(self.call, decision)):
                fail_for_memory(self.call, function)

    def _reset(self, episode: int) -> np.random.Generator:
        """Reset the state; return the episode's random stream."""
        call, start = self.call, self._states.copy()
        self._starts.append(start)

        def again() -> bytes:
            states = start.copy()
            call.keeping_parameters("reset", states[0], _rng(episode))
            return states.tobytes()

        require_repeatable(call, "reset", again)
        rng = _rng(episode)
        call("reset", watched_record(self._states, call.hints)[0], call.simulator.parameters, rng)
        return rng

    def _play_episode(self, rng: np.random.Generator, end: float) -> None:
        call, state = self.call, watched_record(self._states, self.call.hints)[0]
        for step in range(call.simulator.max_steps):
            call.step = step
            decision, terminated = self._decide(state, rng)
            cut = bool(decision.seen["truncated"][0])
            if terminated or cut or step + 1 == call.simulator.max_steps:
                self.episodes_ended += terminated or cut
                call.observe(state)
                call.metrics(self._states)
                return
            if len(self.decisions) >= self._steps or time.monotonic() > end:
                return

    def _decide(self, state: Any, rng: np.random.Generator) -> tuple[Decision, bool]:
        """Make one decision, each function of it twice."""
        call = self.call
        seen, observation, mask = self._look(state)
        action = random_action(call.simulator.action_space, mask, self._actions)
        now = call.number("time", state)
        kept = action.copy() if isinstance(action, np.ndarray) else action
        decision = Decision(call.episode, call.step, state.tobytes(), dict(rng.bit_generator.state), kept, seen)
        reward, terminated = call.outcome(state, action, rng)
        self._require_same_step(decision, state, reward, terminated)
        decision.seen.update(after_step(call, state, reward, terminated))
        decision.after = hash(state.tobytes())
        if (later := call.number("time", state)) < now:
            call.fail(f"time went back from {now:g} to {later:g} in step; let it stand still or grow", "time")
        self._keep(decision, observation)
        return decision, terminated

    def _look(self, state: Any) -> tuple[dict[str, bytes], np.ndarray, np.ndarray]:
        """Look at a state twice."""
        call = self.call
        seen, observation, mask = look(call, state)
        require_repeatable(call, "observe", lambda: call.observe(state).tobytes(), seen["observe"])
        require_repeatable(call, "action_mask", lambda: call.action_mask(state).tobytes(), seen["action_mask"])
        features = seen["action_features"]
        require_repeatable(call, "action_features", lambda: call.action_features(state, mask).tobytes(), features)
        return seen, observation, mask

    def _require_same_step(self, decision: Decision, state: Any, reward: float, terminated: bool) -> None:
        call = self.call

        def again() -> bytes:
            copy, rng = restored(call, decision)
            action = decision.action.copy() if isinstance(decision.action, np.ndarray) else decision.action
            outcome = call.outcome(copy, action, rng)
            return bytes(copy.tobytes()) + np.array(outcome, np.float64).tobytes()

        first = state.tobytes() + np.array((reward, terminated), np.float64).tobytes()
        require_repeatable(call, "step", again, first)

    def _keep(self, decision: Decision, observation: np.ndarray) -> None:
        if len(self.decisions) % self._stride:
            decision.before = b""
        self.decisions.append(decision)
        self.observations.append(observation)


def _rng(episode: int) -> np.random.Generator:
    return stream(_SEED, "check", episode)
