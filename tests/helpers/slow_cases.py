"""Parametrised tests of which make test runs some cases, and make test-all the rest."""

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_slow(cases: Iterable[Any], *fast: Any) -> list[Any]:
    """Return all cases, those marked as slow that are not among the fast ones."""
    return [case if case in fast else pytest.param(case, marks=pytest.mark.slow) for case in cases]
