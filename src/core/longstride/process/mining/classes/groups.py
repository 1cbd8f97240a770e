"""Groups of cases by the values of an attribute: the categories, or ranges of a number."""

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

MOST_CATEGORIES = 6
"""Most classes of a category; rarer values are one class."""

RANGES = 3
"""Classes of a number, split at quantiles."""

LEAST_SHARE, LEAST_CASES = 0.02, 20
"""Share and number of cases of a value from which it is a class of its own."""

NONE, REST = "none", "other"
"""Names of the classes of cases without a value, and of those with a rare one."""

_EDGE = r"(-?\d+(?:\.\d+)?(?:e[-+]\d+)?)"
"""Pattern of an end of a range in the name of a class."""


class Groups(NamedTuple):
    """Classes of cases."""

    names: tuple[str, ...]
    of_case: np.ndarray  # int64[cases]


def groups_of(attribute: str, values: list[str]) -> Groups | None:
    """Return the classes of cases with some values, "" for none; None if there is only one.

    Values that all are numbers, more than ``RANGES`` different ones, become ranges with about as many cases each.
    Other values are categories, the most frequent first.
    """
    texts = np.array(values, np.object_)
    known = np.array([value != "" for value in values])
    names = np.where(known, texts, NONE)
    numbers = _numbers([value for value in values if value])
    if numbers is not None and len(np.unique(numbers)) > RANGES:
        names[known] = _ranges(attribute, numbers)
    distinct, counts = np.unique(names.astype(str), return_counts=True)
    order = np.lexsort((distinct, -counts))
    least = min(max(LEAST_CASES, LEAST_SHARE * len(values)), len(values) / 4)
    kept = [str(distinct[i]) for i in order[:MOST_CATEGORIES] if counts[i] >= least]
    rest = [str(name) for name in distinct if str(name) not in kept]
    if len(rest) == 1:
        kept, rest = [*kept, *rest], []
    place = {name: i for i, name in enumerate(kept)}
    common = len(kept)
    if rest:
        kept = [*kept, REST if REST not in place else f"{REST} values"]
    if len(kept) < 2:
        return None
    return Groups(tuple(kept), np.array([place.get(str(name), common) for name in names], np.int64))


def class_of(value: str, attribute: str, names: Sequence[str]) -> str:
    """Return the class of a case with a value, "" for none, among those that :func:`groups_of` made of other cases.

    It is "" if the value is of no class.
    """
    value = value or NONE
    if value in names:
        return value
    numbers = _numbers([value])
    for name in names if numbers is not None else ():
        ends = re.fullmatch(rf"{re.escape(attribute)}(?: above {_EDGE})?,?(?: up to {_EDGE})?", name)
        if ends and name != attribute and float(ends[1] or -math.inf) < float(value) <= float(ends[2] or math.inf):
            return name
    return next((name for name in (f"{REST} values", REST) if name in names), "")


def _numbers(values: list[str]) -> np.ndarray | None:
    """Return texts as float64[n]; None if there are none, or if one is no finite number."""
    try:
        numbers = np.array([float(value) for value in values])
    except ValueError:
        return None
    return numbers if len(numbers) and math.isfinite(float(np.abs(numbers).max())) else None


def _ranges(attribute: str, numbers: np.ndarray) -> np.ndarray:
    """Return object[n], the name of the range of each number."""
    edges = np.unique(np.quantile(numbers, np.arange(1, RANGES) / RANGES, method="inverted_cdf"))
    edges = edges[edges < numbers.max()]
    texts = [f"{edge:.6g}" for edge in edges]
    names = [f"{attribute} up to {texts[0]}"]
    names += [f"{attribute} above {low}, up to {high}" for low, high in pairwise(texts)]
    names += [f"{attribute} above {texts[-1]}"]
    return np.array(names, np.object_)[np.searchsorted(edges, numbers)]
