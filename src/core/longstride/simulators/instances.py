"""What a checkpoint records of a simulator that a program made itself, beside the name of its class."""

import hashlib
from typing import Any

import numpy as np

from longstride.errors import UserError
from longstride.simulators.simulator import Simulator
from longstride.simulators.source_files import recorded_source

PARAMETERS_SHA256 = "parameters_sha256"
"""Key in a checkpoint's source of the digest of the simulator's parameters."""


def source_of(simulator: Simulator) -> dict[str, Any]:
    """Return JSON values that name a simulator's class and tell its parameters from others."""
    kind = type(simulator)
    name = f"{kind.__module__}:{kind.__name__}"
    source = {"simulator": name, "options": {}, PARAMETERS_SHA256: parameters_digest(simulator.parameters)}
    return source if kind.__module__.startswith("longstride.") else {**source, **recorded_source(name)}


def require_parameters(simulator: Simulator, source: dict[str, Any]) -> None:
    """Check that a simulator has the parameters of a checkpoint's; a checkpoint without a digest has any.

    Raises:
        UserError: the parameters differ.
    """
    if source.get(PARAMETERS_SHA256) not in (None, parameters_digest(simulator.parameters)):
        raise UserError(
            f"The run was trained from Python on a {type(simulator).__name__} with other parameters than this one; "
            "pass that simulator: longstride.evaluate(run, simulator), longstride.train(simulator, ..., resume=True)."
        )


def parameters_digest(parameters: Any) -> str:
    """Return the SHA-256 of a simulator's parameters: dtypes, shapes and bytes."""
    digest = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, tuple | list):
            digest.update(f"({len(value)}".encode())
            for part in value:
                add(part)
        else:
            array = np.asarray(value)
            digest.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())

    add(parameters)
    return digest.hexdigest()
