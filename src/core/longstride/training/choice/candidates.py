"""Policies that a run may end with: copies of the actor's parameters with their evaluated episodes, and their ranks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from longstride.training.run_directory.checkpoint import MEAN_OF_LATE

_MOST = 6
"""Copies of parameters that a run keeps."""

_NO_SPREAD, _UNSEEN = 0.05, 0.5
"""Range of episodes, as a share of the distance to the worst one of training, that counts as none; and the weight of
that worst one in episodes without spread."""


@dataclass
class Candidate:
    """A policy of the run."""

    iteration: int  # finished iterations
    params: np.ndarray  # float32[*], parameters of the actor
    values: list[float | None] = field(default_factory=list)  # main metric of its evaluated episodes, None if missing
    worst: float | None = None  # worst main metric of an episode that trained about then; None if that says nothing
    is_mean: bool = False  # whether it is the mean of the late policies

    def facts(self) -> dict[str, Any]:
        """Return what its checkpoint says of it beside the iteration."""
        return {MEAN_OF_LATE: True} if self.is_mean else {}


class Candidates:
    """The candidates of a run, at most six; the first is the policy that training began with."""

    def __init__(self, lower_is_better: bool) -> None:
        self.kept: list[Candidate] = []
        self._sign = 1.0 if lower_is_better else -1.0

    def add(self, candidate: Candidate) -> None:
        """Take a new candidate in place of an earlier one of the same iteration; if there are too many, drop one.

        The candidate that is dropped has the last rank of those before the new one.
        """
        self.kept = [each for each in self.kept if each.iteration != candidate.iteration]
        if len(self.kept) == _MOST:
            last = self._ranked(self.kept)[-1]
            self.kept = [each for each in self.kept if each is not last]
        self.kept.append(candidate)

    def ranked(self) -> list[Candidate]:
        """Return the candidates with evaluated episodes, the best first; of equal ones the later one comes first."""
        return [each for each in self._ranked(self.kept) if _known(each)]

    def in_order(self) -> list[Candidate]:
        """Return all candidates: those of :meth:`ranked`, then those without evaluated episodes."""
        return self._ranked(self.kept)

    def mean_of(self, candidate: Candidate) -> float:
        """Return the mean of the main metric over the evaluated episodes of a candidate that have it."""
        return float(np.mean([value for value in candidate.values if value is not None]))

    def state_dict(self) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """Return arrays by name and JSON values, which a checkpoint keeps."""
        arrays = {f"candidate.{i}": each.params for i, each in enumerate(self.kept)}
        facts = [{"iteration": c.iteration, "values": c.values, "worst": c.worst} for c in self.kept]
        return arrays, facts

    def load_state_dict(self, arrays: dict[str, np.ndarray], facts: list[dict[str, Any]]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.kept = [Candidate(params=arrays[f"candidate.{i}"].copy(), **each) for i, each in enumerate(facts)]

    def _ranked(self, candidates: list[Candidate]) -> list[Candidate]:
        known = [each for each in candidates if _known(each)]
        scored = sorted(zip(self._scores(known), known, strict=True), key=lambda pair: (pair[0], -pair[1].iteration))
        return [each for _, each in scored] + [each for each in candidates if not _known(each)]

    def _scores(self, candidates: list[Candidate]) -> list[float]:
        """Return costs over the episodes that all candidates have."""
        costs = self._sign * common_episodes([each.values for each in candidates])
        worst = [None if each.worst is None else self._sign * each.worst for each in candidates]
        return scores(costs, worst).tolist() if candidates else []


def _known(candidate: Candidate) -> bool:
    return any(value is not None for value in candidate.values)


def common_episodes(values: Sequence[Sequence[float | None]]) -> np.ndarray:
    """Return float64[policies, episodes] of the first episodes, in which all policies have a number.

    Without any such episode the only column has the mean of each policy's own numbers.
    """
    together = [row for row in zip(*values, strict=False) if None not in row]
    if not together:
        together = [tuple(float(np.mean([v for v in row if v is not None] or [np.inf])) for row in values)]
    return np.array(together, np.float64).T


def scores(costs: np.ndarray, worst: Sequence[float | None]) -> np.ndarray:
    """Return the mean costs float64[policies] of float64[policies, episodes], the lower the better.

    Episodes without spread have met nothing rare. If training has, about then, they count as if half an episode like
    the worst one of training were among them.
    """
    count, means = costs.shape[1], costs.mean(axis=1)
    seen = np.array([-np.inf if cost is None else cost for cost in worst])
    is_lucky = np.ptp(costs, axis=1) < _NO_SPREAD * (seen - means)
    return np.asarray(np.where(is_lucky, (count * means + _UNSEEN * seen) / (count + _UNSEEN), means), np.float64)
