"""Networks of a program, as a further family of policies."""

from dataclasses import dataclass

from longstride.errors import UserError
from longstride.policies.families.families import FAMILIES
from longstride.policies.families.torch_families import TORCH_FAMILIES
from longstride.policies.families.torch_family import TorchFamily
from longstride.policies.spec import Family

_BUILT_IN = frozenset(FAMILIES)


@dataclass(frozen=True)
class Network:
    """A family of policies: what plays it on the CPU, and what trains it in torch."""

    family: Family
    in_torch: TorchFamily


def add_network(network: Network) -> None:
    """Let this process know a network by the name of its family, as ``POLICY_NETWORK`` takes it.

    ``train(..., network=...)`` does so, too; another program calls it before it evaluates or loads the policy.

    Raises:
        UserError: it is no Network, or its name is that of a built-in one.
    """
    if not isinstance(network, Network):
        raise UserError(f"network: {network!r:.80} is not a longstride.Network.")
    name = network.family.name
    if name in _BUILT_IN:
        raise UserError(f"network: {name!r} is a built-in network; give yours another name.")
    FAMILIES[name], TORCH_FAMILIES[name] = network.family, network.in_torch
