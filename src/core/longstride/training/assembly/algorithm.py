"""From a Config to what an update computes: the algorithm, the schedule of its coefficients, and settings by name."""

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from longstride.config import Config
from longstride.errors import UserError
from longstride.learning.algorithms.grpo import Grpo
from longstride.learning.algorithms.interface import Algorithm
from longstride.learning.algorithms.ppo import Ppo
from longstride.learning.schedule import Coefficients, Schedule
from longstride.training.callbacks import name_of
from longstride.training.extensions import NO_EXTENSIONS, Extensions

T = TypeVar("T")

ALGORITHMS: dict[str, type[Any]] = {"ppo": Ppo, "grpo": Grpo}
"""Algorithms by their names in ALGORITHM: dataclasses, whose fields take the settings of the same names.

The type of ``coefficients`` is a NamedTuple of floats, which are settings, too.
"""

_SETTINGS = {"clip_range": "ppo_clip_param"}
"""Fields whose settings have other names."""

_MEMBERS = ("needs_critic", "group_size", "learns_from_all", "terms", "coefficients", "targets", "loss")
"""Names of an :class:`Algorithm`."""


def from_config(kind: type[T], config: Config, **others: Any) -> T:
    """Return settings, a dataclass or NamedTuple: fields as given, else the values of the same names in a Config."""
    settings = {name: _SETTINGS.get(name, name) for name in _fields_of(kind) if name not in others}
    filled = {name: getattr(config, setting) for name, setting in settings.items() if setting in Config.model_fields}
    return kind(**others, **filled)


def _fields_of(kind: Any) -> Iterable[str]:
    return [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields


def build_algorithm(config: Config, extensions: Extensions = NO_EXTENSIONS) -> Algorithm:
    """Return the algorithm of a run with its first coefficients.

    Raises:
        UserError: a program's function returns none.
    """
    kind = ALGORITHMS[config.algorithm]
    coefficients = from_config(kind.__annotations__["coefficients"], config)
    algorithm: Algorithm = from_config(kind, config, coefficients=coefficients)
    return algorithm if extensions.algorithm is None else _of_a_program(extensions.algorithm, algorithm)


def _of_a_program(make: Callable[[Algorithm], Algorithm], usual: Algorithm) -> Algorithm:
    """Return the algorithm that a program's function makes of the one that the settings ask for."""
    algorithm = make(usual)
    missing = [name for name in _MEMBERS if not hasattr(algorithm, name)]
    if missing:
        raise UserError(f"algorithm: {name_of(make)} returned {algorithm!r:.80}, which lacks {', '.join(missing)}.")
    return algorithm


def build_schedule(config: Config, start: Any) -> Schedule:
    """Return how the coefficients of the update change over a run, from the first ones of its algorithm's loss."""
    rate = 0.0 if config.learning_rate_schedule == "linear" else 1.0
    last = {}
    if config.entropy_schedule == "linear":
        last["entropy_coefficient"] = config.entropy_coefficient_final
    if config.clip_range_schedule == "linear":
        last["clip_range"] = 0.0
    end = start._replace(**{name: value for name, value in last.items() if name in start._fields})
    return Schedule(Coefficients(1.0, start), Coefficients(rate, end))
