"""The search among teams: all of them if they are few, else by NSGA-II of Optuna, whose journal survives a kill.

NSGA-II: Deb et al., A Fast and Elitist Multiobjective Genetic Algorithm, 2002.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longstride.commands.sweep.journal import import_optuna, open_study, repair_study
from longstride.errors import UserError
from longstride.process.front.points import front_of
from longstride.process.staff.moves import Space, Team
from longstride.seeding import stream

_POPULATION = 20
"""Least teams of a generation; the people as they are and all single moves are in the first one."""

_TRIES = 5
"""The search ends if it has tried this many times as many teams as it may play, most of which it knew."""


@dataclass(frozen=True)
class Played:
    """A team that has been played."""

    team: Team
    values: tuple[float, float]  # means of both metrics
    took: float  # seconds


@dataclass
class Progress:
    """What a search has done in all of its calls."""

    played: dict[str, Played] = field(default_factory=dict)  # changes in words -> team
    impossible: int = 0  # teams that cannot do the work
    tried: int = 0  # teams that were tried, with those that were known

    @property
    def seconds(self) -> float:
        """Seconds of playing."""
        return sum(each.took for each in self.played.values())

    def front(self) -> list[Played]:
        """Return the teams on the front, by their first metric."""
        teams = list(self.played.values())
        on_front = front_of([each.values for each in teams])
        return sorted((t for t, is_on in zip(teams, on_front, strict=True) if is_on), key=lambda t: t.values)


class TeamSearch:
    """A search that a later call continues.

    Args:
        journal: file of the search.
        space: teams.
        most: most teams to play.
        seed: seed of the search's random streams.

    Raises:
        UserError: Optuna is not installed, or the journal is damaged.
    """

    def __init__(self, journal: Path, space: Space, most: int, seed: int) -> None:
        self._optuna, self._space, self._most, self._seed = import_optuna("staff"), space, most, seed
        self._study = open_study(self._optuna, journal, "staff", ["minimize", "minimize"])
        self.progress = Progress()
        self.all_of_them = space.size <= most
        repair_study(self._optuna, self._study)
        states = self._optuna.trial.TrialState
        ended = self._study.get_trials(deepcopy=False, states=(states.COMPLETE, states.FAIL))
        for trial in ended:
            self._note(self._team(trial.params), trial.values, trial.user_attrs)
        self._begun = {self._team(trial.params) for trial in self._study.get_trials(deepcopy=False) if trial.params}
        self._waiting = self._first_teams()

    def run(self, play: Callable[[Team], tuple[float, float]], has_time: Callable[[], bool]) -> bool:
        """Play teams until there are enough or the time is over; return whether the search is complete.

        Args:
            play: returns the means of both metrics of a team, or raises a UserError if it cannot do the work.
            has_time: whether there is time for another team.
        """
        while (self._waiting or not self.all_of_them) and not self._is_done():
            if not has_time():
                return False
            self._try(play)
        return True

    def _is_done(self) -> bool:
        return len(self.progress.played) >= self._most or self.progress.tried >= _TRIES * self._most

    def _try(self, play: Callable[[Team], tuple[float, float]]) -> None:
        trial, team = self._begin()
        words, began = self._space.words(team), time.perf_counter()
        known = self.progress.played.get(words)
        if known is not None:
            self._tell(trial, team, known.values, {"took": 0.0})
            return
        try:
            values: tuple[float, float] | None = play(team)
            notes: dict[str, Any] = {"took": time.perf_counter() - began}
        except UserError as error:
            if team == self._space.base:
                raise  # who can do the work as they are: it is about all teams
            values, notes = None, {"error": str(error)}
        self._tell(trial, team, values, notes)

    def _begin(self) -> tuple[Any, Team]:
        names = [choice.name for choice in self._space.choices]
        if self._waiting:
            self._study.enqueue_trial(dict(zip(names, self._waiting.pop(0), strict=True)))
        seed = int(stream(self._seed, "staff", self.progress.tried).integers(2**31))
        population = max(_POPULATION, 1 + len(self._space.neighbours()))
        self._study.sampler = self._optuna.samplers.NSGAIISampler(population_size=population, seed=seed)
        trial = self._study.ask({c.name: self._distribution(c.kind, len(c.options)) for c in self._space.choices})
        return trial, self._team(trial.params)

    def _distribution(self, kind: str, options: int) -> Any:
        kinds = self._optuna.distributions
        ordered = kind == "people"
        return kinds.IntDistribution(0, options - 1) if ordered else kinds.CategoricalDistribution(range(options))

    def _tell(self, trial: Any, team: Team, values: tuple[float, float] | None, notes: dict[str, Any]) -> None:
        for name, note in notes.items():
            trial.set_user_attr(name, note)
        states = self._optuna.trial.TrialState
        self._study.tell(trial, None if values is None else list(values), states.FAIL if values is None else None)
        self._note(team, values, notes)

    def _note(self, team: Team, values: Any, notes: dict[str, Any]) -> None:
        """Take note of a trial that has ended; one that failed without an error was interrupted."""
        if values is not None:
            self.progress.tried += 1
            found = Played(team, (float(values[0]), float(values[1])), float(notes.get("took", 0.0)))
            self.progress.played.setdefault(self._space.words(team), found)
        elif "error" in notes:
            self.progress.tried += 1
            self.progress.impossible += 1

    def _team(self, params: dict[str, Any]) -> Team:
        return tuple(int(params.get(choice.name, choice.none)) for choice in self._space.choices)

    def _first_teams(self) -> list[Team]:
        """Return the teams to play before the search chooses: all if they are few, else those near the present one."""
        teams = self._space.all() if self.all_of_them else [self._space.base, *self._space.neighbours()]
        return [team for team in teams if team not in self._begun]
