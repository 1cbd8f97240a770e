"""Records of instances that are made where they are read: states of policies can be large."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from longstride.rollout.fault_locator import record_of


class Records(Mapping[str, np.ndarray]):
    """Maps the names of instances to uint8[*], the bytes of the simulator's state and then of the policy's.

    Args:
        names: those of S instances.
        states: ``state_dtype``[S], the simulator's states, which must not change.
        policy_states: returns float32[S, state_size], the same whenever it is called.
    """

    def __init__(self, names: list[str], states: np.ndarray, policy_states: Callable[[], np.ndarray]) -> None:
        self._places = {name: i for i, name in enumerate(names)}
        self._states, self._get_policy_states = states, policy_states

    @cached_property
    def _policy_states(self) -> np.ndarray:
        return self._get_policy_states()

    def __getitem__(self, name: str) -> np.ndarray:
        i = self._places[name]
        return np.frombuffer(record_of(self._states[i : i + 1], self._policy_states[i : i + 1]), np.uint8).copy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)  # other processes take ordinary ones
