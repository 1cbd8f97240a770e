"""JSON within limits of nesting and memory."""

import json
import re
from typing import Any

import numpy as np

from longstride.process.event_logs.reading.limits import Guard

_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BYTES_OF_A_VALUE = 100
"""Approximate memory of a value and its place in a list or dictionary, without its text."""
_PIECE = 1 << 22


def parse_json(text: str, guard: Guard) -> Any:
    """Return the values of a JSON text.

    Raises:
        UserError: the text nests deeper, or its values take more memory, than the limits allow.
        ValueError: the text is not JSON.
    """
    marks = np.frombuffer(_STRING.sub("", text).encode("ascii", "ignore"), np.uint8)
    values = sum(int(np.count_nonzero(marks == ord(mark))) for mark in ",[{")
    guard.require_memory(_BYTES_OF_A_VALUE * values + 2 * len(text))
    guard.require_nesting(_depth(marks))
    try:
        return json.loads(text)
    except RecursionError:
        guard.refuse_nesting()


def _depth(marks: np.ndarray) -> int:
    """Return the nesting depth of containers, from uint8[n], the text without its strings."""
    depth = deepest = 0
    for begin in range(0, len(marks), _PIECE):
        piece = marks[begin : begin + _PIECE]
        opened = np.isin(piece, (ord("["), ord("{"))).astype(np.int64)
        steps = np.cumsum(opened - np.isin(piece, (ord("]"), ord("}"))))
        deepest = max(deepest, depth + int(steps.max()))
        depth += int(steps[-1])
    return deepest
