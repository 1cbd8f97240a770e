"""A trained policy, read from a checkpoint without its simulator and without torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from longstride.errors import UserError
from longstride.policies.compiled.forward import align_params
from longstride.policies.spec import PolicySpec
from longstride.policies.spec_json import spec_from_json
from longstride.text import Say
from longstride.training.run_directory.checkpoint import load_arrays, policy_folder


@dataclass(frozen=True)
class TrainedPolicy:
    """The actor of a trained policy."""

    actor_params: np.ndarray  # float32[*], parameters of the actor in the flat layout
    spec: PolicySpec  # architecture of the policy
    untrained_params: np.ndarray | None = None  # those with which training began, if they are known


def load_trained_policy(directory: Path, say: Say = lambda line: None) -> TrainedPolicy:
    """Read a policy from a checkpoint folder, or that of a run directory; say what is damaged.

    Raises:
        UserError: there is no intact checkpoint of this version, or none of a policy.
    """
    return trained_policy(*load_arrays(policy_folder(directory), say))


def trained_policy(tensors: Mapping[str, Any], metadata: Mapping[str, Any]) -> TrainedPolicy:
    """Return the policy in a checkpoint, whose tensors are those of torch on the host or of NumPy.

    Raises:
        UserError: the policy is not described, or a tensor is missing or has another shape than described.
    """
    try:
        spec = spec_from_json(metadata["policy"])
        layout = spec.layout
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise UserError("The checkpoint is damaged: it does not describe its policy.") from None
    params = np.zeros(layout.actor_size, np.float32)
    for name, offset in layout.offsets.items():
        if offset < layout.actor_size:
            tensor = tensors.get(f"model.{name}")
            if tensor is None or tuple(tensor.shape) != layout.shapes[name]:
                raise UserError(f"The checkpoint is damaged: {name} is missing or of another shape than it says.")
            values = np.asarray(tensor).ravel()
            params[offset : offset + len(values)] = values
    return TrainedPolicy(align_params(params, spec), spec)
