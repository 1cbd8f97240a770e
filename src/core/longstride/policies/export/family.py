"""What a family of policies brings to an export: one file each, with its network in torch, C and NumPy."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from longstride.errors import UserError
from longstride.policies.export import mingru, mlp, transformer
from longstride.policies.spec import PolicySpec


class FamilyExport(NamedTuple):
    """The network of a family, from a normalised observation and a state to outputs and the next state.

    Attributes:
        torch_step: ``torch_step(spec, tensors, x, state) -> (outputs, next_state)`` for ONNX: tensors by their names in
            the parameter layout, x float32[B, O], state float32[B, state_size], outputs float32[B, outputs].
        c_source: text of ``static void policy_network(const float *x, float *state, float *outputs)`` in C99, which
            replaces the state; it may call ``policy_linear`` and ``policy_tanh`` (``c_text.py``).
        numpy_source: text of ``def network(p, x, state): return outputs, next_state`` for one observation, with p the
            tensors by name.
        description: JSON values for the contract: sizes, and the formulas in words.
    """

    torch_step: Callable[[PolicySpec, Mapping[str, Tensor], Tensor, Tensor], tuple[Tensor, Tensor]]
    c_source: Callable[[PolicySpec], str]
    numpy_source: Callable[[PolicySpec], str]
    description: Callable[[PolicySpec], dict[str, Any]]


def family_export(spec: PolicySpec) -> FamilyExport:
    """Return how the family of a policy is exported.

    Raises:
        UserError: it is not.
    """
    if spec.family == "mlp":
        return FamilyExport(mlp.torch_step, mlp.c_source, mlp.numpy_source, mlp.description)
    if spec.family == "mingru":
        return FamilyExport(mingru.torch_step, mingru.c_source, mingru.numpy_source, mingru.description)
    if spec.family == "transformer":
        exported = transformer.torch_step, transformer.c_source, transformer.numpy_source, transformer.description
        return FamilyExport(*exported)
    raise UserError(
        f"A policy of the family {spec.family} cannot be exported; train one with POLICY_NETWORK mlp, mingru or "
        "transformer, or use this one from Python with longstride.load_policy."
    )
