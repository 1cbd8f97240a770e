"""Calls the plain functions of a simulator and turns what goes wrong into sentences."""

from typing import Any

import numpy as np
from numba.core.errors import NumbaError

from core.errors import SimulatorError
from core.simulators.check.checked_helpers import CheckedHelpers
from core.simulators.check.instrumented_arrays import Hints, watched
from core.simulators.check.random_action import split_mask
from core.simulators.check.source_location import place_of_error, place_of_function
from core.simulators.check.time_limit import TooLong, time_limit
from core.simulators.compile_errors import describe_compile_error
from core.simulators.simulator import Function, Simulator, empty_mask, function_of, metrics_of

FUNCTIONS = (
    *("reset", "observe", "action_mask", "action_features", "step", "truncated", "time", "control_variate", "luck"),
    "episode_metrics",
)


class Calls:
    """The functions of a simulator as ordinary Python, each call checked.

    Args:
        simulator: the simulator.
        seconds: that a call may take.
        hints: where to note what is no error.
        compiled_helpers: whether the compiled functions that the simulator's call stay compiled.

    Attributes:
        episode: that is being played, for the sentences.
        step: likewise.
    """

    def __init__(self, simulator: Simulator, seconds: float, hints: Hints, compiled_helpers: bool = True) -> None:
        self.simulator, self.hints, self._seconds = simulator, hints, seconds
        self.name, self.step = type(simulator).__name__, 0
        self.episode: Any = 0
        helpers, defined = CheckedHelpers(compiled_helpers), {name: function_of(simulator, name) for name in FUNCTIONS}
        self.functions: dict[str, Function] = {name: helpers.ordinary(f) for name, f in defined.items() if f}

    def __call__(self, function: str, *arguments: Any) -> Any:
        """Call a function with the arguments of the contract; None if the simulator does not define it.

        Raises:
            SimulatorError: it raised or took too long.
        """
        if function not in self.functions:
            return None
        try:
            with time_limit(self._seconds):
                return self.functions[function](*arguments)
        except TooLong as error:
            raise self._too_long(function, error) from None
        except NumbaError as error:
            raise describe_compile_error(self.simulator, error, function) from error
        except Exception as error:
            raise self._raised(function, error) from error

    def reading(self, function: str, state: Any, *arguments: Any) -> Any:
        """Call a function that may not change the state.

        Raises:
            SimulatorError: it did, or what ``__call__`` raises.
        """
        before = state.copy()
        result = self.keeping_parameters(function, state, *arguments)
        if function in self.functions and before.tobytes() != state.tobytes():
            self.fail(f"{function} changed {changed_fields(before, state)}; only reset and step may", function)
        return result

    def keeping_parameters(self, function: str, state: Any, *arguments: Any) -> Any:
        """Call a function and see to it that the parameters stay as they are."""
        before = _contents(self.simulator.parameters)
        result = self(function, state, self.simulator.parameters, *arguments)
        changed = [name for name, now in _contents(self.simulator.parameters).items() if now != before[name]]
        if changed:
            self.fail(f"{function} changed {changed[0]}, which all episodes share; keep it in the state", function)
        return result

    def observe(self, state: Any) -> np.ndarray:
        """Return a finite observation, float32[observation_size]."""
        observation = np.zeros(self.simulator.observation_size, np.float32)
        self.reading("observe", state, watched(observation, self.hints, "observation"))
        finite = np.isfinite(observation)
        if not finite.all():
            at = int(np.argmin(finite))
            self.fail(f"observe wrote {observation[at]} at {at}; write finite numbers", "observe")
        return observation

    def action_mask(self, state: Any) -> np.ndarray:
        """Return a mask that allows something, bool[*]."""
        mask = np.ones(sum(self.simulator.action_space.choices), np.bool_)
        self.reading("action_mask", state, watched(mask, self.hints, "mask"))
        if not all(part.any() for part in split_mask(self.simulator.action_space, mask)):
            self.fail(f"{empty_mask(self.simulator.action_space)}; allow at least one", "action_mask")
        return mask

    def action_features(self, state: Any, mask: np.ndarray) -> np.ndarray:
        """Return finite features, float32[*, action_feature_size]."""
        features, given = np.zeros((len(mask), self.simulator.action_feature_size), np.float32), mask.copy()
        self.reading("action_features", state, given, watched(features, self.hints, "features"))
        if not np.isfinite(features).all():
            self.fail("action_features wrote a NaN or an infinite value; write finite numbers", "action_features")
        if (given != mask).any():
            self.fail("action_features changed the mask; only action_mask may", "action_features")
        return features

    def outcome(self, state: Any, action: Any, rng: np.random.Generator) -> tuple[float, bool]:
        """Make a step; return its reward and whether it terminated."""
        outcome = self.keeping_parameters("step", state, action, rng)
        if not isinstance(outcome, tuple) or len(outcome) != 2:
            self.fail(f"step returned {outcome!r}; return (reward, terminated)", "step")
        reward, terminated = outcome
        self._require_number("step returned the reward", reward, "step")
        if not isinstance(terminated, (bool, np.bool_)):
            self.fail(f"step returned terminated = {terminated!r}; return (reward, True or False)", "step")
        return float(reward), bool(terminated)

    def truncated(self, state: Any) -> bool:
        """Return whether the simulator cuts the episode here."""
        cut = self.reading("truncated", state) if "truncated" in self.functions else False
        if not isinstance(cut, (bool, np.bool_)):
            self.fail(f"truncated returned {cut!r}; return True or False", "truncated")
        return bool(cut)

    def number(self, function: str, state: Any) -> float:
        """Return what ``time``, ``control_variate`` or ``luck`` says, 0 where it is not defined."""
        if function not in self.functions:
            return 0.0
        value = self.reading(function, state)
        self._require_number(f"{function} returned", value, function)
        return float(value)

    def metrics(self, states: np.ndarray) -> None:
        """Fill the metrics of a finished episode."""
        if "episode_metrics" in self.functions:
            metrics_of(
                self.simulator, states, lambda state, _, metrics: self.reading("episode_metrics", state, metrics)
            )

    def fail(self, what: str, function: str = "") -> None:
        """Raise the error that says what is wrong, where it happened and where the function stands."""
        where = f" ({place_of_function(self.functions[function])})" if function in self.functions else ""
        raise SimulatorError(f"{self.name}, episode {self.episode}, step {self.step}: {what}{where}.")

    def _require_number(self, what: str, value: Any, function: str) -> None:
        real = isinstance(value, (int, float, np.integer, np.floating, np.bool_))
        if not real or not np.isfinite(value):
            self.fail(f"{what} {value if real else repr(value)}; return a finite number", function)

    def _raised(self, function: str, error: Exception) -> SimulatorError:
        where = place_of_error(error.__traceback__) or place_of_function(self.functions[function])
        what = " ".join(str(error).split()).rstrip(".")
        return SimulatorError(
            f"{self.name}.{function} failed in episode {self.episode}, step {self.step}: {type(error).__name__}: "
            f"{what} ({where})."
        )

    def _too_long(self, function: str, error: TooLong) -> SimulatorError:
        where = place_of_error(error.__traceback__) or place_of_function(self.functions[function])
        return SimulatorError(
            f"{self.name}.{function} was still running after {self._seconds:g} s in episode {self.episode}, step "
            f"{self.step} ({where}); see to it that its loops end, or do less in a call."
        )


def changed_fields(before: Any, after: Any) -> str:
    """Return the names of the fields in which two records differ, for people."""
    names = [
        name for name in before.dtype.names if np.asarray(before[name]).tobytes() != np.asarray(after[name]).tobytes()
    ]
    return ", ".join(f"state.{name}" for name in names) or "the state"


def _contents(parameters: Any) -> dict[str, bytes]:
    """Return the bytes of every array in the parameters by name."""
    if isinstance(parameters, (np.ndarray, np.generic)):
        return {"parameters": parameters.tobytes()}
    names = getattr(parameters, "_fields", range(len(parameters)) if isinstance(parameters, tuple) else ())
    fields = zip(names, parameters if isinstance(parameters, tuple) else (), strict=True)
    return {f"parameters.{name}": value.tobytes() for name, value in fields if isinstance(value, np.ndarray)}
