"""The actor in a checkpoint."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from core.errors import UserError
from core.policies.parameter_layout import layout_of
from core.policies.spec import PolicySpec


def trained_actor(tensors: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[PolicySpec, np.ndarray]:
    """Return the architecture of a checkpoint's policy, and float32[*], the actor's part of its flat parameters.

    Args:
        tensors: tensors of the checkpoint by name, of torch on the host or of NumPy.
        facts: JSON values of the checkpoint.

    Raises:
        UserError: the checkpoint describes no policy, or a tensor is missing or has another shape than it says.
    """
    try:
        spec = PolicySpec.from_json(facts["policy"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError("The checkpoint is damaged: it does not describe its policy.") from None
    layout = layout_of(spec)
    params = np.zeros(layout.actor_size, np.float32)
    for name, offset in layout.offsets.items():
        if offset < layout.actor_size:
            tensor = tensors.get(f"model.{name}")
            if tensor is None or tuple(tensor.shape) != layout.shapes[name]:
                raise UserError(f"The checkpoint is damaged: {name} is missing or of another shape than it says.")
            values = np.asarray(tensor).ravel()
            params[offset : offset + len(values)] = values
    return spec, params
