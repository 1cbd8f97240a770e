"""From a Config to what an update computes: the algorithm, the schedule of its coefficients, and settings by name."""

from typing import Any, TypeVar

from longstride.config import Config
from longstride.learning.algorithms.grpo import Grpo
from longstride.learning.algorithms.interface import Algorithm
from longstride.learning.algorithms.ppo import Ppo, PpoCoefficients
from longstride.learning.schedule import Coefficients, Schedule

T = TypeVar("T")


def from_config(kind: type[T], config: Config, **others: Any) -> T:
    """Return settings, a dataclass or NamedTuple: fields as given, else the values of the same names in a Config."""
    names = kind.__annotations__.keys() & Config.model_fields.keys() - others.keys()
    return kind(**others, **{name: getattr(config, name) for name in names})


def build_algorithm(config: Config) -> Algorithm:
    """Return the algorithm of a run with its first coefficients."""
    coefficients = from_config(PpoCoefficients, config, clip_range=config.ppo_clip_param)
    kind: type[Any] = Grpo if config.algorithm == "grpo" else Ppo
    algorithm: Algorithm = from_config(kind, config, coefficients=coefficients)
    return algorithm


def build_schedule(config: Config) -> Schedule:
    """Return how the coefficients of the update change over a run."""
    start = build_algorithm(config).coefficients
    rate = 0.0 if config.learning_rate_schedule == "linear" else 1.0
    entropy = config.entropy_coefficient_final if config.entropy_schedule == "linear" else start.entropy_coefficient
    end = start._replace(entropy_coefficient=entropy)
    return Schedule(Coefficients(1.0, start), Coefficients(rate, end))
