"""The JSON of a large state, checked in pieces up to its first mistake.

Pydantic collects every mistake of an object and lets no other thread run meanwhile: a megabyte of them takes seconds.
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
"""A text up to this size is checked at once: even if all of it is wrong, that takes milliseconds."""

_PIECE = 200
"""Entries of a list that are checked at once."""

_MOST = {"colons": (b":", 80_000), "lists": (b"[", 30_000), "objects": (b"{", 30_000), "commas": (b",", 100_000)}
"""Signs of a text; a megabyte of tasks has fewer. Reading more of them takes over 50 ms, in which nothing else runs."""

_PRESENT = {"time": 0.0}


def parse_bounded(text: bytes, source: str) -> ProcessState:
    """Read and check the JSON of a state as :func:`parse_state` does, but stop at the first mistake.

    Args:
        text: JSON of any size.
        source: beginning of the message of an error.

    Raises:
        UserError: it is not JSON, or not of this form.
    """
    if len(text) <= DIRECT_BYTES:
        return parse_state(text, source)
    for name, (sign, most) in _MOST.items():
        if (count := text.count(sign)) > most:
            raise UserError(f"{source}: it has {count:,} {name}; expected at most {most:,}, send fewer cases.")
    enabled = gc.isenabled()
    gc.disable()  # or the collector walks through all values again and again while they are made
    try:
        return _state(text, source)
    finally:
        if enabled:
            gc.enable()


def _state(text: bytes, source: str) -> ProcessState:
    try:
        values = from_json(text, cache_strings="keys")
    except ValueError:
        return parse_state(text, source)  # which stops where the JSON ends being JSON
    if not isinstance(values, dict):
        raise UserError(f"{source}: Input should be an object (it is a {type(values).__name__}).")
    fields = {name: value for key in values for name, value in _checked(key, values[key], source)}
    if "time" not in fields:
        raise UserError(f"{source}: time is missing.")
    return ProcessState.model_construct(**fields)


def _checked(key: str, value: Any, source: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and the checked value of one key of a state.

    Raises:
        UserError: the key is unknown, or its value is not of the form.
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
    """Yield parts of a value that are quick to check, with the number of the entries before each."""
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
    """Return a value without most of its entries if it has more than any value of a state; a text stays whole."""
    if isinstance(value, list) and len(value) > 8:
        return value[:8]
    if isinstance(value, dict) and len(value) > 8:
        return dict(islice(value.items(), 8))
    return value
