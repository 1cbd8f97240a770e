"""The sizes of the state record and of a nominal episode."""

import math
from typing import NamedTuple

import numpy as np

from longstride.errors import UserError
from longstride.process.kernel.arrivals import expected_cases
from longstride.process.scenario.nodes import TASK
from longstride.process.scenario.routing import Routing
from longstride.process.scenario.scenario import HOURS_PER_WEEK, Scenario

_MOST_CASES = 20_000_000
"""Most expected cases of an episode; their state fills about a gigabyte."""


class Sizes(NamedTuple):
    """Sizes of the state record and of a nominal episode."""

    cases: int  # most cases that the record holds
    waiting: int  # most waiting tasks that the record holds
    timers: int  # most tasks in an external delay that the record holds
    depth: int  # nodes of one token at one time that the record holds
    expected_cases: float  # cases of a nominal episode
    expected_tasks: float  # tasks of a nominal episode
    max_steps: int  # environment steps that no stable process reaches


def sizes_of(scenario: Scenario, routing: Routing) -> Sizes:
    """Return sizes that a stable process does not reach: eight standard deviations above the mean.

    Args:
        scenario: checked scenario.
        routing: nodes of its flow.

    Raises:
        UserError: a case can never end, or an episode would have too many cases.
    """
    expected = expected_cases(scenario)
    if not expected <= _MOST_CASES:  # NaN included
        raise UserError(
            f"an episode would have {expected:.3g} cases; shorten the horizon to at most {_MOST_CASES:,} of them."
        )
    expected = max(1.0, expected)
    cases = int(expected + 8 * math.sqrt(expected) + 100)
    tokens = int(cases * routing.mean_width + 8 * math.sqrt(cases) * (routing.width - routing.mean_width)) + 1
    waiting = scenario.capacity.waiting_tasks or (tokens if routing.visits else cases * routing.width)
    timers = tokens * (1 + bool(scenario.batches)) if scenario.has_delays else 1
    task = np.array(routing.kind) == TASK
    visits = float(routing.expected_visits()[task].sum())
    if visits == 0.0:
        raise UserError("flow: no case ever reaches an activity, so there is nothing to decide.")
    tasks = expected * visits
    calendars = scenario.working_hours or scenario.rosters or scenario.has_leave
    weeks = scenario.horizon.value / (scenario.hour * HOURS_PER_WEEK) if calendars else 0.0
    changes = sum(2 * len(s.days) for shifts in scenario.working_hours.values() for s in shifts) * (weeks + 1)
    changes += (HOURS_PER_WEEK + 7) * (weeks + 1) if scenario.by_the_day or scenario.at_end_of_duty == "pause" else 0.0
    # A step is an assignment or a postponement, and each event is followed by at most one postponement.
    most = 2 * visits * cases + cases + changes
    most += tasks + visits * cases if scenario.has_delays else 0.0
    return Sizes(cases, waiting, timers, routing.depth, expected, tasks, int(min(1.1 * most, 1e15)) + 100)
