"""The policy prior: what an untrained policy prefers, a rule from which learning starts.

A prior is one of four, the same layout with other numbers. ``fifo`` and ``spt`` are the heuristics of these names, with
the fastest person among those who are equal to them; ``logged`` serves the oldest case by the person whom the log shows
most often. None of these postpones. ``rule`` is a rule of thumb that does.

Three figures of a pair do not change: how slow its resource is at the activity compared with the fastest, compared
with the resource's own average (so that resources do what they are comparatively good at), and the work that a case
still has ahead (cases that are nearly done go first). The others come from
:func:`longstride.process.kernel.action_features.action_features`. Learning changes all of it.
"""

import numpy as np

from longstride.process.kernel.parameters import Parameters
from longstride.process.scenario.routing import Routing

WEIGHTS = -2.4, -1.5, -1.0
"""Weights of the three figures of a pair that do not change, in the order of :func:`fixed_figures`."""

POSTPONE = -9.0
"""Logit of postpone."""

FEATURE_WEIGHTS = 0.7, 6.0, -2.0
"""Weights of the action features."""

RULE, FIFO, SPT, LOGGED = "rule", "fifo", "spt", "logged"
PRIORS = RULE, FIFO, SPT, LOGGED

SHARP = 6.0
"""Logits by which a prior prefers what its heuristic would choose; times the logarithm of service times for ``spt``."""


def serves_oldest(prior: str) -> bool:
    """Return whether a prior needs to know who serves the oldest case: the second action feature says it then."""
    return prior in (FIFO, LOGGED)


def feature_weights(p: Parameters, routing: Routing, prior: str = RULE) -> np.ndarray:
    """Return float32[F], the initial weights of the action features; a flow without joins has only two."""
    weights = np.array(FEATURE_WEIGHTS if routing.joins else FEATURE_WEIGHTS[:2], np.float32)
    if prior != RULE:
        weights[:] = 0.0
    if serves_oldest(prior):
        preferences = _preferences(p, routing, prior)
        weights[1] = SHARP + preferences.max() - preferences.min()
    return weights


def initial_logits(p: Parameters, routing: Routing, prior: str = RULE) -> np.ndarray:
    """Return float32[P + 1], the logits of the pairs and of postpone before the action features are added."""
    pairs = _preferences(p, routing, prior)
    postpone = POSTPONE if prior == RULE else pairs.min() - SHARP
    return np.append(pairs, postpone).astype(np.float32)


def _preferences(p: Parameters, routing: Routing, prior: str) -> np.ndarray:
    """Return float64[P], the logits of the pairs before the action features are added."""
    slower, own, ahead = fixed_figures(p, routing)
    if prior == SPT:
        return np.asarray(-SHARP * np.log(p.pair_mean / p.pair_mean.min()))
    if prior == LOGGED:
        most = np.zeros(len(p.activity_pairs) - 1)
        np.maximum.at(most, p.pair_activity, p.pair_habit)
        return np.asarray(np.log((p.pair_habit + 0.5) / (most[p.pair_activity] + 0.5)))
    if prior == FIFO:
        return np.asarray(-slower)
    return np.asarray(WEIGHTS[0] * slower + WEIGHTS[1] * own + WEIGHTS[2] * ahead[p.pair_activity])


def fixed_figures(p: Parameters, routing: Routing) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what does not change: two figures of each pair, float64[P], and of each activity, float64[A].

    They are logarithms: how slow the person is compared with the fastest, compared with what is usual for this person,
    and how much work a case has ahead compared with the mean of all activities.
    """
    activities, resources = len(p.activity_pairs) - 1, len(p.on_duty_at_start)
    fastest = np.full(activities, np.inf)
    np.minimum.at(fastest, p.pair_activity, p.pair_mean)
    counts = np.bincount(p.pair_activity, minlength=activities)
    speed = np.bincount(p.pair_activity, 1.0 / p.pair_mean, activities)
    # Nobody does an automatic activity: it is no work.
    typical = np.divide(counts, speed, out=np.full(activities, 1e-9 * p.service_unit), where=counts > 0)
    slowness = np.log(p.pair_mean / typical[p.pair_activity])
    per_resource = np.maximum(np.bincount(p.pair_resource, minlength=resources), 1)
    own_average = np.bincount(p.pair_resource, slowness, resources) / per_resource
    ahead = np.log(routing.expected_work_ahead(typical))
    slower = np.log(p.pair_mean / fastest[p.pair_activity])
    return slower, slowness - own_average[p.pair_resource], ahead - ahead.mean()
