"""The policies of a run that are compared at its end, and what they play."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from longstride.policies.compiled.forward import align_params
from longstride.policies.spec import PolicySpec
from longstride.simulators.simulator import Simulator
from longstride.training.choice.candidates import Candidate
from longstride.training.choice.halving import Arm, Halved
from longstride.training.evaluation.direction import agree
from longstride.training.evaluation.periodic import CHOICE, USUAL, PeriodicEvaluation

WAYS = {False: "trained", True: "trained_sampled"}
"""Names of the ways to play a policy, by whether it draws its actions."""


class Contenders:
    """Plays candidates, as arms that draw their actions or take the likeliest ones.

    Attributes:
        of: the candidates.
        params: float32[*] of the actor of each, as compiled code reads them.
        returns: sum of rewards of each episode that an arm has played.
        returns_from: the same of what it has played from given states.
    """

    def __init__(
        self, of: Sequence[Candidate], evaluation: PeriodicEvaluation, simulator: Simulator, spec: PolicySpec
    ) -> None:
        self.of, self._evaluation, self._simulator = of, evaluation, simulator
        self.params = [align_params(each.params, spec) for each in of]
        self.returns, self.returns_from = defaultdict[Arm, list[float]](list), defaultdict[Arm, list[float]](list)

    def play(self, arm: Arm, episodes: range) -> list[tuple[float | None, int]]:
        """Play episodes, by number; return the main metric and the steps of each."""
        played = self._evaluation.play(self.params[arm.candidate], WAYS[arm.draws], episodes, CHOICE)
        self.returns[arm] += [each.record["return"] for each in played]
        return [(each.record.get(self._simulator.main_metric), each.steps) for each in played]

    def play_from(self, arm: Arm, states: np.ndarray, first: int) -> list[tuple[float | None, int]]:
        """Play from ``state_dtype``[n] as far as episodes go before they are cut; return returns and steps.

        Random streams are numbered from ``first`` on.
        """
        given = self.params[arm.candidate], WAYS[arm.draws], states, self._evaluation.cut, first, USUAL
        played = self._evaluation.play_from(*given)
        self.returns_from[arm] += [each.record["return"] for each in played]
        return [(each.record["return"], each.steps) for each in played]

    def returns_rank_as_the_metric(self, found: Halved) -> bool:
        """Return whether the episodes that have been played with a higher return have a better main metric."""
        if self._simulator.main_metric == "return":
            return not self._simulator.main_metric_lower_is_better
        known = ((arm, zip(self.returns[arm], values, strict=True)) for arm, values in found.values.items())
        pairs = {(total, value) for _, pairs in known for total, value in pairs if value is not None}
        return agree(pairs, self._simulator.main_metric_lower_is_better)
