"""Names and units of the numbers that go into a policy and come out of it, where a simulator gives them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from longstride.errors import UserError
from longstride.policies.spec import PolicySpec
from longstride.simulators.validate import problems_of_labels


class Label(NamedTuple):
    """Name and unit of a number; the unit is empty where it has none."""

    name: str
    unit: str = ""

    @property
    def in_words(self) -> str:
        """Name and unit, for comments."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


class Labels(NamedTuple):
    """Labels of each array, in the order of its numbers; empty where the simulator gives none.

    ``observation`` has a label for each number, ``action`` for each value of all choices or each number of a Box,
    ``features`` for each figure about an action.
    """

    observation: tuple[Label, ...] = ()
    action: tuple[Label, ...] = ()
    features: tuple[Label, ...] = ()


def read_labels(given: Mapping[str, Sequence[str]], spec: PolicySpec, simulator: str) -> Labels:
    """Return the labels in the attribute ``labels`` of a simulator.

    Raises:
        UserError: a key is unknown, or there are more or fewer names or units than numbers.
    """
    sizes = {
        "observation": spec.observation_size,
        "action": spec.action_space.outputs,
        "features": spec.action_features,
    }
    if problem := next(problems_of_labels(given, sizes, simulator), None):
        raise UserError(problem)
    return Labels(**{array: _labels_of(given, array, size) for array, size in sizes.items()})


def _labels_of(given: Mapping[str, Any], array: str, size: int) -> tuple[Label, ...]:
    names, units = given.get(array, ()), given.get(f"{array}_units", ())
    names = names or tuple(f"{array}[{i}]" for i in range(size)) if units else names
    return tuple(Label(str(name), str(unit)) for name, unit in zip(names, units or ("",) * len(names), strict=True))
