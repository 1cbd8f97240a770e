"""The state of a running process as JSON: waiting tasks, tasks in work, people on shift."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from longstride.errors import UserError, suggestion

_LONGEST = 1e12
"""Units of time; larger numbers have no room for hours."""

Time = Annotated[
    Annotated[float, Strict(), Field(ge=-_LONGEST, le=_LONGEST)] | Annotated[str, Strict()],
    Field(description="ISO 8601 date and time, or a number in the scenario's unit of time"),
]
Name = Annotated[str, Field(max_length=500)]
Place = Annotated[
    int, Strict(), Field(ge=0, description="which of the flow's places of this activity, from 0 in its order")
]


class _Strict(BaseModel):
    """A part of a state; unknown keys, NaN and infinity are refused, names may be numbers."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, coerce_numbers_to_str=True)


class WaitingTask(_Strict):
    """A task that waits for a person."""

    case: Name = Field(description="name of the case")
    activity: Name = Field(description="activity of the scenario")
    since: Time = Field(description="when the task began to wait")
    place: Place = 0


class TaskInWork(WaitingTask):
    """A task that a person works on."""

    person: Name = Field(description="who works on it")
    since: Time = Field(description="when this person began")


class RestingTask(_Strict):
    """A task that waits for no person: its external delay is not over, or it is automatic."""

    case: Name = Field(description="name of the case")
    activity: Name = Field(description="activity of the scenario")
    place: Place = 0


class OpenCase(_Strict):
    """A case that is not over."""

    case: Name = Field(description="name of the case")
    since: Time = Field(description="when it was opened")


class ProcessState(_Strict):
    """The state of a process at one time.

    Times are all ISO 8601, or all numbers of the scenario's unit since a Monday 00:00. Tasks that wait equally long are
    in order of arrival. A list is read until its first error: a large one could contain a million.
    """

    time: Time = Field(description="the present")
    waiting: list[WaitingTask] = Field(default_factory=list, fail_fast=True, description="tasks that wait for a person")
    in_work: list[TaskInWork] = Field(default_factory=list, fail_fast=True, description="tasks that a person works on")
    on_shift: list[Name] | None = Field(
        default=None,
        fail_fast=True,
        description="people on shift, at work or free; without it those whom the scenario expects now",
    )
    cases: list[OpenCase] = Field(
        default_factory=list,
        fail_fast=True,
        description="open cases; one that is not listed was opened when its first task began",
    )
    resting: list[RestingTask] = Field(
        default_factory=list, fail_fast=True, description="tasks of open cases in an external delay, or automatic"
    )
    next_changes: dict[Name, tuple[Time, Time]] = Field(
        default_factory=dict,
        description="when a person comes or goes next, and the time after; without it as the scenario expects",
    )
    memory: str = Field(default="", description="memory of the last recommendation, for a policy that has one")


def parse_state(text: str | bytes, source: str) -> ProcessState:
    """Read and check the JSON of a state.

    Raises:
        UserError: the text is not JSON, or not of this form; the message begins with ``source`` and names the place.
    """
    try:
        return ProcessState.model_validate_json(text)
    except ValidationError as error:
        raise UserError(f"{source}: {sentence_of(error)}") from None


def require_no_repetition(text: str | bytes, state: ProcessState, source: str) -> None:
    """Refuse a key that an object of the JSON has twice, and a task that is listed twice.

    Raises:
        UserError: there is one; the message begins with ``source`` and names it.
    """

    def once(pairs: list[tuple[str, Any]]) -> None:
        keys = [key for key, _ in pairs]
        if len(set(keys)) < len(keys):
            twice = next(key for i, key in enumerate(keys) if key in keys[:i])
            raise UserError(f"{source}: the key {twice[:100]!r} stands twice in one object; leave one out.")

    json.loads(text, object_pairs_hook=once, parse_int=str, parse_float=str)
    for part in ENTRIES:
        first: dict[tuple[Any, ...], int] = {}
        for i, entry in enumerate(getattr(state, part)):
            if (before := first.setdefault(tuple(vars(entry).values()), i)) < i:
                raise UserError(f"{source}: {part}[{i}] repeats {part}[{before}]; leave one out.")


def as_state(state: Any) -> ProcessState:
    """Return JSON values as a checked state.

    Raises:
        UserError: the values are not of this form.
    """
    if isinstance(state, ProcessState):
        return state
    try:
        return ProcessState.model_validate(state)
    except ValidationError as error:
        raise UserError(f"The state: {sentence_of(error)}") from None


def sentence_of(error: ValidationError, skipped: int = 0) -> str:
    """Turn the first problem that pydantic found into a sentence with its place.

    Args:
        error: problems that pydantic found.
        skipped: number of entries of the list before the validated ones.
    """
    problem = error.errors(include_url=False, include_context=False)[0]
    place, kind = problem["loc"], problem["type"]
    if skipped:
        place = tuple(part + skipped if i == 1 and isinstance(part, int) else part for i, part in enumerate(place))
    if kind == "json_invalid":
        return f"this is not JSON: {problem['msg'].removeprefix('Invalid JSON: ')}."
    # A time may be a number or a text: pydantic reports an error for each and appends the type to the place.
    where = _named([part for part in place if part not in ("float", "constrained-float", "str", "constrained-str")])
    if kind == "extra_forbidden":
        return f"{where} is an unknown key{suggestion(str(place[-1])[:100], _known_keys(place))}"
    if kind == "missing":
        return f"{where} is missing."
    what = f"{where}: " if where else ""
    return f"{what}{problem['msg']} (it is {_short(problem['input'])})."


def _named(place: Sequence[int | str]) -> str:
    """Return a place such as ``waiting[2].since``."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text[:120]


ENTRIES: dict[str, type[BaseModel]] = {
    "waiting": WaitingTask,
    "in_work": TaskInWork,
    "cases": OpenCase,
    "resting": RestingTask,
}
"""Lists of objects in a state, with the model of their entries."""


def _known_keys(place: Sequence[int | str]) -> list[str]:
    kind = ENTRIES.get(str(place[0]), ProcessState) if len(place) > 1 else ProcessState
    return list(kind.model_fields)


def _short(value: Any) -> str:
    """Return the beginning of a value as text; a long list is cut before its conversion."""
    text = repr(value[:60]) if isinstance(value, str | bytes | list) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
