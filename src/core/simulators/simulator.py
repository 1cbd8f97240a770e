"""The simulator contract: the public interface that users write against.

A simulator is a description (sizes, spaces, dtypes) and a few plain functions in the subset of Python that Numba
compiles. Its whole state is one NumPy record, so an episode can be copied, resumed to the bit, and run as ordinary
Python with ``NUMBA_DISABLE_JIT=1``.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.core.errors import NumbaError

from core.errors import PolicyNotFiniteError, SimulatorError, UserError
from core.simulators.compile_errors import describe_compile_error
from core.simulators.spaces import ActionSpace, Box, MultiDiscrete, description

Function = Callable[..., Any]


class Simulator:
    """Base class that holds the defaults of the contract; a subclass sets the attributes and defines the functions.

    Functions, written without ``self`` (plain or ``@staticmethod``), compiled by Numba:

    * ``reset(state, parameters, rng)`` fills the record ``state`` in place.
    * ``observe(state, parameters, observation)`` writes float32[observation_size], which comes in all 0.
    * ``step(state, parameters, action, rng) -> (reward, terminated)`` changes ``state``; action is an integer
      (Discrete), int64[choices] (MultiDiscrete) or float32[numbers] within the bounds (Box).
    * ``action_mask(state, parameters, mask)`` (optional, not for Box) writes bool[n], for MultiDiscrete the choices'
      masks one after another; it comes in all True.
    * ``action_features(state, parameters, mask, features)`` (optional, not for Box) writes float32[n,
      action_feature_size], figures about the allowed actions; it comes in all 0. The policy adds ``features @ w`` to
      its logits, with learned weights ``w`` that all actions share: what is known about an action need not be learned
      action by action.
    * ``truncated(state, parameters) -> bool`` (optional): the episode is cut here although the process goes on, so
      its last state is valued (bootstrapped); ``max_steps`` truncates as well.
    * ``control_variate(state, parameters) -> float`` (optional): a running sum whose expected growth no policy can
      change, for example luck minus its mean. Its increments are added to the rewards that the policy learns from,
      not to the return that is reported; one that moves against the luck in the rewards makes learning far less noisy.
    * ``luck(state, parameters) -> float`` (optional): a running sum that is expected to stay where it is, whatever the
      policy does (a martingale), for example arrivals so far minus those expected by now. What a unit of it is worth is
      estimated in each update and taken out of the advantages: policies are neither praised nor blamed for it.
    * ``time(state, parameters) -> float`` (optional): simulated time, for a discount per unit of time.

    Ordinary Python, called once an episode and not compiled:

    * ``episode_metrics(state, parameters, metrics)`` (optional) fills a record of ``metrics_dtype``.

    ``rng`` is a ``numpy.random.Generator``. Nothing else may carry information from one call to the next.

    Attributes:
        observation_size: number of float32 values in an observation.
        action_space: the actions.
        max_steps: an episode is truncated after this many decisions.
        state_dtype: dtype of the state record.
        parameters: a NamedTuple of read-only arrays and scalars, handed to every function.
        metrics_dtype: named figures of a finished episode, or None.
        initial_logits: float[n], for MultiDiscrete float[sum(sizes)], what an untrained policy prefers (added to the
            output biases), or None for nothing; not for Box.
        action_feature_size: figures per action that ``action_features`` writes.
        initial_feature_weights: float[action_feature_size], the shared weights of an untrained policy, or None for 0.
        main_metric: the metric shown while training and used to choose the best checkpoint.
        main_metric_lower_is_better: True for costs and times.
        mean_interval: simulated time that ``GAMMA`` and ``VALUE_LAMBDA`` are for, such as the mean time between two
            decisions or between two arrivals.
        heuristics: name -> ``heuristic(state, parameters, mask, rng) -> action``, compiled too; for MultiDiscrete and
            Box ``heuristic(state, parameters, mask, rng, action)``, which writes the array (it comes in all 0).
        bounds: name -> ``bound(state, parameters, metrics)``, not compiled: takes the state as ``reset`` left
            it and fills metrics that no policy can beat on this episode's random draws.
    """

    observation_size: int
    action_space: ActionSpace
    max_steps: int
    state_dtype: np.dtype[Any]
    parameters: Any = ()
    metrics_dtype: np.dtype[Any] | None = None
    initial_logits: np.ndarray | None = None
    action_feature_size: int = 0
    initial_feature_weights: np.ndarray | None = None
    main_metric: str = "return"
    main_metric_lower_is_better: bool = False
    mean_interval: float = 1.0
    heuristics: Mapping[str, Function] = {}
    bounds: Mapping[str, Function] = {}

    def message(self, state: np.void) -> str | None:
        """Return a sentence about how this episode ended if a user should read one, else None."""
        return None

    def description(self) -> dict[str, Any]:
        """Return what a checkpoint records to be refused by another simulator: JSON values only."""
        kind = type(self)
        return {
            "simulator": f"{kind.__module__}:{kind.__qualname__}",
            "observation_size": self.observation_size,
            "actions": description(self.action_space),
            "action_features": self.action_feature_size,
        }


class Compiled(NamedTuple):
    """The functions of a simulator, compiled, with defaults for the optional ones."""

    reset: Function
    observe: Function
    step: Function
    action_mask: Function
    action_features: Function
    truncated: Function
    time: Function
    control_variate: Function
    luck: Function


def function_of(simulator: Simulator, name: str) -> Function | None:
    """Return the plain Python function that a simulator defines under a name, or None."""
    return getattr(type(simulator), name, None)


def new_state(simulator: Simulator) -> np.ndarray:
    """Return an array with one zeroed state record; index it with 0 to get the record."""
    return np.zeros(1, simulator.state_dtype).view(np.recarray)


def metrics_of(simulator: Simulator, states: np.ndarray, fill: Function | None = None) -> dict[str, Any]:
    """Return the metrics of a finished episode as JSON values (a list for a metric of several numbers).

    Metrics that are left unfilled are left out.

    Args:
        simulator: the simulator.
        states: array with the state record at the end of the episode.
        fill: ``fill(state, parameters, metrics)``; the simulator's own ``episode_metrics`` by default.
    """
    fill = fill or function_of(simulator, "episode_metrics")
    if simulator.metrics_dtype is None or fill is None:
        return {}
    metrics = np.zeros(1, simulator.metrics_dtype).view(np.recarray)
    for name in metrics.dtype.names:
        if np.issubdtype(metrics.dtype[name].base, np.floating):
            metrics[name] = np.nan
    fill(states[0], simulator.parameters, metrics[0])
    return {name: metrics[0][name].tolist() for name in metrics.dtype.names if not np.isnan(metrics[0][name]).any()}


def compile_functions(simulator: Simulator) -> Compiled:
    """Wrap the functions of a simulator with ``njit``; Numba compiles them at their first call.

    Raises:
        UserError: a required function or attribute is missing.
    """
    require_complete(simulator)
    defaults = {
        "action_mask": _all_allowed,
        "action_features": _no_features,
        "truncated": _never,
        "time": _zero,
        "control_variate": _zero,
        "luck": _zero,
    }
    functions = {
        name: compiled(function_of(simulator, name) or defaults[name])
        for name in ("reset", "observe", "step", *defaults)
    }
    return Compiled(**functions)


@cache
def compiled(function: Function) -> Function:
    """Return a function compiled without the GIL, the same one each time; a compiled one stays as it is."""
    return function if hasattr(function, "py_func") else njit(nogil=True)(function)


def require_complete(simulator: Simulator) -> None:
    """Check that a simulator states its sizes and defines its functions.

    Raises:
        UserError: something is missing or of the wrong kind.
    """
    name = type(simulator).__name__
    for attribute in ("observation_size", "action_space", "max_steps", "state_dtype"):
        if not hasattr(simulator, attribute):
            raise UserError(f"{name} has no {attribute}: set it in the class (docs/reference/simulator-contract.md).")
    for attribute in ("reset", "observe", "step"):
        if function_of(simulator, attribute) is None:
            raise UserError(f"{name} defines no function {attribute}: see docs/reference/simulator-contract.md.")
    for attribute in ("observation_size", "max_steps"):
        if not isinstance(getattr(simulator, attribute), int) or getattr(simulator, attribute) < 1:
            raise UserError(f"{name}.{attribute} must be a positive integer, not {getattr(simulator, attribute)!r}.")
    _require_space(simulator)
    _require_features(simulator)
    if np.dtype(simulator.state_dtype).names is None:
        raise UserError(f"{name}.state_dtype must name its fields: np.dtype([('stock', np.int64), ...]).")


def _require_space(simulator: Simulator) -> None:
    """Check the action space and what depends on it.

    Raises:
        UserError: it is none that is supported, or something does not go with it.
    """
    name, space, logits = type(simulator).__name__, simulator.action_space, simulator.initial_logits
    if not isinstance(space, ActionSpace):
        raise UserError(
            f"{name}.action_space must be Discrete(n), MultiDiscrete(sizes) or Box(low, high) of "
            f"core.simulators.spaces, not {space!r}."
        )
    if isinstance(space, Box) and function_of(simulator, "action_mask") is not None:
        raise UserError(f"{name} has a Box of actions, which cannot be masked: remove action_mask.")
    if isinstance(space, Box) and logits is not None:
        raise UserError(f"{name} has a Box of actions, which has no logits: remove initial_logits.")
    if logits is not None and np.shape(logits) != (space.outputs,):
        raise UserError(f"{name}.initial_logits must be an array of {space.outputs} numbers, one an action.")


def _require_features(simulator: Simulator) -> None:
    """Check that what is said about action features belongs together.

    Raises:
        UserError: it does not.
    """
    name, weights, size = type(simulator).__name__, simulator.initial_feature_weights, simulator.action_feature_size
    if (size > 0) != (function_of(simulator, "action_features") is not None):
        raise UserError(f"{name}: action_features and a positive action_feature_size belong together; set both.")
    if size > 0 and isinstance(simulator.action_space, Box):
        raise UserError(f"{name} has a Box of actions, which has no logits to add to: remove action_features.")
    if weights is not None and np.shape(weights) != (size,):
        raise UserError(f"{name}.initial_feature_weights must be an array of action_feature_size = {size} numbers.")


def describe_fault(status: int, simulator: Simulator, episode: str, step: int) -> SimulatorError:
    """Turn the status code of a compiled loop into the error that names episode and step."""
    name = type(simulator).__name__
    what = {
        OBSERVATION_TOO_LONG: f"observe wrote more than the declared observation_size = {simulator.observation_size}",
        OBSERVATION_NOT_FINITE: "observe wrote a NaN or an infinite value",
        EMPTY_MASK: empty_mask(simulator.action_space),
        REWARD_NOT_FINITE: "step returned a reward that is NaN or infinite",
        POLICY_NOT_FINITE: "the policy's own outputs were NaN; lower the learning rates",
        FEATURE_NOT_FINITE: "action_features wrote a NaN or an infinite value",
        ACTION_NOT_ALLOWED: "a heuristic chose an action that the mask forbids or that is not finite",
    }[status]
    kind = PolicyNotFiniteError if status == POLICY_NOT_FINITE else SimulatorError
    return kind(f"{name}, episode {episode}, step {step}: {what}.")


def empty_mask(space: ActionSpace) -> str:
    """Say what a mask lacks that leaves nothing to choose from."""
    return f"action_mask allowed no {'value of a choice' if isinstance(space, MultiDiscrete) else 'action'}"


@contextmanager
def naming_the_episode(simulator: Simulator, episode: str | Callable[[], str]) -> Iterator[None]:
    """Turn an exception of a simulator's own code into one sentence that names the episode.

    Args:
        simulator: whose code runs.
        episode: its name; of several a function that returns which one it was.
    """
    try:
        yield
    except NumbaError as error:
        raise describe_compile_error(simulator, error) from error
    except Exception as error:
        what = " ".join(str(error).split())[:300]  # Numba's reports fill screens
        name = episode if isinstance(episode, str) else episode()
        raise SimulatorError(
            f"{type(simulator).__name__}, episode {name}: {type(error).__name__}: {what}; set "
            "NUMBA_DISABLE_JIT=1 to see the line."
        ) from error


OK, OBSERVATION_TOO_LONG, OBSERVATION_NOT_FINITE, EMPTY_MASK, REWARD_NOT_FINITE = range(5)
POLICY_NOT_FINITE, ACTION_NOT_ALLOWED, FEATURE_NOT_FINITE = 5, 6, 7


@njit(nogil=True)
def _all_allowed(state, parameters, mask):  # type: ignore[no-untyped-def]
    pass


@njit(nogil=True)
def _no_features(state, parameters, mask, features):  # type: ignore[no-untyped-def]
    pass


@njit(nogil=True)
def _never(state, parameters):  # type: ignore[no-untyped-def]
    return False


@njit(nogil=True)
def _zero(state, parameters):  # type: ignore[no-untyped-def]
    return 0.0
