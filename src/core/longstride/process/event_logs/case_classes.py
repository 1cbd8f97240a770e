"""Classes of the cases of a log, the activities that are split by class, and a column that orders their service."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np


@dataclass(frozen=True)
class CaseColumn:
    """A column of a log with a number for each case."""

    name: str
    of_case: np.ndarray  # float64[cases], NaN for none

    def with_cases(self, taken: np.ndarray) -> "CaseColumn":
        """Return the column of some of the cases, int64[k]."""
        return replace(self, of_case=self.of_case[taken])


@dataclass(frozen=True)
class CaseClasses:
    """The classes of a log's cases; C classes.

    Each activity that people do has a part for each class in the log, with a name of its own.
    """

    names: tuple[str, ...]  # C class names
    of_case: np.ndarray  # int64[cases], class of each case
    before: Mapping[str, str] = field(default_factory=dict)  # name of a part -> name of its activity
    pooled: frozenset[str] = frozenset()  # activities whose service times do not depend on the class
    notes: tuple[str, ...] = ()  # sentences about the choice of the classes

    def with_cases(self, of_case: np.ndarray) -> "CaseClasses":
        """Return the classes of other cases, int64[k]."""
        return replace(self, of_case=of_case)
