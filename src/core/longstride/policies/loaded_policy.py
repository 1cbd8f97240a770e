"""A trained policy for other programs: NumPy arrays in, actions out."""

from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from longstride.errors import UserError
from longstride.jit_cache.cache import compile_for
from longstride.policies.compiled.act import BLOCK, build_act
from longstride.policies.compiled.decide import build_decide
from longstride.policies.compiled.forward import align_params, workspace
from longstride.policies.compiled.sampling import row_of
from longstride.policies.spec import PolicySpec
from longstride.simulators.float32 import unfit_number, write_float32
from longstride.simulators.simulator import Function
from longstride.simulators.spaces import Discrete


class _Rows(NamedTuple):
    """The arguments of the compiled policy that have a row for each observation (longstride.policies.compiled.act).

    Inputs are float32[B, O + values * k + S]; observations [B, O], features [B, values, k] and states [B, S] are views
    of them. Masks are bool[B, values], actions float64[B, n].
    """

    inputs: np.ndarray
    observations: np.ndarray
    features: np.ndarray
    states: np.ndarray
    masks: np.ndarray
    actions: np.ndarray


class LoadedPolicy:
    """A trained policy. It needs neither its simulator nor a GPU; each thread needs an object of its own.

    A policy with memory keeps its state from one call of :meth:`act` to the next: call :meth:`reset` when an episode
    begins. Of a batch, row i is the next step of row i of the call before.

    Args:
        spec: architecture of the policy, an attribute too: observation size, action space, layers, action features.
        params: float32[*], the actor's part of the flat parameters.
        seed: seed of the draws of :meth:`act`, or a generator for them.
        draws: whether it draws its actions where nobody says, an attribute too.

    Raises:
        UserError: a parameter is NaN or infinite.
    """

    def __init__(
        self, spec: PolicySpec, params: np.ndarray, seed: int | np.random.Generator = 0, draws: bool = False
    ) -> None:
        if not np.isfinite(params).all():
            raise UserError("The parameters of the policy are not finite; load an earlier checkpoint.")
        self.spec, self.draws = spec, draws
        self._params, self._workspace = align_params(params, spec), workspace(spec, BLOCK)
        self._kernel = build_act(spec)
        values, self._has_features = sum(spec.action_space.choices), spec.action_features > 0
        self._observation_shape, self._mask_shape = (spec.observation_size,), (values,)
        self._features_shape = (values, spec.action_features)
        self._is_discrete, self._dtype = isinstance(spec.action_space, Discrete), spec.action_space.dtype
        self._one, self._one_has_mask = self._new_rows(1), False
        self._batch_states: np.ndarray | None = None
        self.reset(seed)
        one = self._one
        compile_for(self._kernel, (self._params, one.inputs, one.masks, one.actions, True, self._workspace))

    def reset(self, seed: int | np.random.Generator | None = None) -> None:
        """Begin an episode: a policy with memory forgets the one before.

        A seed, or a generator, is for the draws from here on; None continues the draws of before.
        """
        self._one.states[:] = 0.0
        self._batch_states = None
        if seed is not None:
            self._rng = np.random.default_rng(seed)

    def act(
        self,
        observation: np.ndarray,
        mask: np.ndarray | None = None,
        features: np.ndarray | None = None,
        greedy: bool | None = None,
    ) -> Any:
        """Return the action for one observation, or the actions for a batch of B.

        Args:
            observation: float32[O] or float32[B, O], what the simulator's ``observe`` writes, without scaling; other
                real numbers are converted.
            mask: bool[n] or bool[B, n], the allowed values of all choices; None allows all.
            features: float32[n, k] or float32[B, n, k], what the simulator's ``action_features`` writes; for policies
                that were trained with them, and only for those.
            greedy: True for the likeliest action, False for a draw from the policy's distribution; None for what is
                better, as ``draws`` says.

        Returns:
            Discrete: an int, or int64[B]. MultiDiscrete: int64[choices] or int64[B, choices]. Box: float32[numbers] or
            float32[B, numbers] within the bounds.

        Raises:
            UserError: an array has a wrong shape or dtype or is not finite, or a mask allows nothing.
        """
        greedy = not self.draws if greedy is None else greedy
        shape = self._observation_shape
        if type(observation) is not np.ndarray or observation.shape != shape or observation.dtype.kind != "f":
            observation = _checked("observation", observation, shape, None)
        one = observation.ndim == 1
        rows, count = (self._one, None) if one else (self._new_rows(len(observation)), len(observation))
        if observation.dtype.itemsize <= 4:
            rows.observations[:] = observation
        else:
            write_float32(observation, rows.observations)
        if mask is not None or self._one_has_mask:
            rows.masks[:] = True if mask is None else _checked("mask", mask, self._mask_shape, count)
            self._one_has_mask = mask is not None if one else self._one_has_mask
        if features is not None or self._has_features:
            write_float32(_checked("features", self._required(features), self._features_shape, count), rows.features)
        actions = rows.actions
        if not greedy:
            draw = self._rng.standard_normal if self.spec.is_gaussian else self._rng.random
            draw(out=actions)
        if not one and self.spec.has_memory:
            rows.states[:] = self._states_of_batch(len(actions))
        done = self._kernel(self._params, rows.inputs, rows.masks, actions, greedy, self._workspace)
        if done != len(actions):
            raise UserError(_fault(rows, done, (observation, features), self.spec.action_space.choices))
        if not one and self.spec.has_memory:
            self._batch_states = rows.states.copy()
        if self._is_discrete:
            return int(actions.item()) if one else actions[:, 0].astype(np.int64)
        return (actions[0] if one else actions).astype(self._dtype)

    def decide(
        self, observation: np.ndarray, mask: np.ndarray | None = None, features: np.ndarray | None = None
    ) -> tuple[int, np.ndarray]:
        """Return the likeliest action, the one of :meth:`act`, and the probabilities of all n actions, float32[n].

        The arguments are those of :meth:`act` for one observation; the policy's actions are Discrete. A policy with
        memory remembers the step.

        Raises:
            UserError: as in :meth:`act`, or the actions are not Discrete.
        """
        rows = self._one
        write_float32(_checked("observation", observation, self._observation_shape, None), rows.observations)
        rows.masks[:] = True if mask is None else _checked("mask", mask, self._mask_shape, None)
        self._one_has_mask = mask is not None
        if features is not None or self._has_features:
            write_float32(_checked("features", self._required(features), self._features_shape, None), rows.features)
        probabilities = np.empty(self._mask_shape, np.float32)
        action = self._decide(self._params, rows.inputs[0], rows.masks[0], probabilities, self._workspace)
        if action < 0:
            raise UserError(_fault(rows, 0, (observation, features), self.spec.action_space.choices))
        return int(action), probabilities

    @property
    def memory(self) -> np.ndarray:
        """What the policy remembers of the episode, float32[S], S = 0 without memory; it can be set."""
        return np.array(self._one.states[0])

    @memory.setter
    def memory(self, values: np.ndarray) -> None:
        size = self.spec.state_size
        if values.shape != (size,) or not np.isfinite(values).all():
            raise UserError(f"memory must be {size} finite numbers, what the policy's memory was before.")
        self._one.states[0] = values

    @cached_property
    def _decide(self) -> Function:
        if not self._is_discrete:
            raise UserError("decide is for Discrete actions; the policy's are not, so use act.")
        kernel, one = build_decide(self.spec), self._one
        probabilities = np.empty(self._mask_shape, np.float32)
        compile_for(kernel, (self._params, one.inputs[0], one.masks[0], probabilities, self._workspace))
        return kernel

    def _required(self, features: np.ndarray | None) -> np.ndarray:
        """Return action features; they must be given where, and only where, the policy was trained with them."""
        if features is None:
            n, k = self._features_shape
            raise UserError(
                f"The policy was trained with action features: pass features=float32[{n}, {k}], what the simulator's "
                "action_features writes."
            )
        if not self._has_features:
            raise UserError("The policy was trained without action features; leave features out.")
        return features

    def _states_of_batch(self, count: int) -> np.ndarray | float:
        """Return the states that the batch before left, zeros after a reset."""
        if self._batch_states is None:
            return 0.0
        if len(self._batch_states) != count:
            raise UserError(
                f"The batch has {count} observations, the one before had {len(self._batch_states)}, and the policy has "
                "memory of each row; keep the number, or call reset() when episodes begin."
            )
        return self._batch_states

    def _new_rows(self, count: int) -> _Rows:
        n_observation, n_features = self.spec.observation_size, prod(self._features_shape)
        begin_state = n_observation + n_features
        inputs = np.zeros((count, begin_state + self.spec.state_size), np.float32)
        features = inputs[:, n_observation:begin_state].reshape(count, *self._features_shape)
        masks = np.ones((count, *self._mask_shape), np.bool_)
        actions = np.zeros((count, row_of(self.spec.action_space)[0]))
        return _Rows(inputs, inputs[:, :n_observation], features, inputs[:, begin_state:], masks, actions)


def _checked(name: str, value: Any, shape: tuple[int, ...], count: int | None) -> np.ndarray:
    """Return an argument as an array of this shape for each of ``count`` observations; None for one alone."""
    kinds, dtype = ("b", "bool") if name == "mask" else ("fiub", "float32")
    wanted = shape if count is None else (count, *shape)
    if type(value) is np.ndarray and value.shape == wanted and value.dtype.kind in kinds:
        return value
    if shape == (0,):
        raise UserError("The policy's actions are real numbers, which take no mask; leave mask out.")
    try:
        array = np.asarray(value)
    except ValueError:
        raise UserError(f"{name} is a list of lists of different lengths; pass one NumPy array.") from None
    any_batch = name == "observation" and array.shape[1:] == shape
    if (array.shape != wanted and not any_batch) or array.dtype.kind not in kinds:
        batch = f" or {dtype}[B, {shape[0]}]" if name == "observation" else ""
        raise UserError(f"{name} must be {dtype}{list(wanted)}{batch}, not {array.dtype}{list(array.shape)}.")
    return array


def _fault(rows: _Rows, row: int, given: tuple[Any, Any], choices: tuple[int, ...]) -> str:
    """Return the sentence about the first row that the compiled policy refused.

    ``given`` are the observations and features of the call; choices are those of an action.
    """
    where = f" in row {row} of the batch" if len(rows.actions) > 1 else ""
    for name, numbers in zip(("observation", "features"), given, strict=True):
        if numbers is not None and (clause := unfit_number(numbers, name)):
            return f"{clause}."
    if choices and not all(part.any() for part in np.split(rows.masks[row], np.cumsum(choices[:-1]))):
        return f"mask allows no action{where}; every choice needs an allowed value."
    return f"The outputs of the policy are not finite{where}; load an earlier checkpoint."
