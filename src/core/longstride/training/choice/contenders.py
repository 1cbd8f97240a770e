"""The policies of a run that are compared at its end, and what they play."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from longstride.policies.compiled.forward import align_params
from longstride.policies.spec import PolicySpec
from longstride.simulators.simulator import Simulator
from longstride.training.choice.candidates import Candidate
from longstride.training.choice.halving import NEGLIGIBLE, Arm, Halved
from longstride.training.choice.long_episodes import look_again, steps_of_long
from longstride.training.evaluation.direction import agree
from longstride.training.evaluation.periodic import CHOICE, PARTIAL, PeriodicEvaluation

WAYS = {False: "trained", True: "trained_sampled"}
"""Names of the ways to play a policy, by whether it draws its actions."""


class Contenders:
    """Plays candidates, as arms that draw their actions or take the likeliest ones.

    Attributes:
        of: the candidates.
        params: float32[*] of the actor of each, as compiled code reads them.
        returns: sum of rewards of each episode that an arm has played.
        returns_from: the same of its partial episodes.
        returns_long: the same of its long episodes.
        steps: steps of all that has been played, but for partial and long episodes.
    """

    def __init__(
        self, of: Sequence[Candidate], evaluation: PeriodicEvaluation, simulator: Simulator, spec: PolicySpec
    ) -> None:
        self.of, self._evaluation, self._simulator = of, evaluation, simulator
        self.params = [align_params(each.params, spec) for each in of]
        self.returns, self.returns_from = defaultdict[Arm, list[float]](list), defaultdict[Arm, list[float]](list)
        self.returns_long = defaultdict[Arm, list[float]](list)
        self.steps, self._episodes, self._cut = 0, 0, 0

    def play(self, arm: Arm, episodes: range) -> list[tuple[float | None, int]]:
        """Play episodes, by number; return the main metric and the steps of each."""
        played = self._evaluation.play(self.params[arm.candidate], WAYS[arm.draws], episodes, CHOICE)
        self.returns[arm] += [each.record["return"] for each in played]
        self.steps += sum(each.steps for each in played)
        self._episodes += len(played)
        self._cut += sum(each.steps == self._evaluation.cut for each in played)
        return [(each.record.get(self._simulator.main_metric), each.steps) for each in played]

    def play_from(self, arm: Arm, states: np.ndarray, steps: int, first: int) -> list[tuple[float | None, int]]:
        """Play partial episodes: a :data:`~longstride.training.choice.partial_episodes.PlayArmFrom`."""
        given = self.params[arm.candidate], WAYS[arm.draws], states, steps, first, PARTIAL
        played = self._evaluation.play_from(*given)
        self.returns_from[arm] += [each.record["return"] for each in played]
        return [(each.record["return"], each.steps) for each in played]

    @property
    def are_cut(self) -> bool:
        """Whether most episodes have been cut."""
        return 2 * self._cut > self._episodes

    @property
    def cut(self) -> int:
        """Steps after which an episode is cut; 0 if none is."""
        return self._evaluation.cut

    def longest(self, budget: float) -> int:
        """Return the steps of a long episode where most episodes have been cut; 0 if there is none."""
        return steps_of_long(budget, self._simulator.max_steps, self.cut) if self.are_cut else 0

    def look_again(self, best: Arm, arms: Sequence[Arm], budget: float, longest: int) -> Halved | None:
        """Return the best arm in long episodes; see :func:`~longstride.training.choice.long_episodes.look_again`."""

        def play(arm: Arm, episodes: range) -> list[tuple[float | None, int]]:
            played = self._evaluation.play_long(self.params[arm.candidate], WAYS[arm.draws], episodes, longest)
            self.returns_long[arm] += [each.record["return"] for each in played]
            return [(each.record.get(self._simulator.main_metric), each.steps) for each in played]

        lower_is_better, worst = self._simulator.main_metric_lower_is_better, [each.worst for each in self.of]
        return look_again(best, arms, play, budget, longest, lower_is_better, worst)

    def returns_rank_as_the_metric(self, found: Halved) -> bool:
        """Return whether a policy that is better by its return is better by its main metric, in the same episodes.

        Where all policies do the same in all of them, episodes are compared with each other.
        """
        lower_is_better = self._simulator.main_metric_lower_is_better
        if self._simulator.main_metric == "return":
            return not lower_is_better
        compared = self._compared(found)
        differences = compared[:, 1:] - compared[:, :1]
        pairs = (differences if differences.any() else compared).reshape(2, -1).T
        return agree({(float(total), float(value)) for total, value in pairs}, lower_is_better)

    def negligible(self, found: Halved) -> float:
        """Return the difference in returns that is as much as a negligible one in the main metric."""
        returns, values = self._compared(found).reshape(2, -1)
        if not values.std():
            return NEGLIGIBLE * float(abs(returns.mean()))
        return NEGLIGIBLE * float(abs(values.mean()) * returns.std() / values.std())

    def _compared(self, found: Halved) -> np.ndarray:
        """Return returns and main metrics, float64[2, arms, episodes], of the two arms or more that played most."""
        most = sorted(map(len, found.values.values()))[-2]
        arms = [arm for arm, values in found.values.items() if len(values) >= most]
        pairs = [list(zip(self.returns[arm], found.values[arm], strict=True))[:most] for arm in arms]
        known = [row for row in zip(*pairs, strict=True) if all(value is not None for _, value in row)]
        return np.array(known, np.float64).reshape(-1, len(arms), 2).transpose(2, 1, 0)
