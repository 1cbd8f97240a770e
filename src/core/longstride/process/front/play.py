"""Plays the points of a front: rules and policies on the same random streams."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longstride.process.front.points import Point
from longstride.process.front.source import Run
from longstride.process.read_aims import changed
from longstride.process.scenario.scenario import Scenario
from longstride.process.simulator import ProcessSimulator
from longstride.process.whatif.compare import TRAINED, Players, Sampling
from longstride.process.whatif.reuse import why_not
from longstride.simulators.hooks import Records
from longstride.text import Say

LOGGED = "logged"
_USUAL = LOGGED, "fifo"
"""Rules with which the points are compared, the first that plays."""


@dataclass(frozen=True)
class Rules:
    """The episodes of the rules on a process."""

    simulator: ProcessSimulator
    records: Mapping[str, Records]
    messages: Sequence[str]

    @property
    def usual(self) -> str:
        """The rule with which others are compared."""
        return next((name for name in _USUAL if name in self.records), next(iter(self.records)))

    def points(self, team: str = "") -> list[Point]:
        """Return the rules as points."""
        return [
            Point(f"{name}{f', {team}' if team else ''}", "log" if name == LOGGED else "rule", records, team=team)
            for name, records in self.records.items()
        ]


def play_rules(name: str, scenario: Scenario, names: Sequence[str], sampling: Sampling, say: Say) -> Rules:
    """Play rules on a scenario that is called ``name``."""
    simulator = ProcessSimulator(scenario)
    result = Players(sampling.threads).play(name, simulator, None, names, sampling, progress=say)
    return Rules(simulator, result.records, result.messages)


class RunPlayer:
    """Plays the policy of a run on its own process and on others."""

    def __init__(self, run: Run, threads: int) -> None:
        self._run, self._players = run, Players(threads)

    def play(
        self, name: str, scenario: Scenario, sampling: Sampling, say: Say, streams: str = "evaluation"
    ) -> tuple[Records, str]:
        """Play a scenario; return the episodes and "", or none and why the policy cannot play it.

        The scenario gets the objective of the run, of which the policy sees what people cost.
        """
        own = self._run.simulator
        aims = {"objective": own.scenario.aims.objective, "main_metric": None}
        simulator = ProcessSimulator(changed(scenario, aims), own.prior)
        if reason := why_not(self._run.policy.spec, own, simulator):
            return [], reason
        result = self._players.play(name, simulator, self._run.policy, [], sampling, streams, say)
        return result.records[TRAINED], ""
