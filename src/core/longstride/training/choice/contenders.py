"""The policies of a run that are compared at its end, and what they play."""

from collections import defaultdict
from collections.abc import Sequence

from longstride.policies.compiled.forward import align_params
from longstride.policies.spec import PolicySpec
from longstride.simulators.simulator import Simulator
from longstride.training.choice.candidates import Candidate
from longstride.training.choice.halving import Arm
from longstride.training.choice.long_episodes import steps_of_long
from longstride.training.evaluation.compiled import Played
from longstride.training.evaluation.periodic import CHOICE, PeriodicEvaluation

WAYS = {False: "trained", True: "trained_sampled"}
"""Names of the ways to play a policy, by whether it draws its actions."""


class Contenders:
    """Plays candidates, as arms that draw their actions or take the likeliest ones.

    Attributes:
        of: the candidates.
        params: float32[*] of the actor of each, as compiled code reads them.
        returns: sum of rewards of each episode that an arm has played.
        returns_long: the same of its long episodes.
    """

    def __init__(
        self, of: Sequence[Candidate], evaluation: PeriodicEvaluation, simulator: Simulator, spec: PolicySpec
    ) -> None:
        self.of, self._evaluation, self._simulator = of, evaluation, simulator
        self.params = [align_params(each.params, spec) for each in of]
        self.returns, self.returns_long = defaultdict[Arm, list[float]](list), defaultdict[Arm, list[float]](list)
        self._episodes = self._cut = 0

    def play(self, arm: Arm, episodes: range) -> list[tuple[float | None, int]]:
        """Play episodes, by number; return the main metric and the steps of each."""
        played = self._evaluation.play(self.params[arm.candidate], WAYS[arm.draws], episodes, CHOICE)
        self.returns[arm] += [each.record["return"] for each in played]
        self._episodes += len(played)
        self._cut += sum(each.steps == self._evaluation.cut for each in played)
        return self._values(played)

    def play_long(self, arm: Arm, episodes: range, longest: int) -> list[tuple[float | None, int]]:
        """Play long episodes, by number, of at most so many steps; return the main metric and the steps of each."""
        played = self._evaluation.play_long(self.params[arm.candidate], WAYS[arm.draws], episodes, longest)
        self.returns_long[arm] += [each.record["return"] for each in played]
        return self._values(played)

    def longest(self, budget: float) -> int:
        """Return the most steps of a long episode if most episodes have been cut; 0 if no long ones are played."""
        are_cut = 2 * self._cut > self._episodes
        return steps_of_long(budget, self._simulator.max_steps, self._evaluation.cut) if are_cut else 0

    def _values(self, played: Sequence[Played]) -> list[tuple[float | None, int]]:
        return [(each.record.get(self._simulator.main_metric), each.steps) for each in played]
