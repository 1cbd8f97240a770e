"""All families by the name that POLICY_NETWORK gives them; what of them needs torch is in ``torch_families.py``."""

from longstride.policies.families.mingru.family import MINGRU
from longstride.policies.families.mlp.family import MLP
from longstride.policies.families.pointer.family import POINTER
from longstride.policies.families.transformer.family import TRANSFORMER
from longstride.policies.spec import Family

FAMILIES: dict[str, Family] = {family.name: family for family in (MLP, MINGRU, TRANSFORMER, POINTER)}
