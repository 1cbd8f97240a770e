"""acting.json: whether the policy of a run is to draw its actions, as an evaluation has shown."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from longstride.training.run_directory.directory import RunDirectory, run_directory_of
from longstride.training.run_directory.files import write_json

FROM_RARE_STATES = "from_rare_states"
"""What a policy did from rarely visited states, at the end of its run."""


def keep_acting(directory: RunDirectory, draws: bool, shown: Mapping[str, Any], params: np.ndarray) -> None:
    """Write into a run directory whether a policy is to draw, and what has shown it, JSON values.

    The parameters of its actor, float32[*], tell the policy from others.

    Raises:
        UserError: it cannot be written.
    """
    write_json(directory.acting, {"draws": draws, "policy_sha256": _digest(params), **shown})


def draws_by_default(checkpoint: Path, params: np.ndarray) -> bool:
    """Return whether the policy of a run or checkpoint is to draw: an evaluation of it has shown that to be better."""
    return _shown(checkpoint, params).get("draws") is True


def shown_by_rare_states(checkpoint: Path, params: np.ndarray) -> dict[str, Any]:
    """Return what the file has of rarely visited states for this policy; empty if it has nothing."""
    shown = _shown(checkpoint, params)
    return {FROM_RARE_STATES: shown[FROM_RARE_STATES]} if FROM_RARE_STATES in shown else {}


def _shown(checkpoint: Path, params: np.ndarray) -> dict[str, Any]:
    """Return the content of the file; empty if there is none, or it is of another policy."""
    content: Any = None
    with suppress(OSError, ValueError, RecursionError):  # no pydantic: a program that acts does not wait for it
        content = json.loads(run_directory_of(checkpoint).acting.read_bytes())
    is_of_it = isinstance(content, dict) and content.get("policy_sha256") == _digest(params)
    return content if is_of_it else {}


def _digest(params: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(params, np.float32).tobytes()).hexdigest()
