"""Constant figures about pairs, people and activities, and the prior of an untrained policy.

They are fields of the parameters' record, in addition to :class:`longstride.process.kernel.parameters.Parameters`. None
depends on the order of people or activities.
"""

import math

import numpy as np
from numba import njit

from longstride.process.kernel.aims.arrays import due_share, typical_times
from longstride.process.kernel.pairs import batches
from longstride.process.kernel.parameters import Parameters
from longstride.process.kernel.policy_prior import (
    FEATURE_WEIGHTS,
    POSTPONE,
    RULE,
    SHARP,
    SPT,
    WEIGHTS,
    fixed_figures,
)
from longstride.process.kernel.record_sizes import Sizes
from longstride.process.scenario.routing import Routing

SLOWER_THAN_FASTEST, SLOWER_THAN_OWN, WORK_AHEAD, SLACK, NEGATIVE_SLACK, BEHIND, IS_POSTPONE = range(7)
SERVICE, QUEUE, AGE, CASE_AGE, FREE, ABLE, FASTER, SKILLS = range(7, 15)
OTHER_WAITING, OTHER_TASKS, BEST_ELSEWHERE, SHIFT_LEFT, BEST_SLACK = range(15, 20)
"""Columns of a description; docs/reference/process-simulator.md has a table."""

SIZE = 20

_OLDEST, _NEVER = 30.0, -100.0
"""Weights of the logarithm of a case's age, and of postpone, in priors that never postpone."""

_COUNTS = 256
"""Numbers of cases or tasks, from 0 on, whose logarithms are kept."""


def pair_figures(p: Parameters, routing: Routing, on_duty: float = 1.0) -> dict[str, np.ndarray]:
    """Return further fields of the parameters: P pairs, A activities, R resources; times in units of ``service_unit``.

    They are ``pair_rule`` float64[P, 3], the constant figures of the rule; ``pair_log`` float64[P], the logarithm of
    the mean service time; ``work_ahead`` float64[A], the expected work from each activity to the end of a case;
    ``due_share`` and ``tardy_share`` float64, see :func:`longstride.process.kernel.aims.arrays.due_share`;
    ``activity_share`` float64[A], the mean service time over the number of able people; ``able`` float64[A], that
    number; ``skills`` float64[R], the number of pairs of each resource; ``people`` float64, R; ``resource_pairs``
    int64[P], the pairs by resource, those of resource r from ``resource_first[r]`` on; ``pair_enough`` float64[P],
    :func:`longstride.process.kernel.pairs.batches.enough_tasks`, for people on duty a share of the time; and ``log1p``
    float64[256], the logarithms of :func:`log1p_of`.
    """
    slower, own, ahead = fixed_figures(p, routing)
    counts = np.bincount(p.pair_activity, minlength=len(p.activity_pairs) - 1)
    typical = typical_times(p.pair_mean, p.pair_activity, len(counts))
    return {
        "pair_rule": np.stack([slower, own, ahead[p.pair_activity]], axis=1),
        "pair_log": np.log(p.pair_mean / p.service_unit),
        "work_ahead": routing.expected_work_ahead(typical) / p.service_unit,
        "due_share": np.asarray(due_share(p.weights, p.service_unit)),
        "tardy_share": np.asarray(due_share(p.weights, p.service_unit, tardiness_alone=True)),
        "activity_share": typical / np.maximum(counts, 1) / p.service_unit,
        "able": counts.astype(np.float64),
        "skills": np.diff(p.resource_first).astype(np.float64),
        "people": np.asarray(float(len(p.on_duty_at_start))),
        "resource_pairs": np.argsort(p.pair_resource, kind="stable").astype(np.int64),
        "pair_enough": batches.enough_tasks(p, routing, on_duty),
        "log1p": np.array([math.log1p(count) for count in range(_COUNTS)]),
    }


@njit(nogil=True)
def log1p_of(p, count):  # type: ignore[no-untyped-def]
    """Return log(1 + count) of an int64 >= 0, float64."""
    return p.log1p[count] if count < len(p.log1p) else math.log1p(count)


def initial_weights(prior: str = RULE, starts_batches: bool = False) -> np.ndarray:
    """Return float32[SIZE], a prior of :mod:`longstride.process.kernel.policy_prior` as weights of a description.

    If policies begin batches, the weights of the figures of ``batches.py`` are at the end. Descriptions have neither
    the logged habits nor due dates, so ``logged`` and ``atc`` have the weights of ``fifo``.
    """
    weights = np.zeros(SIZE + starts_batches * batches.SIZE, np.float32)
    if prior != RULE:
        weights[[SLOWER_THAN_FASTEST, CASE_AGE]] = (-1.0, _OLDEST) if prior != SPT else (0.0, 0.0)
        weights[[SERVICE, IS_POSTPONE]] = (-SHARP if prior == SPT else 0.0), _NEVER
        return weights
    weights[[SLOWER_THAN_FASTEST, SLOWER_THAN_OWN, WORK_AHEAD]] = WEIGHTS
    weights[[SLACK, NEGATIVE_SLACK, BEHIND]] = FEATURE_WEIGHTS
    weights[IS_POSTPONE] = POSTPONE
    weights[SIZE:] = batches.WEIGHTS[: len(weights) - SIZE]
    return weights


def expected_actions(p: Parameters, sizes: Sizes, routing: Routing, on_duty: float) -> float:
    """Return the approximate number of feasible actions at a decision, for plans of memory.

    ``on_duty`` is the mean share of the time that people are on duty.

    If people are seldom busy, one task waits and its activity's free people are feasible: at most as many as if the
    fastest did all the work. If people are always busy, one person is free for all activities that wait. The result is
    the larger of the two, one more, and postpone. It may be a few times the number that a policy meets.
    """
    activities, resources = len(p.activity_pairs) - 1, len(p.on_duty_at_start)
    counts = np.bincount(p.pair_activity, minlength=activities)
    each = routing.visits_by_activity(activities)
    time_on_duty = p.horizon * resources * max(on_duty, 1e-9)
    fastest = np.full(activities, np.inf)
    np.minimum.at(fastest, p.pair_activity, p.pair_mean)
    fastest[counts == 0] = 0.0
    idle = max(1.0 - sizes.expected_cases * float(each @ fastest) / time_on_duty, 0.0)
    able = float(each @ counts) / max(float(each.sum()), 1e-9)
    skills = len(p.pair_mean) / resources
    return 2.0 + max(able * on_duty * idle, skills)
