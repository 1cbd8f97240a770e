"""Multilayer perceptrons, without memory."""

from itertools import pairwise

from longstride.policies.compiled.network import Network
from longstride.policies.parameter_layout import Matrices
from longstride.policies.spec import Family, PolicySpec


def matrices(spec: PolicySpec, hidden: tuple[int, ...]) -> Matrices:
    """Return the matrices of the hidden layers."""
    return list(pairwise((spec.observation_size, *hidden)))


def build_network(spec: PolicySpec) -> Network:
    """Compile the actor."""
    from longstride.policies.families.mlp.compiled import build_mlp  # here, because it takes Numba to import

    return build_mlp(spec)


MLP = Family("mlp", matrices, build_network, update_kernels=True)
