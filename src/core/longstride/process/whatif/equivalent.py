"""The policy's gain in people or cases: the number of more people, or fewer cases, with which a heuristic matches it.

The best heuristic plays with more and more people on the random streams of the policy's episodes. The equivalent is the
number of people at which the paired difference of both means is zero, by straight lines between whole numbers. Its
interval contains the numbers at which the 95 % interval of the difference contains zero, so it claims no more than the
comparison shows.
"""

import math
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Any

from longstride.errors import UserError
from longstride.process.changes.people import add_people, group_of, groups, is_at_work
from longstride.process.scenario.at_once import without_slots
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import parse_scenario, scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.process.whatif.compare import Sampling
from longstride.training.evaluation.compiled import CompiledPlayer, Records
from longstride.training.evaluation.evaluate import paired_values
from longstride.training.evaluation.statistics import paired_difference

_MOST_MORE = 5
"""Most people that are added."""

_FEWER = 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5
"""Shares of the cases that stay away."""

_MOST_GROUPS, _PILOT_EPISODES = 24, 8
_PILOT = "what if, which people"
"""Most groups of people that are tried, episodes of each trial, and its random streams, used by no comparison."""


@dataclass(frozen=True)
class Step:
    """The heuristic with more people or fewer cases, compared with the policy on the unchanged process."""

    amount: float  # more people, or the share of the cases that stay away
    mean: float  # main metric of the heuristic
    difference: float  # heuristic minus policy: above 0 if the policy is better
    low: float  # lower end of its 95 % interval, paired, Student's t
    high: float  # upper end


@dataclass(frozen=True)
class Equivalent:
    """The amount of people or cases with which the heuristic matches the policy; None if not reached."""

    what: str  # group of the people, or ``arrivals``
    steps: list[Step]  # tried amounts in order
    amount: float | None  # amount at which the difference is zero
    low: float | None  # from here on the interval of the difference contains zero
    high: float | None  # from here on the heuristic is significantly better
    members: int = 0  # people of the group today
    kinds: int = 0  # number of groups of people who are ever on duty
    tried: int = 0  # number of the largest groups that were tried with one more person

    def as_json(self) -> dict[str, Any]:
        """Return the JSON values."""
        return {**vars(self), "steps": [vars(step) for step in self.steps]}


def equivalent_people(
    simulator: ProcessSimulator, heuristic: str, policy: Records, sampling: Sampling
) -> Equivalent | None:
    """Return the number of more people, of the group that helps most, with which a heuristic matches the policy.

    Args:
        simulator: simulator of the policy's scenario.
        heuristic: best heuristic on it.
        policy: records of the policy's episodes by ``sampling``.
        sampling: number and random streams of the episodes.

    Returns:
        The equivalent; None if no more people can be added, or fewer than two episodes can be compared.
    """
    scenario = without_slots(simulator.scenario)
    kinds = groups([name for name in scenario.resources if is_at_work(scenario, name)])
    tried = sorted(kinds.values(), key=len, reverse=True)[:_MOST_GROUPS]
    group = _group_that_helps(simulator, heuristic, sampling, tried)
    if group is None:
        return None
    tries = (
        (float(count), _play(_with_more(scenario, group, count), heuristic, sampling))
        for count in range(_MOST_MORE + 1)
    )
    equivalent = _equivalent(group_of(group[0]) if len(group) > 1 else group[0], simulator.main_metric, tries, policy)
    return replace(equivalent, members=len(group), kinds=len(kinds), tried=len(tried)) if equivalent else None


def equivalent_arrivals(
    simulator: ProcessSimulator, heuristic: str, policy: Records, sampling: Sampling
) -> Equivalent | None:
    """Return the share of the cases that would have to stay away for a heuristic to match the policy.

    None for replayed arrivals, and if fewer than two episodes can be compared. Arguments are those of
    :func:`equivalent_people`.
    """
    if simulator.scenario.arrivals.times is not None:
        return None
    tries = ((share, _play(_with_arrivals(simulator, 1.0 - share), heuristic, sampling)) for share in (0.0, *_FEWER))
    return _equivalent("arrivals", simulator.main_metric, tries, policy)


def _play(simulator: ProcessSimulator, heuristic: str, sampling: Sampling, streams: str = "evaluation") -> Records:
    player = CompiledPlayer(simulator, None, sampling.threads)
    return player.play(heuristic, None, sampling.episodes, sampling.seed, streams)[0]


def _equivalent(what: str, metric: str, tries: Iterable[tuple[float, Records]], policy: Records) -> Equivalent | None:
    """Return the equivalent from the heuristic's episodes at growing amounts, up to a significantly better one."""
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
    return Equivalent(what, steps, ends[0], ends[1], ends[2])


def crossing(amounts: Sequence[float], values: Sequence[float]) -> float | None:
    """Return the first amount at which straight lines between values are not above 0; None if all are above 0."""
    if values[0] <= 0.0:
        return amounts[0]
    for (a, before), (b, after) in pairwise(zip(amounts, values, strict=True)):
        if after <= 0.0:
            return a + (b - a) * before / (before - after)
    return None


def _with_more(scenario: Scenario, members: Sequence[str], count: int) -> ProcessSimulator:
    """Return a simulator with ``count`` more people like the typical one of a group."""
    content = scenario_content(scenario)
    if count:
        add_people(content, scenario, members, count)
    return ProcessSimulator(parse_scenario(content, "the scenario with more people"))


def _with_arrivals(simulator: ProcessSimulator, factor: float) -> ProcessSimulator:
    """Return a copy of a simulator with another rate of arrivals, at most the present one: ``factor`` in (0, 1]."""
    changed = copy(simulator)
    changed.parameters = simulator.parameters.copy()
    changed.parameters["arrival_rates"] *= factor
    changed.parameters["arrivals_expected"] *= factor
    return changed


def _group_that_helps(
    simulator: ProcessSimulator, heuristic: str, sampling: Sampling, tried: Sequence[list[str]]
) -> list[str] | None:
    """Return the group of which one more person improves a heuristic most, on separate random streams."""
    scenario, pilot = without_slots(simulator.scenario), replace(sampling, episodes=_PILOT_EPISODES)

    try:
        with_one = [_with_more(scenario, members, 1) for members in tried]
    except UserError:
        return None

    def cost(number: int) -> float:
        records = _play(with_one[number], heuristic, pilot, _PILOT)
        values = [r[simulator.main_metric] for r in records if simulator.main_metric in r]
        return fmean(values) if values else math.inf

    return tried[min(range(len(tried)), key=cost)]
