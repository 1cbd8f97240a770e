"""All families by the name that POLICY_NETWORK gives them; what of them needs torch is in ``torch_families.py``."""

from longstride.errors import UserError
from longstride.policies.families.mingru.family import MINGRU
from longstride.policies.families.mlp.family import MLP
from longstride.policies.families.pointer.family import POINTER
from longstride.policies.families.transformer.family import TRANSFORMER
from longstride.policies.spec import Family

FAMILIES: dict[str, Family] = {family.name: family for family in (MLP, MINGRU, TRANSFORMER, POINTER)}


def family_of(name: str) -> Family:
    """Return the family of a name.

    Raises:
        UserError: this process does not know it.
    """
    if name not in FAMILIES:
        raise UserError(
            f"The policy has the network {name}, which this process does not know. If it is your own, call "
            "longstride.add_network(...) before; otherwise use the version that trained it."
        )
    return FAMILIES[name]
