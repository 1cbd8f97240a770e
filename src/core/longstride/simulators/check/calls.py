"""Calls the plain functions of a simulator and turns every breach of the contract into a sentence."""

from typing import Any

import numpy as np
from numba.core.errors import NumbaError

from longstride.errors import SimulatorError, one_line
from longstride.simulators.check.checked_helpers import CheckedHelpers
from longstride.simulators.check.instrumented_arrays import Hints, watched
from longstride.simulators.check.random_action import split_mask
from longstride.simulators.check.source_location import place_of_function
from longstride.simulators.check.time_limit import TooLong, time_limit
from longstride.simulators.compile_errors import describe_compile_error, place_of_error
from longstride.simulators.float32 import unfit_number
from longstride.simulators.simulator import Compiled, Function, Simulator, empty_mask, function_of, metrics_of


class Calls:
    """The functions of a simulator as ordinary Python, each call checked; a call may take ``seconds``.

    Without ``compiled_helpers`` the simulator's compiled helpers run as ordinary Python too. Every method raises a
    SimulatorError where the function raised, took too long or broke its contract.

    Attributes:
        episode: name of the present episode, for messages.
        step: number of the present step, for messages.
        functions: plain functions that the simulator defines, by name.
        never_filled: names of metrics that no finished episode has filled; None before the first.
    """

    def __init__(self, simulator: Simulator, seconds: float, hints: Hints, compiled_helpers: bool = True) -> None:
        self.simulator, self.hints, self._seconds = simulator, hints, seconds
        self.name, self.step = type(simulator).__name__, 0
        self.episode: Any = 0
        self.never_filled: set[str] | None = None
        helpers = CheckedHelpers(compiled_helpers)
        defined = {name: function_of(simulator, name) for name in (*Compiled._fields, "episode_metrics")}
        self.functions: dict[str, Function] = {name: helpers.ordinary(f) for name, f in defined.items() if f}

    def __call__(self, function: str, *arguments: Any) -> Any:
        """Call a function with the arguments of the contract; None if the simulator does not define it."""
        if function not in self.functions:
            return None
        try:
            with time_limit(self._seconds):
                return self.functions[function](*arguments)
        except TooLong as error:
            remedy = "; see to it that its loops end, or do less in a call"
            failure = f"was still running after {self._seconds:g} s"
            raise self._call_error(function, error, failure, "", remedy) from None
        except NumbaError as error:
            raise describe_compile_error(self.simulator, error, function) from error
        except Exception as error:
            reason = f": {type(error).__name__}: {one_line(error)}"
            raise self._call_error(function, error, "failed", reason) from error

    def reading(self, function: str, state: Any, *arguments: Any) -> Any:
        """Call a function that may not change the state."""
        before, result = state.copy(), self.keeping_parameters(function, state, *arguments)
        if function in self.functions and before.tobytes() != state.tobytes():
            self.fail(f"{function} changed {changed_fields(before, state)}; only reset and step may", function)
        return result

    def keeping_parameters(self, function: str, state: Any, *arguments: Any) -> Any:
        """Call a function, which may not change the parameters."""
        before = _contents(self.simulator.parameters)
        result = self(function, state, self.simulator.parameters, *arguments)
        changed = [name for name, value in _contents(self.simulator.parameters).items() if value != before[name]]
        if changed:
            self.fail(f"{function} changed {changed[0]}, which all episodes share; keep it in the state", function)
        return result

    def observe(self, state: Any) -> np.ndarray:
        """Return a finite observation, float32[observation_size]."""
        observation = np.zeros(self.simulator.observation_size, np.float32)
        self.reading("observe", state, watched(observation, self.hints, "observation"))
        if not np.isfinite(observation).all():
            wide = unfit_number(self.wide_observation(state), "observation")
            self.fail(wide or unfit_number(observation, "observation"), "observe")
        return observation

    def wide_observation(self, state: Any) -> np.ndarray:
        """Return what ``observe`` writes before it becomes float32, float64[observation_size]."""
        observation = np.zeros(self.simulator.observation_size)
        with np.errstate(all="ignore"):
            self("observe", state, self.simulator.parameters, observation)
        return observation

    def action_mask(self, state: Any) -> np.ndarray:
        """Return a mask that allows a value of each choice, bool[n], n values of all choices."""
        mask = np.ones(sum(self.simulator.action_space.choices), np.bool_)
        self.reading("action_mask", state, watched(mask, self.hints, "mask"))
        if not all(part.any() for part in split_mask(self.simulator.action_space, mask)):
            self.fail(f"{empty_mask(self.simulator.action_space)}; allow at least one", "action_mask")
        return mask

    def action_features(self, state: Any, mask: np.ndarray) -> np.ndarray:
        """Return finite features, float32[n, action_feature_size], for a mask bool[n]."""
        features, given = np.zeros((len(mask), self.simulator.action_feature_size), np.float32), mask.copy()
        self.reading("action_features", state, given, watched(features, self.hints, "features"))
        if not np.isfinite(features).all():
            self.fail("action_features wrote a NaN or an infinite value; write finite numbers", "action_features")
        if (given != mask).any():
            self.fail("action_features changed the mask; only action_mask may", "action_features")
        self._descriptions(state, mask)
        return features

    def _descriptions(self, state: Any, mask: np.ndarray) -> None:
        """Check the summary and the descriptions of a simulator that has them: finite, of the allowed actions, once."""
        if "describe_actions" not in self.functions:
            return
        summary = np.zeros(self.simulator.summary_size, np.float32)
        self.reading("summarise", state, watched(summary, self.hints, "summary"))
        ids, rows = np.full(len(mask), -1, np.int32), np.zeros((len(mask), self.simulator.description_size), np.float32)
        arrays = watched(ids, self.hints, "ids"), watched(rows, self.hints, "descriptions")
        count = self.reading("describe_actions", state, *arrays)
        for function, values in (("summarise", summary), ("describe_actions", rows[:count])):
            if not np.isfinite(values).all():
                self.fail(f"{function} wrote a NaN or an infinite value; write finite numbers", function)
        if sorted(ids[:count].tolist()) != np.flatnonzero(mask).tolist():
            self.fail("describe_actions did not list each action that the mask allows once", "describe_actions")

    def outcome(self, state: Any, action: Any, rng: np.random.Generator) -> tuple[float, bool]:
        """Make a step with a copy of the action; return its reward and whether it terminated."""
        given = action.copy() if isinstance(action, np.ndarray) else action
        outcome = self.keeping_parameters("step", state, given, rng)
        if not isinstance(outcome, tuple) or len(outcome) != 2:
            self.fail(f"step returned {outcome!r}; return (reward, terminated)", "step")
        reward, terminated = outcome
        self._require_number("step returned the reward", reward, "step")
        if not isinstance(terminated, (bool, np.bool_)):
            self.fail(f"step returned terminated = {terminated!r}; return (reward, True or False)", "step")
        return float(reward), bool(terminated)

    def truncated(self, state: Any) -> bool:
        """Return whether the simulator truncates the episode in this state."""
        cut = self.reading("truncated", state) if "truncated" in self.functions else False
        if not isinstance(cut, (bool, np.bool_)):
            self.fail(f"truncated returned {cut!r}; return True or False", "truncated")
        return bool(cut)

    def number(self, function: str, state: Any) -> float:
        """Return the value of ``time`` or ``control_variate``, 0 if it is not defined."""
        if function not in self.functions:
            return 0.0
        value = self.reading(function, state)
        self._require_number(f"{function} returned", value, function)
        return float(value)

    def clocks(self, state: Any) -> dict[str, float]:
        """Return ``time`` and ``control_variate`` by name."""
        return {name: self.number(name, state) for name in ("time", "control_variate")}

    def metrics(self, states: np.ndarray) -> None:
        """Fill the metrics of a finished episode from its last state, ``state_dtype``[1]."""
        dtype, untouched = self.simulator.metrics_dtype, set[str]()
        if "episode_metrics" not in self.functions or dtype is None:
            return

        def fill(state: Any, _: Any, metrics: Any) -> None:
            # An integer has no NaN that shows whether it was written, so it holds a number that no episode has.
            marks = {n: np.iinfo(dtype[n].base).max // 3 for n in dtype.names or () if dtype[n].base.kind in "iu"}
            for name, mark in marks.items():
                metrics[name] = mark
            self.reading("episode_metrics", state, metrics)
            untouched.update(name for name, mark in marks.items() if (metrics[name] == mark).all())

        filled = metrics_of(self.simulator, states, fill)
        empty = (set(dtype.names or ()) - filled.keys()) | untouched
        self.never_filled = empty if self.never_filled is None else self.never_filled & empty

    def fail(self, problem: str, function: str = "") -> None:
        """Raise a SimulatorError that names the problem, episode and step, and the place of the function."""
        where = f" ({place_of_function(self.functions[function])})" if function in self.functions else ""
        raise SimulatorError(f"{self.name}, episode {self.episode}, step {self.step}: {problem}{where}.")

    def _require_number(self, clause: str, value: Any, function: str) -> None:
        real = isinstance(value, (int, float, np.integer, np.floating, np.bool_))
        if not real or not np.isfinite(value):
            self.fail(f"{clause} {value if real else repr(value)}; return a finite number", function)

    def _call_error(
        self, function: str, error: BaseException, failure: str, reason: str, remedy: str = ""
    ) -> SimulatorError:
        where = place_of_error(error.__traceback__) or place_of_function(self.functions[function])
        return SimulatorError(
            f"{self.name}.{function} {failure} in episode {self.episode}, step {self.step}{reason} ({where}){remedy}."
        )


def changed_fields(before: Any, after: Any) -> str:
    """Return the names of the fields in which two records differ, for messages."""
    names = [
        name for name in before.dtype.names if np.asarray(before[name]).tobytes() != np.asarray(after[name]).tobytes()
    ]
    return ", ".join(f"state.{name}" for name in names) or "the state"


def _contents(parameters: Any) -> dict[str, bytes]:
    """Return the bytes of every array in the parameters by name."""
    if isinstance(parameters, (np.ndarray, np.generic)):
        return {"parameters": parameters.tobytes()}
    if not isinstance(parameters, tuple):
        return {}
    fields = zip(getattr(parameters, "_fields", range(len(parameters))), parameters, strict=True)
    return {f"parameters.{name}": value.tobytes() for name, value in fields if isinstance(value, np.ndarray)}
