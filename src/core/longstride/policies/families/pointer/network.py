"""The encodings of a policy that scores actions, in torch: those of perceptrons."""

from longstride.policies.families.mlp.network import hidden
from longstride.policies.families.torch_family import TorchFamily

POINTER_IN_TORCH = TorchFamily(hidden)
