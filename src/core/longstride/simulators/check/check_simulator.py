"""The check: play random actions, play them again, resume from copies of the state, compile."""

import time
from functools import partial
from typing import Any

import numpy as np

from longstride.errors import UserError
from longstride.seeding import stream
from longstride.simulators.check import determinism
from longstride.simulators.check.advice import (
    hint_at_compared_actions,
    hint_at_direction,
    hint_at_endless_episodes,
    hint_at_scales,
    hint_at_unfilled_metrics,
    hint_at_unknown_numbers,
)
from longstride.simulators.check.calls import Calls
from longstride.simulators.check.determinism import PlayedStep, require_repeatable
from longstride.simulators.check.instrumented_arrays import Hints, watched_record
from longstride.simulators.check.lost_digits import LostDigits
from longstride.simulators.check.random_action import random_action
from longstride.simulators.compile import compile_each
from longstride.simulators.simulator import Simulator, new_state
from longstride.simulators.validate import require_complete

_SEED = 20_261_120
_SNAPSHOT_BYTES = 64_000_000  # of all state records that are kept
_PLAY_SECONDS = 20.0  # a simulator that is slow as ordinary Python plays fewer steps


def check_simulator(simulator: Simulator, steps: int = 200, seconds_per_call: float = 10.0) -> list[str]:
    """Play random allowed actions as ordinary Python, again, and again from copies; then compile every function.

    As ordinary Python, writes beyond an array raise, and errors carry the user's own line; compiled code does neither.

    Args:
        simulator: simulator to check.
        steps: number of environment steps to play, over as many episodes as they take.
        seconds_per_call: time limit for one call of a function, in the main thread.

    Returns:
        Hints: sentences about what is no error.

    Raises:
        UserError: an attribute or function is missing, or Numba cannot compile a function.
        SimulatorError: the first breach of the contract, with function, step and remedy.
    """
    require_complete(simulator)
    _require_plain_fields(simulator)
    hints = Hints()
    call = Calls(simulator, seconds_per_call, hints)
    random_play = _RandomPlay(call, steps)
    with np.errstate(over="call", call=hints.arithmetic_overflow):
        random_play.play()
    with np.errstate(over="ignore"):
        random_play.play_again()
    compile_each(simulator)
    if lost := random_play.digits.sentence("observation[{}]".format):
        hints.add(f"{call.name}.observe: {lost}")
    else:
        hint_at_scales(np.array(random_play.observations), call.name, hints)
    hint_at_compared_actions(call.functions["step"], hints)
    hint_at_unknown_numbers(simulator, hints)
    hint_at_direction(simulator, hints)
    hint_at_unfilled_metrics(call.name, call.never_filled or set(), hints)
    if random_play.episodes_ended == 0:
        hint_at_endless_episodes(simulator, len(random_play.steps), hints)
    return hints.as_list()


def _require_plain_fields(simulator: Simulator) -> None:
    """Refuse fields of Python objects, whose contents copies would share, and those with names of NumPy's methods."""
    for attribute in ("state_dtype", "metrics_dtype"):
        dtype = np.dtype(getattr(simulator, attribute))
        for name in dtype.names or ():
            field = f"{type(simulator).__name__}.{attribute}: the field {name}"
            if dtype[name].hasobject:
                raise UserError(
                    f"{field} holds Python objects, which cannot be compiled; use numbers and arrays of numbers."
                )
            if hasattr(np.record, name):
                raise UserError(f"{field} has the name of a method of NumPy's records; name it {name}_ or otherwise.")


class _RandomPlay:
    """Steps with random actions, kept so that they can be played again."""

    def __init__(self, call: Calls, steps: int) -> None:
        self.call, self._most_steps = call, steps
        self.steps: list[PlayedStep] = []
        self.observations: list[np.ndarray] = []
        self.digits, self.episodes_ended = LostDigits(call.simulator.observation_size, steps), 0
        self._states, self._actions = new_state(call.simulator), stream(_SEED, "check actions")
        self._starts: list[np.ndarray] = []
        self._snapshot_interval = -(-steps * self._states.nbytes // _SNAPSHOT_BYTES)

    def play(self) -> None:
        """Play episodes until there are enough steps, or time is up."""
        end, call, episode = time.monotonic() + _PLAY_SECONDS, self.call, 0
        while len(self.steps) < self._most_steps and (episode == 0 or time.monotonic() < end):
            call.episode, call.step = episode, 0
            self._play_episode(self._reset(episode), end)
            episode += 1

    def play_again(self) -> None:
        """Play the same episodes from records of other contents, then single steps from copies, the last step first."""
        call = self.call
        for episode, start in enumerate(self._starts):
            call.episode = episode
            steps = [played for played in self.steps if played.episode == episode]
            left = self._states.copy()
            if determinism.replay(call, self._states, _rng(episode), steps):
                if function := determinism.replay(call, start.copy(), _rng(episode), steps):
                    determinism.fail_for_memory(call, function)
                determinism.fail_for_leftovers(call, left, partial(_rng, episode))
        for played in reversed(self.steps):
            if played.before and (function := determinism.resume(call, played)):
                determinism.fail_for_memory(call, function)

    def _reset(self, episode: int) -> np.random.Generator:
        """Reset the state; return the episode's random stream."""
        call, start = self.call, self._states.copy()
        self._starts.append(start)

        def repeat() -> bytes:
            states = start.copy()
            call.keeping_parameters("reset", states[0], _rng(episode))
            return states.tobytes()

        require_repeatable(call, "reset", repeat)
        rng = _rng(episode)
        call("reset", watched_record(self._states, call.hints)[0], call.simulator.parameters, rng)
        return rng

    def _play_episode(self, rng: np.random.Generator, end: float) -> None:
        call, state = self.call, watched_record(self._states, self.call.hints)[0]
        for step in range(call.simulator.max_steps):
            call.step = step
            ended = self._step(state, rng)
            if ended or step + 1 == call.simulator.max_steps:
                self.episodes_ended += ended
                call.observe(state)
                call.metrics(self._states)
                return
            if len(self.steps) >= self._most_steps or time.monotonic() > end:
                return

    def _step(self, state: Any, rng: np.random.Generator) -> bool:
        """Make one step, each function of it twice; return whether the simulator ended the episode."""
        call = self.call
        outputs, observation, mask = self._observe(state)
        action = random_action(call.simulator.action_space, mask, self._actions)
        before = call.number("time", state)
        played = PlayedStep(call.episode, call.step, state.tobytes(), dict(rng.bit_generator.state), action, outputs)
        reward, terminated = call.outcome(state, action, rng)
        self._require_same_step(played, state, reward, terminated)
        outputs.update(determinism.step_outputs(call, state, reward, terminated))
        played.after = hash(state.tobytes())
        if (after := call.number("time", state)) < before:
            call.fail(f"time went back from {before:g} to {after:g} in step; let it stand still or grow", "time")
        if len(self.steps) % self._snapshot_interval:
            played.before = b""
        self.steps.append(played)
        self.observations.append(observation)
        return terminated or bool(outputs["truncated"][0])

    def _observe(self, state: Any) -> tuple[determinism.Outputs, np.ndarray, np.ndarray]:
        """Observe a state twice."""
        call = self.call
        outputs, observation, mask = determinism.observe_state(call, state)
        self.digits.look(call.wide_observation(state))
        require_repeatable(call, "observe", lambda: call.observe(state).tobytes(), outputs["observe"])
        require_repeatable(call, "action_mask", lambda: call.action_mask(state).tobytes(), outputs["action_mask"])
        features = outputs["action_features"]
        require_repeatable(call, "action_features", lambda: call.action_features(state, mask).tobytes(), features)
        return outputs, observation, mask

    def _require_same_step(self, played: PlayedStep, state: Any, reward: float, terminated: bool) -> None:
        call = self.call

        def repeat() -> bytes:
            copy, rng = determinism.restored(call, played)
            outcome = call.outcome(copy, played.action, rng)
            return bytes(copy.tobytes()) + np.array(outcome, np.float64).tobytes()

        first = state.tobytes() + np.array((reward, terminated), np.float64).tobytes()
        require_repeatable(call, "step", repeat, first)


def _rng(episode: int) -> np.random.Generator:
    return stream(_SEED, "check", episode)
