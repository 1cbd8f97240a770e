"""Gymnasium's spaces and ours: observations as rows of float32, actions to and from arrays.

Gymnasium is optional, so it is imported where it is used.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from longstride.errors import UserError
from longstride.simulators.float32 import unfit_number, write_float32
from longstride.simulators.spaces import ActionSpace, Box, Discrete, MultiDiscrete

Encode = Callable[[Any, np.ndarray], None]
"""``encode(observation, row)`` writes an observation into float32[size], or raises ValueError with the problem."""

Decode = Callable[[np.ndarray], Any]
"""``decode(action)`` returns the action for the environment's step."""

OBSERVATIONS = "Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of these"
ACTIONS = "Discrete, MultiDiscrete, MultiBinary and Box (of real numbers)"


def build_encode(space: Any, where: str) -> tuple[int, Encode]:
    """Return the size of an observation's row and its writer, in the order of ``gymnasium``'s ``flatten``.

    Raises:
        UserError: the space has no fixed number of values.
    """
    leaves = list(_leaves(space, "observation", where))
    if len(leaves) == 1 and leaves[0][1] is space:
        return _leaf_encode(space, "observation")
    encodes, begin = [], 0
    for name, leaf, find in leaves:
        size, encode = _leaf_encode(leaf, name)
        encodes.append((name, find, slice(begin, begin + size), encode))
        begin += size

    def encode_all(observation: Any, row: np.ndarray) -> None:
        for name, find, part, encode in encodes:
            try:
                value = find(observation)
            except (KeyError, IndexError, TypeError):
                raise ValueError(f"{name} is missing") from None
            encode(value, row[part])

    return begin, encode_all


def _leaves(space: Any, name: str, where: str) -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
    """Yield name, space and getter of each part of a Dict or Tuple, or of the space itself."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in parts:
            for inner, leaf, find in _leaves(part, f"{name}[{key!r}]", where):
                yield inner, leaf, _inside(key, find)
    elif isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        yield name, space, lambda value: value
    else:
        kind = type(space).__name__
        raise UserError(f"{where}: {name} is in a {kind} space, which is not supported; supported are {OBSERVATIONS}.")


def _inside(key: Any, find: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: find(value[key])


def _leaf_encode(space: Any, name: str) -> tuple[int, Encode]:
    """Return the size of a simple space's row and its writer."""
    from gymnasium import spaces
    from gymnasium.spaces.utils import flatdim, flatten

    def encode_numbers(observation: Any, row: np.ndarray) -> None:
        if type(observation) is not np.ndarray or observation.shape != shape or observation.dtype != dtype:
            observation = _as_declared(observation, shape, dtype, name)
        if observation.dtype.itemsize <= row.itemsize:
            row[:] = observation if flat else observation.ravel()
            return
        write_float32(observation.ravel(), row)
        if not np.isfinite(row).all() and (clause := unfit_number(observation, name)):
            raise ValueError(clause)

    def encode_choices(observation: Any, row: np.ndarray) -> None:
        if not space.contains(observation):
            raise ValueError(f"{name} is {observation!r}, which is not in the declared space {space}")
        row[:] = flatten(space, observation)

    shape, dtype, flat = space.shape, space.dtype, len(space.shape) == 1
    return flatdim(space), encode_numbers if isinstance(space, spaces.Box) else encode_choices


def name_of_number(space: Any, index: int, where: str) -> str:
    """Return what the number at an index of an observation's row is called, such as ``observation['speed'][0]``."""
    from gymnasium.spaces import Box
    from gymnasium.spaces.utils import flatdim

    for name, leaf, _ in _leaves(space, "observation", where):
        size = flatdim(leaf)
        if index < size:
            place = np.unravel_index(index, leaf.shape) if isinstance(leaf, Box) else (index,)
            return f"{name}[{', '.join(map(str, place))}]" if place else name
        index -= size
    raise IndexError(index)


def _as_declared(observation: Any, shape: tuple[int, ...], dtype: Any, name: str) -> np.ndarray:
    """Return an observation as an array of the declared shape and kind of dtype, or raise ValueError."""
    array = np.asarray(observation)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, declared is {shape}")
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise ValueError(f"{name} has dtype {array.dtype}, declared is {dtype}")
    return array


def action_space_of(space: Any, where: str) -> tuple[ActionSpace, Decode]:
    """Return our action space for Gymnasium's, and the function that turns our action into one of its own.

    Raises:
        UserError: the space is not supported.
    """
    from gymnasium import spaces

    def reshaped(action: np.ndarray) -> np.ndarray:
        return action.reshape(space.shape).astype(space.dtype)

    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return Discrete(int(space.n)), lambda action: action.item() + start
    if isinstance(space, spaces.MultiDiscrete):
        sizes, first = [int(n) for n in space.nvec.ravel()], getattr(space, "start", 0)
        return MultiDiscrete(sizes), lambda action: (action.reshape(space.shape) + first).astype(space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return MultiDiscrete([2] * int(np.prod(space.shape))), reshaped
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        try:
            box = Box(space.low.ravel(), space.high.ravel())
        except ValueError:
            raise UserError(f"{where}: each bound of {space} below must be less than the one above.") from None
        return box, reshaped
    hint = "; declare integers as MultiDiscrete" if isinstance(space, spaces.Box) else ""
    raise UserError(f"{where}: the action space {space} is not supported; supported are {ACTIONS}{hint}.")


def to_gymnasium_space(space: ActionSpace) -> Any:
    """Return Gymnasium's space for one of ours."""
    from gymnasium import spaces

    if isinstance(space, Discrete):
        return spaces.Discrete(space.n)
    if isinstance(space, MultiDiscrete):
        return spaces.MultiDiscrete(list(space.sizes))
    return spaces.Box(*space.bounds, dtype=np.float32)
