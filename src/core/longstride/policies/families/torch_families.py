"""All families in torch, by their names."""

from longstride.policies.families.mingru.network import MINGRU_IN_TORCH
from longstride.policies.families.mlp.network import MLP_IN_TORCH
from longstride.policies.families.pointer.network import POINTER_IN_TORCH
from longstride.policies.families.torch_family import TorchFamily
from longstride.policies.families.transformer.in_place import TRANSFORMER_IN_TORCH

TORCH_FAMILIES: dict[str, TorchFamily] = {
    "mlp": MLP_IN_TORCH,
    "mingru": MINGRU_IN_TORCH,
    "transformer": TRANSFORMER_IN_TORCH,
    "pointer": POINTER_IN_TORCH,
}
