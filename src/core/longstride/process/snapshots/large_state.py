"""Checks the JSON of a large state in pieces, up to its first error.

Pydantic collects all errors of an object without releasing the GIL: a megabyte of them takes seconds.
"""

import gc
from collections.abc import Iterator
from itertools import islice
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from longstride.errors import UserError
from longstride.process.snapshots.schema import ENTRIES, ProcessState, parse_state, sentence_of

DIRECT_BYTES = 8_192
"""A text up to this size is checked at once: even if all of it is wrong, this takes milliseconds."""

_PIECE = 200
"""Entries of a list checked at once."""

_MOST = {"colons": (b":", 80_000), "lists": (b"[", 30_000), "objects": (b"{", 30_000), "commas": (b",", 100_000)}
"""Most structural characters of a text; a megabyte of tasks has fewer. More would block other threads over 50 ms."""

_PRESENT = {"time": 0.0}


def parse_bounded(text: bytes, source: str) -> ProcessState:
    """Read and check the JSON of a state like :func:`parse_state`, but stop at the first error.

    Args:
        text: JSON of any size.
        source: beginning of error messages.

    Raises:
        UserError: the text is not JSON, or not of this form.
    """
    if len(text) <= DIRECT_BYTES:
        return parse_state(text, source)
    for name, (sign, most) in _MOST.items():
        if (count := text.count(sign)) > most:
            raise UserError(f"{source}: it has {count:,} {name}; expected at most {most:,}, send fewer cases.")
    enabled = gc.isenabled()
    gc.disable()  # otherwise the collector scans all values repeatedly while they are created
    try:
        return _state(text, source)
    finally:
        if enabled:
            gc.enable()


def _state(text: bytes, source: str) -> ProcessState:
    try:
        values = from_json(text, cache_strings="keys")
    except ValueError:
        return parse_state(text, source)  # which stops at the first invalid character
    if not isinstance(values, dict):
        raise UserError(f"{source}: Input should be an object (it is a {type(values).__name__}).")
    fields = {name: value for key in values for name, value in _checked(key, values[key], source)}
    if "time" not in fields:
        raise UserError(f"{source}: time is missing.")
    return ProcessState.model_construct(**fields)


def _checked(key: str, value: Any, source: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and the checked value of one key of a state.

    Raises:
        UserError: the key is unknown, or its value is not of this form.
    """
    whole: Any = None
    for skipped, piece in _pieces(key, value):
        try:
            state = ProcessState.model_validate({**_PRESENT, key[:200]: piece})
        except ValidationError as error:
            raise UserError(f"{source}: {sentence_of(error, skipped)}") from None
        part = getattr(state, key)
        if whole is None:
            whole = part
        elif isinstance(whole, dict):
            whole.update(part)
        else:
            whole.extend(part)
    yield key, whole


def _pieces(key: str, value: Any) -> Iterator[tuple[int, Any]]:
    """Yield parts of a value that are quick to check, with the number of entries before each."""
    if key in (*ENTRIES, "on_shift") and isinstance(value, list):
        for i in range(0, max(1, len(value)), _PIECE):
            yield i, [_cut(entry) for entry in value[i : i + _PIECE]]
    elif key == "next_changes" and isinstance(value, dict):
        entries = iter(value.items())
        while piece := dict(islice(entries, _PIECE)):
            yield 0, {name: _cut(pair) for name, pair in piece.items()}
        if not value:
            yield 0, {}
    else:
        yield 0, _cut(value)


def _cut(value: Any) -> Any:
    """Return a value, cut if it has more entries than any value of a state; a text stays whole."""
    if isinstance(value, list) and len(value) > 8:
        return value[:8]
    if isinstance(value, dict) and len(value) > 8:
        return dict(islice(value.items(), 8))
    return value
