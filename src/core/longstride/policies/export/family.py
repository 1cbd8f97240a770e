"""How the family of a policy is exported."""

from longstride.errors import UserError
from longstride.policies.families.torch_families import TORCH_FAMILIES
from longstride.policies.families.torch_family import FamilyExport
from longstride.policies.spec import PolicySpec


def family_export(spec: PolicySpec) -> FamilyExport:
    """Return how the family of a policy is exported.

    Raises:
        UserError: it is not.
    """
    export = TORCH_FAMILIES[spec.family.name].export
    if export is None:
        *others, last = (name for name, family in TORCH_FAMILIES.items() if family.export)
        raise UserError(
            f"A policy of the family {spec.family.name} cannot be exported; train one with POLICY_NETWORK "
            f"{', '.join(others)} or {last}, or use this one from Python with longstride.load_policy."
        )
    return export
