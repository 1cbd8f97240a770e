"""check_simulator: plays a simulator as ordinary Python and says, in sentences, what is wrong with it."""

import traceback
from typing import Any

import numpy as np

from core.errors import SimulatorError
from core.seeding import stream
from core.simulators.simulator import Function, Simulator, empty_mask, function_of, new_state, require_complete
from core.simulators.spaces import ActionSpace, Box, Discrete

_SEED = 20_261_120


def check_simulator(simulator: Simulator, steps: int = 200) -> None:
    """Play some steps of random allowed actions without compiling, twice, and check the contract.

    As ordinary Python, writes beyond an array raise and errors carry the user's own line, which compiled code does not.

    Args:
        simulator: what to check.
        steps: decisions to play in each of the two runs, over as many episodes as they take.

    Raises:
        UserError: an attribute or function is missing.
        SimulatorError: the first breach of the contract found, with step and remedy.
    """
    require_complete(simulator)
    with np.errstate(over="ignore"):
        first, second = _play(simulator, steps), _play(simulator, steps)
    for step, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            raise SimulatorError(
                f"{type(simulator).__name__} is not deterministic: two runs of one seed differ at step {step}. Draw "
                "every random number from rng and keep everything else in the state record."
            )


def _play(simulator: Simulator, steps: int) -> list[bytes]:
    """Play and return, step by step, the bytes of everything a policy can see."""
    call = _Calls(simulator)
    rng, actions = stream(_SEED, "check"), stream(_SEED, "check actions")
    states = new_state(simulator)
    seen: list[bytes] = []
    while len(seen) < steps:
        call.episode, call.step = call.episode + 1, 0
        call("reset", states[0], simulator.parameters, rng)
        for call.step in range(simulator.max_steps):
            observation, mask = call.look(states[0])
            action = random_action(simulator.action_space, mask, actions)
            reward, terminated = call.check_outcome(call("step", states[0], simulator.parameters, action, rng))
            seen.append(observation.tobytes() + mask.tobytes() + np.float64(reward).tobytes() + bytes([terminated]))
            cut = call("truncated", states[0], simulator.parameters)
            if terminated or cut or len(seen) >= steps:
                break
    return seen


def random_action(space: ActionSpace, mask: np.ndarray, rng: np.random.Generator) -> Any:
    """Return an allowed action: int, int64[choices] or float32[numbers].

    Values of a choice are equally likely; a real number is uniform between finite bounds, else a standard normal one
    away from the finite bound.
    """
    if isinstance(space, Box):
        return np.array([_random_number(low, high, rng) for low, high in space.bounds.T.tolist()], np.float32)
    values = [rng.choice(np.flatnonzero(part)) for part in split_mask(space, mask)]
    return int(values[0]) if isinstance(space, Discrete) else np.array(values, np.int64)


def _random_number(low: float, high: float, rng: np.random.Generator) -> float:
    if np.isfinite(low) and np.isfinite(high):
        return rng.uniform(low, high)
    normal = rng.standard_normal()
    return low + abs(normal) if np.isfinite(low) else high - abs(normal) if np.isfinite(high) else normal


def split_mask(space: ActionSpace, mask: np.ndarray) -> list[np.ndarray]:
    """Return the masks of the choices of a space, bool[size] each."""
    ends = np.cumsum(space.choices, dtype=np.int64)
    return [mask[end - size : end] for size, end in zip(space.choices, ends, strict=True)]


class _Calls:
    """Calls the plain functions of a simulator and turns what goes wrong into sentences."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator, self._name = simulator, type(simulator).__name__
        self.episode, self.step = -1, 0

    def __call__(self, function: str, *arguments: Any) -> Any:
        plain = _plain(function_of(self._simulator, function))
        if plain is None:
            return None
        try:
            return plain(*arguments)
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            raise SimulatorError(
                f"{self._name}.{function} failed in episode {self.episode}, step {self.step}: "
                f"{type(error).__name__}: {error} "
                f"(line {frame.lineno} of {frame.filename}: {frame.line})."
            ) from error

    def look(self, state: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return observation and mask after checking them."""
        size, space = self._simulator.observation_size, self._simulator.action_space
        observation, mask = np.zeros(size, np.float32), np.ones(sum(space.choices), np.bool_)
        features = np.zeros((len(mask), self._simulator.action_feature_size), np.float32)
        before = state.tobytes()
        self("observe", state, self._simulator.parameters, observation)
        self("action_mask", state, self._simulator.parameters, mask)
        self("action_features", state, self._simulator.parameters, mask, features)
        if state.tobytes() != before:
            self._fail("observe, action_mask or action_features changed the state; only reset and step may")
        if not np.isfinite(features).all():
            self._fail("action_features wrote a NaN or an infinite value")
        if not np.isfinite(observation).all():
            self._fail(
                f"observe wrote {observation[~np.isfinite(observation)][0]} at {np.argmin(np.isfinite(observation))}",
            )
        if not all(part.any() for part in split_mask(space, mask)):
            self._fail(f"{empty_mask(space)}; allow at least one")
        return observation, mask

    def check_outcome(self, outcome: Any) -> tuple[float, bool]:
        """Return reward and terminated after checking them."""
        if not isinstance(outcome, tuple) or len(outcome) != 2:
            self._fail(f"step returned {outcome!r}; return (reward, terminated)")
        reward, terminated = outcome
        if not np.isfinite(reward):
            self._fail(f"step returned the reward {reward}; return a finite number")
        return float(reward), bool(terminated)

    def _fail(self, what: str) -> None:
        raise SimulatorError(f"{self._name}, episode {self.episode}, step {self.step}: {what}.")


def _plain(function: Function | None) -> Function | None:
    return getattr(function, "py_func", function)
