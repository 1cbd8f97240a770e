"""Whether the main metric of a simulator and its returns call the same policies good."""

from typing import Any

import numpy as np

from longstride.simulators.simulator import Simulator

_LEAST, _CLOSELY = 4, 0.9
"""Policies that have to differ, and the correlation from which on return and metric contradict each other."""


class DirectionCheck:
    """Says once that ``main_metric_lower_is_better`` seems to be the wrong way round.

    A cost that counts as better the higher would make the worst policy the best of a run.
    """

    def __init__(self, simulator: Simulator) -> None:
        self._simulator, self._said = simulator, False
        self._seen = set[tuple[float, float]]()

    def see(self, evaluation: dict[str, Any]) -> str | None:
        """Take note of the figures of an evaluation; return a sentence where they contradict the simulator."""
        means = [evaluation["metrics"].get(name, {}).get("mean") for name in ("return", self._simulator.main_metric)]
        if None not in means:
            self._seen.add((float(means[0]), float(means[1])))
        if self._said or not contradicts(self._seen, self._simulator.main_metric_lower_is_better):
            return None
        self._said = True
        return self._sentence()

    def _sentence(self) -> str:
        name, metric = type(self._simulator).__name__, self._simulator.main_metric
        lower = self._simulator.main_metric_lower_is_better
        found, counted = ("lower", "higher") if not lower else ("higher", "lower")
        return (
            f"{metric} was the {found}, the higher the return, of {len(self._seen)} evaluated policies, but the "
            f"{counted} counts as the better, so that the best checkpoint may be the worst one: set "
            f"main_metric_lower_is_better = {not lower} in {name}, unless this is meant."
        )


def contradicts(pairs: set[tuple[float, float]], lower_is_better: bool) -> bool:
    """Return whether of returns and metrics, a pair a policy, one says good where the other says bad."""
    if len(pairs) < _LEAST:
        return False
    returns, values = np.array(sorted(pairs), np.float64).T
    if not (np.isfinite(returns).all() and np.isfinite(values).all() and returns.std() > 0.0 and values.std() > 0.0):
        return False
    correlation = float(np.corrcoef(returns, values)[0, 1])
    return correlation > _CLOSELY if lower_is_better else correlation < -_CLOSELY
