"""The simulator contract: the public interface that users write against.

A simulator is a description (sizes, spaces, dtypes) and a few plain functions in the subset of Python that Numba
compiles. Its whole state is one NumPy record. So an episode can be copied, resumed to the bit, and run as ordinary
Python with ``NUMBA_DISABLE_JIT=1``.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from longstride.errors import PolicyNotFiniteError, SimulatorError
from longstride.simulators.hooks import Hooks
from longstride.simulators.spaces import ActionSpace, MultiDiscrete, description

Function = Callable[..., Any]

OK, OBSERVATION_TOO_LONG, OBSERVATION_NOT_FINITE, EMPTY_MASK, REWARD_NOT_FINITE = range(5)
POLICY_NOT_FINITE, ACTION_NOT_ALLOWED, FEATURE_NOT_FINITE, LISTS_FULL, DESCRIPTION_NOT_FINITE = 5, 6, 7, 8, 9
CLOCK_NOT_FORWARD = 10

_LARGEST_METRIC = 1e150
"""Size from which squares of metrics overflow."""


class Simulator:
    """Base class that holds the defaults of the contract; a subclass sets the attributes and defines the functions.

    Functions, written without ``self`` (plain or ``@staticmethod``), compiled by Numba:

    * ``reset(state, parameters, rng)`` fills the record ``state`` in place.
    * ``observe(state, parameters, observation)`` writes float32[observation_size], which comes in all 0.
    * ``step(state, parameters, action, rng) -> (reward, terminated)`` changes ``state``; action is an integer
      (Discrete), int64[choices] (MultiDiscrete) or float32[numbers] within the bounds (Box).
    * ``action_mask(state, parameters, mask)`` (optional, not for Box) writes bool[n], for MultiDiscrete the choices'
      masks one after another; it comes in all True. It is called before each decision, after ``observe``, perhaps twice
      for a state, and not after the last step of an episode.
    * ``action_features(state, parameters, mask, features)`` (optional, not for Box) writes float32[n,
      action_feature_size], figures about the allowed actions; it comes in all 0. The policy adds ``features @ w`` to
      its logits. All actions share the learned weights ``w``, so a known figure need not be learned for each action.
    * ``summarise(state, parameters, summary)`` and ``describe_actions(state, parameters, ids, descriptions) -> count``
      (optional, for Discrete, both or neither): what ``POLICY_NETWORK = "pointer"`` chooses from. The first writes
      float32[summary_size], which comes in all 0: an observation whose size does not depend on how many things the
      simulator holds. The second writes a row for each action that the mask allows, ids int32[n] and descriptions
      float32[n, description_size], the first ``count`` rows of both; they come in with any numbers.
    * ``truncated(state, parameters) -> bool`` (optional) cuts the episode where the process itself does not end. The
      value of the last state is bootstrapped. ``max_steps`` truncates as well.
    * ``control_variate(state, parameters) -> float`` (optional): a running sum with expected increments of 0 under
      every policy (a martingale), for example arrivals so far minus those expected by now. Each update of PPO estimates
      the effect of one unit and takes it out of what it learns from, which has less noise then.
    * ``time(state, parameters) -> float`` (optional): simulated time, for a discount per unit of time.

    Ordinary Python, called once an episode and not compiled:

    * ``episode_metrics(state, parameters, metrics)`` (optional) fills a record of ``metrics_dtype``.
    * ``figures(self, records)`` (optional), a method, returns matplotlib figures by title for a report; records are
      policy -> records of its evaluated episodes.

    ``rng`` is a ``numpy.random.Generator``. Nothing else may carry information from one call to the next.

    Attributes:
        observation_size: number of float32 values in an observation.
        action_space: space of the actions.
        max_steps: environment steps after which an episode is truncated.
        state_dtype: dtype of the state record.
        parameters: NamedTuple of read-only arrays and scalars that every function receives.
        metrics_dtype: dtype of the metrics of a finished episode, or None.
        initial_logits: float[n], for MultiDiscrete float[sum(sizes)], preferences of an untrained policy (added to
            the output biases), or None; not for Box.
        action_feature_size: number of figures per action that ``action_features`` writes.
        initial_feature_weights: float[action_feature_size], shared weights of an untrained policy, or None for 0.
        summary_size: number of float32 values that ``summarise`` writes.
        description_size: number of figures about an action that ``describe_actions`` writes.
        initial_description_weights: float[description_size], weights of the descriptions in the scores of an untrained
            policy, or None for 0.
        expected_actions: feasible actions of a usual decision, for plans of memory; the memory grows where they are
            more.
        main_metric: name of the metric that progress shows and that chooses the best checkpoint.
        main_metric_lower_is_better: True for costs and times.
        metric_units: mapping from a metric to its unit, such as ``"minutes"``, ``"share"`` or ``"items"``. Times
            (``"seconds"``, ``"minutes"``, ``"hours"``, ``"days"``) are shown in the unit that suits their size.
        metric_labels: mapping from a metric of several numbers to their names.
        mean_interval: simulated time that ``GAMMA`` and ``VALUE_LAMBDA`` refer to, such as the mean time between two
            arrivals; 0 for the mean time between two steps, as measured before the first iteration.
        expected_steps: environment steps of a nominal episode, or None if only ``max_steps`` is known.
        heuristics: mapping from a name to ``heuristic(state, parameters, mask, rng) -> action``, compiled too; for
            MultiDiscrete and Box ``heuristic(state, parameters, mask, rng, action)`` writes the array, which comes in
            all 0.
        optimal: name of the heuristic that is optimal, or nearly so; verdicts say how far away it is. Empty for none.
        bounds: mapping from a name to ``bound(state, parameters, metrics)``, not compiled. A bound takes the state
            as ``reset`` left it and fills metrics that no policy can beat on this episode's random draws.
        references: mapping from a name to a value of the main metric that is known from elsewhere, such as a published
            optimum. An evaluation shows them beside the policies, and the gap of each policy to the first. Unlike a
            bound, a reference is a long-run mean: a policy may beat it on some episodes.
        quantities: mapping from a quantity that ``step`` weighs to its unit, such as ``"items"``. ``parameters`` then
            has a field ``weights``, float64[quantities]. The reward is minus the sum over the quantities of what the
            step adds, times the weight. OBJECTIVE replaces the weights.
        labels: mapping from ``"observation"``, ``"action"`` and ``"features"`` to names of the numbers, and from the
            same with ``_units`` to their units; an export hands them on. ``"action"`` has one for each value of all
            choices, or for each number of a Box.
        compiled: False for an environment that Python steps; it has no functions to compile.
        resumable: False if an unfinished episode cannot be saved and continued.
        exploring_starts: False if training must not begin from copies of earlier states (EXPLORING_STARTS), as where
            observations hide a part of the state.
        default_rollout_steps: environment steps of a rollout if ``ROLLOUT_STEPS`` is 0; 0 for whole episodes.
        hooks: what runs, evaluations and reports ask of it besides its episodes.
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
    summary_size: int = 0
    description_size: int = 0
    initial_description_weights: np.ndarray | None = None
    expected_actions: float = 0.0
    main_metric: str = "return"
    main_metric_lower_is_better: bool = False
    metric_units: Mapping[str, str] = {}
    metric_labels: Mapping[str, Sequence[str]] = {}
    mean_interval: float = 0.0
    expected_steps: int | None = None
    heuristics: Mapping[str, Function] = {}
    optimal: str = ""
    bounds: Mapping[str, Function] = {}
    references: Mapping[str, float] = {}
    quantities: Mapping[str, str] = {}
    labels: Mapping[str, Sequence[str]] = {}
    compiled: bool = True
    resumable: bool = True
    exploring_starts: bool = True
    default_rollout_steps: int = 0
    hooks: Hooks = Hooks()

    def message(self, state: np.void) -> str | None:
        """Return a sentence for the user about how this episode ended, or None."""
        return None

    def unit_of(self, metric: str) -> str:
        """Return the unit of a metric; empty if it is not known, and for the return."""
        return self.metric_units.get(metric, "")

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics of one number that ``episode_metrics`` may fill."""
        dtype = np.dtype(self.metrics_dtype or [])
        return tuple(name for name in dtype.names or () if not dtype[name].shape)

    def description(self) -> dict[str, Any]:
        """Return the JSON values in a checkpoint that must be the same in the simulator that loads it."""
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
    summarise: Function
    describe_actions: Function
    truncated: Function
    time: Function
    control_variate: Function


def function_of(simulator: Simulator, name: str) -> Function | None:
    """Return the plain Python function that a simulator defines under a name, or None."""
    return getattr(type(simulator), name, None)


def new_state(simulator: Simulator) -> np.ndarray:
    """Return an array with one zeroed state record, ``state_dtype``[1]; index 0 is the record."""
    return np.zeros(1, simulator.state_dtype).view(np.recarray)


def metrics_of(simulator: Simulator, states: np.ndarray, fill: Function | None = None) -> dict[str, Any]:
    """Return the metrics of a finished episode as JSON values (a list for a metric of several numbers).

    Metrics that stay unfilled, or are infinite or too large to compute with, are left out.

    Args:
        simulator: simulator of the episode.
        states: ``state_dtype``[1], the state at the end of the episode.
        fill: function ``fill(state, parameters, metrics)``; None for the simulator's own ``episode_metrics``.
    """
    fill = fill or function_of(simulator, "episode_metrics")
    if simulator.metrics_dtype is None or fill is None:
        return {}
    metrics = np.zeros(1, simulator.metrics_dtype).view(np.recarray)
    for name in metrics.dtype.names:
        if np.issubdtype(metrics.dtype[name].base, np.floating):
            metrics[name] = np.nan
    fill(states[0], simulator.parameters, metrics[0])
    values = {name: metrics[0][name] for name in metrics.dtype.names}
    return {name: value.tolist() for name, value in values.items() if (np.abs(value) < _LARGEST_METRIC).all()}


def compile_functions(simulator: Simulator) -> Compiled:
    """Wrap the functions of a complete simulator with ``njit``; Numba compiles them at their first call."""
    return Compiled(*(compiled(function_of(simulator, name) or _DEFAULTS[name]) for name in Compiled._fields))


@cache
def compiled(function: Function) -> Function:
    """Return a function wrapped with ``njit(nogil=True)``, the same object each time; a wrapped one is unchanged."""
    return function if hasattr(function, "py_func") else njit(nogil=True)(function)


def describe_fault(status: int, simulator: Simulator, episode: str, step: int) -> SimulatorError:
    """Return the error for a status code of a compiled loop.

    Args:
        status: status code other than ``OK``.
        simulator: simulator that was played.
        episode: name of the episode.
        step: number of the environment step, from 0.
    """
    fault = {
        OBSERVATION_TOO_LONG: f"observe wrote more than the declared observation_size = {simulator.observation_size}",
        OBSERVATION_NOT_FINITE: "observe wrote a NaN or an infinite value",
        EMPTY_MASK: empty_mask(simulator.action_space),
        REWARD_NOT_FINITE: "step returned a reward that is NaN or infinite",
        CLOCK_NOT_FORWARD: "the clock went back in a step, or is not a number",
        POLICY_NOT_FINITE: "the policy's own outputs were NaN; lower the learning rates",
        FEATURE_NOT_FINITE: "action_features wrote a NaN or an infinite value",
        DESCRIPTION_NOT_FINITE: "describe_actions wrote a NaN or an infinite value",
        LISTS_FULL: "there was no room for the descriptions of its feasible actions",
        ACTION_NOT_ALLOWED: "a heuristic chose an action that the mask forbids or that is not finite",
    }[status]
    kind = PolicyNotFiniteError if status == POLICY_NOT_FINITE else SimulatorError
    return kind(f"{type(simulator).__name__}, episode {episode}, step {step}: {fault}.")


def empty_mask(space: ActionSpace) -> str:
    """Return the clause about a mask that allows nothing."""
    return f"action_mask allowed no {'value of a choice' if isinstance(space, MultiDiscrete) else 'action'}"


@njit(nogil=True)
def _all_allowed(state, parameters, mask):  # type: ignore[no-untyped-def]
    pass


@njit(nogil=True)
def _no_features(state, parameters, mask, features):  # type: ignore[no-untyped-def]
    pass


@njit(nogil=True)
def _no_summary(state, parameters, summary):  # type: ignore[no-untyped-def]
    pass


@njit(nogil=True)
def _no_descriptions(state, parameters, ids, descriptions):  # type: ignore[no-untyped-def]
    return 0


@njit(nogil=True)
def _never(state, parameters):  # type: ignore[no-untyped-def]
    return False


@njit(nogil=True)
def _zero(state, parameters):  # type: ignore[no-untyped-def]
    return 0.0


_DEFAULTS: dict[str, Function] = {
    "action_mask": _all_allowed,
    "action_features": _no_features,
    "summarise": _no_summary,
    "describe_actions": _no_descriptions,
    "truncated": _never,
    "time": _zero,
    "control_variate": _zero,
}
