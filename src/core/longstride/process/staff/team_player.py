"""Plays teams by one kernel: people who may come or learn are in the arrays, but never on duty.

A kernel is compiled for the numbers of people and pairs, which takes much longer than an episode. So the arrays hold
everybody whom a team of the search may have: the people of today, those who may be added, and for each new skill a
second form of the person who may learn it. In a team all others are off duty. A policy that scores pairs sees figures
of the team itself, not of the arrays, so it decides as it would on the scenario of the team.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from longstride.process.changes.alike import same_sizes
from longstride.process.changes.apply import apply_changes
from longstride.process.changes.patch import without_people
from longstride.process.kernel.policy_prior import RULE
from longstride.process.read_aims import changed
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import parse_scenario, scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.process.staff.moves import Space, Team
from longstride.process.whatif.compare import TRAINED, Players, Sampling
from longstride.simulators.hooks import Records
from longstride.training.evaluation.trained_policy import TrainedPolicy

_OF_PAIRS = "pair_rule", "pair_log", "pair_price", "pair_enough"
_OF_ACTIVITIES = "activity_share", "work_ahead", "able"
_OF_ALL = "people", "service_unit"
"""Figures of a team that depend on who is in it."""


@dataclass(frozen=True)
class Acting:
    """What plays the teams: a policy that scores pairs, or a rule."""

    policy: TrainedPolicy | None = None
    trained_on: Scenario | None = None  # the policy's own scenario, whose aims say what it sees people cost
    prior: str = RULE  # prior of the policy's training
    name: str = TRAINED  # rule to play; ``TRAINED`` for the policy

    def seen(self, scenario: Scenario) -> Scenario:
        """Return a scenario as the policy sees it: with the objective that it was trained for, and people paid so."""
        if self.trained_on is None:
            return scenario
        own, costs = self.trained_on.aims, scenario.aims.costs
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
        self._everyone = _everyone(space)
        self._widest = ProcessSimulator(self._everyone, acting.prior)

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
        """Return the simulator of a team in the arrays of everybody.

        Raises:
            UserError: the team cannot do the work.
        """
        own, acting = self.scenario(team), self._acting
        forms = _forms(own, self._space.scenario)
        everyone = parse_scenario(_content(own, self._everyone, forms), "the team")
        _, simulator = same_sizes([self._widest, ProcessSimulator(everyone, acting.prior)])
        absent = set(everyone.resources) - set(forms.values())
        simulator = without_people(simulator, absent)
        _copy_figures(ProcessSimulator(acting.seen(own), acting.prior), simulator, forms)
        return simulator


def _everyone(space: Space) -> Scenario:
    """Return a scenario with everybody whom a team may have."""
    most = ["; ".join(choice.options[-1:]) for choice in space.choices if choice.kind == "people"]
    words = "; ".join(option for option in most if "people +" in option)
    content = scenario_content(apply_changes(space.scenario, words).scenario if words else space.scenario)
    for choice in space.choices:
        if choice.kind == "skills":
            for option in filter(None, choice.options):
                _add_form(content, space.scenario, option)
    return parse_scenario(content, "the scenario with everybody")


def _add_form(content: dict[str, Any], scenario: Scenario, words: str) -> None:
    """Add the form of a person who has learned an activity."""
    taught = apply_changes(scenario, words).scenario
    own = {(entry.resource, entry.activity) for entry in scenario.service}
    (name, activity), *_ = [(e.resource, e.activity) for e in taught.service if (e.resource, e.activity) not in own]
    form = form_name(name, activity)
    entries = [entry for entry in scenario_content(taught)["service"] if entry["resource"] == name]
    content["resources"].insert(content["resources"].index(name) + 1, form)  # ties are broken by this order
    content["service"] += [{**entry, "resource": form} for entry in entries]
    for key in ("working_hours", "rosters"):
        if name in content.get(key, {}):
            content[key][form] = content[key][name]


def form_name(name: str, activity: str) -> str:
    """Return the name of the form of a person who has learned an activity."""
    return f"{name} who has learned {activity}"


def _forms(own: Scenario, base: Scenario) -> dict[str, str]:
    """Return person of a team -> form in the scenario with everybody."""
    known = {(entry.resource, entry.activity) for entry in base.service}
    people = set(base.resources)
    learned = {
        entry.resource: entry.activity
        for entry in own.service
        if entry.resource in people and (entry.resource, entry.activity) not in known
    }
    return {name: form_name(name, learned[name]) if name in learned else name for name in own.resources}


def _content(own: Scenario, everyone: Scenario, forms: dict[str, str]) -> dict[str, Any]:
    """Return the scenario with everybody in which the people of a team have their hours, skills and costs."""
    content, team = scenario_content(everyone), scenario_content(own)
    there = set(forms.values())
    kept = [entry for entry in content["service"] if entry["resource"] not in there]
    content["service"] = [*kept, *({**entry, "resource": forms[entry["resource"]]} for entry in team["service"])]
    for key in ("working_hours", "rosters"):
        content[key] = {forms[name]: plans for name, plans in team.get(key, {}).items()}
    if own.working_hours or own.rosters:  # else no one has hours, and those who are absent are taken off duty later
        content["working_hours"] |= {name: [] for name in everyone.resources if name not in there}
    content["absences"] = [{**entry, "person": forms[entry["person"]]} for entry in team.get("absences", [])]
    content["aims"] = team.get("aims", {})
    costs = content["aims"].get("costs")
    if costs:
        costs["per_hour"] = {forms[name]: rate for name, rate in costs.get("per_hour", {}).items()}
    return content


def _copy_figures(own: ProcessSimulator, everyone: ProcessSimulator, forms: dict[str, str]) -> None:
    """Copy the figures that depend on who is in a team into the arrays of everybody."""
    a, b = own.parameters, everyone.parameters
    resources = {name: r for r, name in enumerate(everyone.scenario.resources)}
    place = np.array([resources[forms[name]] for name in own.scenario.resources])
    pairs = {(int(i), int(r)): k for k, (i, r) in enumerate(zip(b["pair_activity"], b["pair_resource"], strict=True))}
    to = [pairs[int(i), int(place[r])] for i, r in zip(a["pair_activity"], a["pair_resource"], strict=True)]
    for name in _OF_PAIRS:
        b[name][to] = a[name]
    for name in _OF_ACTIVITIES:
        b[name][:] = a[name]
    for name in _OF_ALL:
        b[name] = a[name]
    b["skills"][place] = a["skills"]
