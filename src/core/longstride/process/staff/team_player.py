"""Plays teams. A policy that scores pairs sees what people cost as it did in training, so it decides as there."""

from dataclasses import dataclass

from longstride.process.changes.apply import apply_changes
from longstride.process.kernel.policy_prior import RULE
from longstride.process.read_aims import changed
from longstride.process.scenario.scenario import Scenario
from longstride.process.simulator import ProcessSimulator
from longstride.process.staff.moves import Space, Team
from longstride.process.whatif.compare import TRAINED, Players, Sampling
from longstride.simulators.hooks import Records
from longstride.training.evaluation.trained_policy import TrainedPolicy

_SEEN = "pair_rule", "pair_price"
"""Figures of a team that depend on what people cost."""


@dataclass(frozen=True)
class Acting:
    """What plays the teams: a policy that scores pairs, or a rule."""

    policy: TrainedPolicy | None = None
    trained_on: Scenario | None = None  # the policy's own scenario, whose aims say what it sees people cost
    prior: str = RULE  # prior of the policy's training
    name: str = TRAINED  # rule to play; ``TRAINED`` for the policy


def _as_seen(scenario: Scenario, trained_on: Scenario) -> Scenario:
    """Return a scenario as a policy sees it: with the objective that it was trained for, and people paid so."""
    own, costs = trained_on.aims, scenario.aims.costs
    if costs and own.costs:
        costs = costs.model_copy(update={"paid": own.costs.paid})
    return changed(scenario, {"objective": own.objective, "main_metric": None, "costs": costs})


class TeamPlayer:
    """Plays the teams of a space.

    Args:
        space: teams.
        acting: policy or rule.
        threads: number of threads, which does not change results.
    """

    def __init__(self, space: Space, acting: Acting, threads: int) -> None:
        self.threads = threads
        self._space, self._acting, self._players = space, acting, Players(threads)

    def scenario(self, team: Team) -> Scenario:
        """Return the scenario of a team.

        Raises:
            UserError: the team cannot do the work.
        """
        words = self._space.words(team)
        return apply_changes(self._space.scenario, words).scenario if words else self._space.scenario

    def play(self, team: Team, sampling: Sampling, streams: str = "evaluation") -> Records:
        """Return the episodes of a team.

        Raises:
            UserError: the team cannot do the work.
        """
        simulator, acting = self.simulator(team), self._acting
        names = [] if acting.policy else [acting.name]
        title = self._space.words(team) or "the people as they are"
        return self._players.play(title, simulator, acting.policy, names, sampling, streams).records[acting.name]

    def simulator(self, team: Team) -> ProcessSimulator:
        """Return the simulator of a team.

        Raises:
            UserError: the team cannot do the work.
        """
        own, acting = self.scenario(team), self._acting
        simulator = ProcessSimulator(own, acting.prior)
        if acting.trained_on is not None:
            seen = ProcessSimulator(_as_seen(own, acting.trained_on), acting.prior).parameters
            for name in _SEEN:
                simulator.parameters[name] = seen[name]
        return simulator
