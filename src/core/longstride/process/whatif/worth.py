"""What a policy is worth: how many more people, or how many fewer cases, do as much for the best heuristic.

The heuristic plays with more and more people on the random streams of the policy's episodes. The policy's worth is
where the paired difference of both means is zero, by straight lines between whole people. Its interval is where the
95 % interval of the difference holds zero, so it says no more than the comparison shows.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Any

from longstride.errors import UserError
from longstride.process.changes.patch import with_arrivals, without_people
from longstride.process.changes.people import add_people, group_of, groups, is_at_work
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import parse_scenario, scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.process.whatif.compare import Sampling
from longstride.training.evaluation.compiled import CompiledPlayer, Records
from longstride.training.evaluation.evaluate import paired_values
from longstride.training.evaluation.statistics import paired_difference

_MOST_MORE = 5
"""People that are added at most."""

_FEWER = 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5
"""Shares of the cases that stay away."""

_MOST_GROUPS, _PILOT_EPISODES = 24, 8
_PILOT = "what if, which people"
"""Groups of people that are tried, the episodes of the trial, and its random streams, which no comparison uses."""


@dataclass(frozen=True)
class Step:
    """The heuristic with some more of what helps it, against the policy as it is."""

    amount: float  # more people, or the share of the cases that stay away
    mean: float  # main metric of the heuristic
    difference: float  # heuristic minus policy: above 0 where the policy is better
    low: float  # lower end of its 95 % interval, paired, Student's t
    high: float  # upper end


@dataclass(frozen=True)
class Worth:
    """How much of something does as much for the heuristic as the policy does; None where more was not tried."""

    what: str  # group of the people, or ``arrivals``
    steps: list[Step]  # what was tried, in the order of the amounts
    amount: float | None  # where the difference is zero
    low: float | None  # from here on the interval of the difference holds zero
    high: float | None  # from here on the heuristic is shown to be better
    members: int = 0  # people of the group today
    kinds: int = 0  # groups of people who are ever on duty
    tried: int = 0  # the largest of them, one person more of which was tried each

    def as_json(self) -> dict[str, Any]:
        """Return the JSON values."""
        return {**vars(self), "steps": [vars(step) for step in self.steps]}


def worth_in_people(simulator: ProcessSimulator, heuristic: str, policy: Records, sampling: Sampling) -> Worth | None:
    """Return how many more people of the group that helps most bring a heuristic to the policy's mean.

    Args:
        simulator: of the policy's scenario.
        heuristic: best heuristic there.
        policy: records of the policy's episodes, by ``sampling``.
        sampling: how episodes are played.

    Returns:
        The worth; None where no more people can be added, or less than two episodes can be compared.
    """
    kinds = groups([name for name in simulator.scenario.resources if is_at_work(simulator.scenario, name)])
    tried = sorted(kinds.values(), key=len, reverse=True)[:_MOST_GROUPS]
    group = _group_that_helps(simulator, heuristic, sampling, tried)
    if group is None:
        return None
    more, added = _with_more(simulator.scenario, group, _MOST_MORE)
    player = CompiledPlayer(more, None, sampling.threads)
    tries = (
        (float(count), _play(player.on(without_people(more, added[count:])), heuristic, sampling))
        for count in range(_MOST_MORE + 1)
    )
    worth = _worth(group_of(group[0]) if len(group) > 1 else group[0], simulator.main_metric, tries, policy)
    return replace(worth, members=len(group), kinds=len(kinds), tried=len(tried)) if worth else None


def worth_in_arrivals(simulator: ProcessSimulator, heuristic: str, policy: Records, sampling: Sampling) -> Worth | None:
    """Return which share of the cases would have to stay away for a heuristic to reach the policy's mean.

    None for arrivals of a log, which are replayed, and for less than two episodes that can be compared. Arguments are
    those of :func:`worth_in_people`.
    """
    if simulator.scenario.arrivals.times is not None:
        return None
    player = CompiledPlayer(simulator, None, sampling.threads)
    tries = (
        (share, _play(player.on(with_arrivals(simulator, 1.0 - share)), heuristic, sampling))
        for share in (0.0, *_FEWER)
    )
    return _worth("arrivals", simulator.main_metric, tries, policy)


def _play(player: CompiledPlayer, heuristic: str, sampling: Sampling, streams: str = "evaluation") -> Records:
    return player.play(heuristic, None, sampling.episodes, sampling.seed, streams)[0]


def _worth(what: str, metric: str, tries: Iterable[tuple[float, Records]], policy: Records) -> Worth | None:
    """Return a worth by the heuristic's episodes at growing amounts, played until they are shown to be better."""
    steps = []
    for amount, records in tries:
        values, others = paired_values(records, policy, metric)
        if len(values) < 2:  # no interval
            return None
        difference = paired_difference(values, others)
        assert difference.low is not None and difference.high is not None
        steps.append(Step(amount, fmean(values), difference.value, difference.low, difference.high))
        if difference.high < 0.0:
            break
    amounts = [step.amount for step in steps]
    ends = [crossing(amounts, [getattr(step, name) for step in steps]) for name in ("difference", "low", "high")]
    return Worth(what, steps, ends[0], ends[1], ends[2])


def crossing(amounts: Sequence[float], values: Sequence[float]) -> float | None:
    """Return the first amount at which straight lines between some values are not above 0; None where all are."""
    if values[0] <= 0.0:
        return amounts[0]
    for (a, before), (b, after) in pairwise(zip(amounts, values, strict=True)):
        if after <= 0.0:
            return a + (b - a) * before / (before - after)
    return None


def _with_more(scenario: Scenario, members: Sequence[str], count: int) -> tuple[ProcessSimulator, list[str]]:
    """Return a simulator with so many more people like the typical one of a group, and their names."""
    content = scenario_content(scenario)
    add_people(content, scenario, members, count)
    more = parse_scenario(content, "the scenario with more people")
    return ProcessSimulator(more), more.resources[len(scenario.resources) :]


def _group_that_helps(
    simulator: ProcessSimulator, heuristic: str, sampling: Sampling, tried: Sequence[list[str]]
) -> list[str] | None:
    """Return the group of which one more person improves a heuristic most; on random streams of its own."""
    scenario, pilot = simulator.scenario, replace(sampling, episodes=_PILOT_EPISODES)
    content = scenario_content(scenario)
    for members in tried:
        add_people(content, scenario, members, 1)
    try:
        more = ProcessSimulator(parse_scenario(content, "the scenario with one more of each"))
    except UserError:
        return None
    added = more.scenario.resources[len(scenario.resources) :]
    player = CompiledPlayer(more, None, sampling.threads)

    def cost(name: str) -> float:
        records = _play(player.on(without_people(more, set(added) - {name})), heuristic, pilot, _PILOT)
        values = [r[simulator.main_metric] for r in records if simulator.main_metric in r]
        return fmean(values) if values else math.inf

    return tried[min(range(len(added)), key=lambda i: cost(added[i]))]
