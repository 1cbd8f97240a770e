"""Reading the JSON files of a run: content of another shape is an error, never a surprise later on."""

import math
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypeVar

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, with_config
from pydantic_core import from_json
from typing_extensions import TypedDict

T = TypeVar("T")

_ANYTHING = ConfigDict(extra="allow", strict=True)
"""Further keys may be there: of this version, of an earlier or of a later one."""

_LARGEST = 1e300
"""Size of a number from which on arithmetic with it may overflow."""

Count = Annotated[int, Field(ge=0, le=2**53)]
Number = float | None
Numbers = list[Number] | list[list[float] | None]


@with_config(_ANYTHING)
class _Resume(TypedDict):
    after_iteration: Count
    before: dict[str, JsonValue]


@with_config(_ANYTHING)
class _Settings(TypedDict, total=False):
    values: dict[str, JsonValue]
    sources: dict[str, str]
    passed_over: list[str]
    resumed: list[_Resume]


@with_config(_ANYTHING)
class _Machine(TypedDict, total=False):
    usable_cores: Count
    total_bytes: Count
    gpus: list[dict[str, JsonValue]]


@with_config(_ANYTHING)
class _Plan(TypedDict, total=False):
    batch_size: Count
    reasons: dict[str, str]
    machine: _Machine


@with_config(_ANYTHING)
class _Interval(TypedDict):
    mean: float | list[float]  # a list of a metric with several values
    low: NotRequired[Number | list[float]]
    high: NotRequired[Number | list[float]]


@with_config(_ANYTHING)
class _Evaluation(TypedDict, total=False):
    episodes: Count
    policies: dict[str, dict[str, _Interval]]
    main_metric: str
    units: dict[str, str]
    kinds: dict[str, str]
    references: dict[str, float]
    seed: Count
    messages: list[str]
    per_episode: dict[str, dict[str, Numbers]]


@with_config(_ANYTHING)
class _IterationEvaluation(TypedDict, total=False):
    seconds: Number
    metrics: dict[str, _Interval]


@with_config(_ANYTHING)
class _Record(TypedDict):
    iteration: Annotated[int, Field(ge=1, le=2**53)]


@with_config(_ANYTHING)
class _WholeRecord(_Record, total=False):
    evaluation: _IterationEvaluation | None
    units: dict[str, str]
    trajectory_sha256: str
    share_done: float


@with_config(_ANYTHING)
class _Facts(TypedDict, total=False):
    iteration: Count
    tensors: str
    tensors_sha256: str
    simulator: dict[str, JsonValue]
    source: dict[str, JsonValue]
    policy: dict[str, JsonValue]
    best: Number
    best_judged_by: str
    main_metric: str
    ranks: Count


@with_config(_ANYTHING)
class _Sent(TypedDict, total=False):
    run: str


OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, JsonValue])
"""Any object."""
SETTINGS: TypeAdapter[Any] = TypeAdapter(_Settings)
"""config.json."""
PLAN: TypeAdapter[Any] = TypeAdapter(_Plan)
"""plan.json."""
EVALUATION: TypeAdapter[Any] = TypeAdapter(_Evaluation)
"""evaluation.json."""
RECORD: TypeAdapter[Any] = TypeAdapter(_WholeRecord)
"""A line of metrics.jsonl."""
FACTS: TypeAdapter[Any] = TypeAdapter(_Facts)
"""The JSON file of a checkpoint."""
TRACKING: TypeAdapter[Any] = TypeAdapter(dict[str, _Sent])
"""The name of a run in a service, by target."""


def read_json(path: Path, shape: TypeAdapter[Any] = OBJECT) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no JSON, nested too deeply, or of another shape.
    """
    return parse_json(path.read_bytes(), shape)


def parse_json(content: bytes | str, shape: TypeAdapter[Any] = OBJECT) -> dict[str, Any]:
    """Return the object in JSON text, every value as it is written.

    Raises:
        ValueError: it is no JSON, nested too deeply, or of another shape.
    """
    value = from_json(content)
    require_shape(value, shape)
    return dict(value)


def require_shape(value: Any, shape: TypeAdapter[Any]) -> None:
    """Check the shape of a JSON value, which stays as it is.

    Raises:
        ValueError: it has another shape, or a number that is too large to compute with.
    """
    shape.validate_python(value, strict=True)
    if shape is not FACTS:  # whose generators have integers of 128 bits
        _require_numbers(value)


def _require_numbers(value: Any) -> None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _require_numbers(each)
    elif isinstance(value, int | float) and (-math.inf < value <= -_LARGEST or _LARGEST <= value < math.inf):
        raise ValueError("a number is too large")


def object_in(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one if there is none."""
    with suppress(OSError, ValueError):
        return read_json(path)
    return {}
