"""What the compiled kernels can compute: steps of multilayer perceptrons by PPO. For anything else torch is used."""

from collections.abc import Iterable
from typing import Any

from core.learning.algorithms.interface import Algorithm
from core.learning.algorithms.ppo import Ppo
from core.policies.spec import PolicySpec

_KNOWN = {"clip_range", "value_clip_range", "value_coefficient", "entropy_coefficient"}
"""Coefficients of PPO whose terms the kernels compute."""


def unsupported(spec: PolicySpec, algorithm: Algorithm, coefficients: Iterable[Any]) -> str:
    """Return why the compiled kernels cannot take the steps of a run, a phrase; empty if they can.

    Args:
        spec: architecture of the policy.
        algorithm: algorithm of the run.
        coefficients: coefficients of the loss at the start and at the end of the run.
    """
    if spec.family != "mlp":
        return f"compiled kernels are for multilayer perceptrons, not for {spec.family}"
    if not isinstance(algorithm, Ppo):
        return f"compiled kernels compute the loss of PPO, not of {type(algorithm).__name__}"
    used = {name: True for each in coefficients for name, number in each._asdict().items() if number != 0.0}
    unknown = [name.upper() for name in used if name not in _KNOWN]
    return f"compiled kernels do not compute the loss term of {unknown[0]}" if unknown else ""
