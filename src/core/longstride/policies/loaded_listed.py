"""A trained policy that scores lists of actions, for other programs: NumPy arrays in, places in the lists out."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from longstride.errors import UserError
from longstride.jit_cache.cache import compile_for
from longstride.policies.compiled.candidates import build_act_on_list, build_scorer
from longstride.policies.compiled.decide import build_decide_on_list
from longstride.policies.compiled.forward import align_params, new_policy_states, workspace
from longstride.policies.spec import PolicySpec
from longstride.simulators.float32 import unfit_number
from longstride.simulators.simulator import Function


class LoadedListPolicy:
    """A trained policy of ``POLICY_NETWORK = "pointer"``. It needs neither its simulator nor a GPU.

    Each thread needs an object of its own. The arguments are those of
    :class:`longstride.policies.loaded_policy.LoadedPolicy`.
    """

    def __init__(
        self, spec: PolicySpec, params: np.ndarray, seed: int | np.random.Generator = 0, draws: bool = False
    ) -> None:
        if not np.isfinite(params).all():
            raise UserError("The parameters of the policy are not finite; load an earlier checkpoint.")
        self.spec, self.draws = spec, draws
        self._params, self._workspace = align_params(params, spec), workspace(spec)
        self._state, self._scratch = (
            new_policy_states(spec, 1)[0],
            np.zeros(build_scorer(spec).scratch_size, np.float32),
        )
        self._kernel = build_act_on_list(spec)
        self.reset(seed)
        observation, features = (np.zeros(shape, np.float32) for shape in self._shapes(1))
        compile_for(self._kernel, self._arguments(observation, features, 0.0))

    def reset(self, seed: int | np.random.Generator | None = None) -> None:
        """Begin an episode. A seed, or a generator, is for the draws from here on; None continues those of before."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)

    def act(
        self,
        observation: np.ndarray,
        mask: None = None,
        features: np.ndarray | Sequence[np.ndarray] | None = None,
        greedy: bool | None = None,
    ) -> Any:
        """Return the place of the chosen action among the feasible ones, or B places for a batch of B.

        Args:
            observation: float32[O] or float32[B, O], what the simulator's ``summarise`` writes.
            mask: None; a list of the feasible actions needs no mask.
            features: float32[n, F], what the simulator's ``describe_actions`` writes for n feasible actions, at least
                one; for a batch a sequence of B such arrays, whose n may differ.
            greedy: True for the likeliest action, False for a draw from the policy's distribution; None for what is
                better, as ``draws`` says.

        Returns:
            An int, the row of ``features``; for a batch int64[B].

        Raises:
            UserError: an array has a wrong shape or dtype or is not finite, or a list is empty.
        """
        observation, greedy = np.asarray(observation), not self.draws if greedy is None else greedy
        if mask is not None:
            raise UserError("The policy chooses from a list of feasible actions, which takes no mask; leave mask out.")
        if features is None:
            raise UserError(
                f"The policy scores actions: pass features=float32[n, {self.spec.action_features}], what the "
                "simulator's describe_actions writes for the n feasible actions."
            )
        if observation.ndim == 1:
            return self._act(observation, np.asarray(features), greedy)
        if observation.ndim != 2 or len(features) != len(observation):
            raise UserError(
                f"A batch of observations, float32[B, {self.spec.observation_size}], needs a list of B arrays of "
                f"features, not {len(features)} for shape {list(observation.shape)}."
            )
        pairs = zip(observation, features, strict=True)
        return np.array([self._act(row, np.asarray(each), greedy) for row, each in pairs], np.int64)

    def decide(self, observation: np.ndarray, features: np.ndarray) -> tuple[int, np.ndarray]:
        """Return the place of the likeliest action, the one of :meth:`act`, and the probabilities of all n, float32[n].

        Raises:
            UserError: as in :meth:`act`.
        """
        given = np.asarray(observation), np.asarray(features)
        arrays = self._checked(*given)
        probabilities = np.empty(len(features), np.float32)
        params, *inputs, _, state, workspace, scratch = self._arguments(*arrays, -1.0)
        place = self._decide(params, *inputs, probabilities, state, workspace, scratch)
        return self._found(int(place), given), probabilities

    @cached_property
    def _decide(self) -> Function:
        return build_decide_on_list(self.spec)

    def _act(self, observation: np.ndarray, features: np.ndarray, greedy: bool) -> int:
        arrays = self._checked(observation, features)
        noise = -1.0 if greedy else self._rng.random()
        return self._found(int(self._kernel(*self._arguments(*arrays, noise))), (observation, features))

    def _checked(self, observation: np.ndarray, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return both arguments as contiguous arrays of float32."""
        for name, array, shape in zip(
            ("observation", "features"), (observation, features), self._shapes(len(features)), strict=True
        ):
            if array.shape != shape or array.dtype.kind not in "fiub":
                wanted = ["n" if k == 0 and name == "features" else size for k, size in enumerate(shape)]
                raise UserError(
                    f"{name} must be float32[{', '.join(map(str, wanted))}], not {array.dtype}{list(array.shape)}."
                )
        if len(features) == 0:
            raise UserError("features lists no action; there must be one to choose.")
        with np.errstate(over="ignore"):  # infinite numbers are refused afterwards
            return np.ascontiguousarray(observation, np.float32), np.ascontiguousarray(features, np.float32)

    def _found(self, place: int, given: tuple[np.ndarray, np.ndarray]) -> int:
        """Return a place, or raise what is wrong with the arguments that led to none."""
        if place >= 0:
            return place
        for name, array in zip(("observation", "features"), given, strict=True):
            if clause := unfit_number(array, name):
                raise UserError(f"{clause}.")
        raise UserError("The outputs of the policy are not finite; load an earlier checkpoint.")

    def _shapes(self, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (self.spec.observation_size,), (count, self.spec.action_features)

    def _arguments(self, observation: np.ndarray, features: np.ndarray, noise: float) -> tuple[Any, ...]:
        return self._params, observation, features, noise, self._state, self._workspace, self._scratch
