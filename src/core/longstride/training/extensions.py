"""Parts of a training that a program brings along: callbacks, an algorithm, a network."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from longstride.errors import UserError
from longstride.learning.algorithms.interface import Algorithm
from longstride.training.callbacks import name_of

_METHODS = ("on_start", "on_iteration", "on_evaluation", "on_end")


@dataclass(frozen=True)
class Extensions:
    """Parts that a program brings along.

    Attributes:
        callbacks: see the records of the run.
        algorithm: returns the algorithm, from the one that the settings ask for; None for that one.
    """

    callbacks: Sequence[Any] = ()
    algorithm: Callable[[Algorithm], Algorithm] | None = None

    def names(self) -> dict[str, Any]:
        """Return JSON values that name the parts; none without any."""
        names: dict[str, Any] = {}
        if self.callbacks:
            names["callbacks"] = [name_of(callback) for callback in self.callbacks]
        if self.algorithm is not None:
            names["algorithm"] = name_of(self.algorithm)
        return names


NO_EXTENSIONS = Extensions()


def checked(callbacks: Sequence[Any], algorithm: Any) -> Extensions:
    """Return the extensions that a caller passes.

    Raises:
        UserError: one is not what it should be.
    """
    for callback in callbacks:
        if not callable(callback) and not any(hasattr(callback, name) for name in _METHODS):
            raise UserError(f"callbacks: {callback!r:.80} is not a function and has none of {', '.join(_METHODS)}.")
    if algorithm is not None and not callable(algorithm):
        raise UserError(
            f"algorithm: {algorithm!r:.80} is not a function; pass one that takes the algorithm of the settings and "
            "returns another."
        )
    return Extensions(tuple(callbacks), algorithm)
