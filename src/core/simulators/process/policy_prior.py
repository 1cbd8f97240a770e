"""The policy prior: what an untrained policy prefers, a rule of thumb from which learning starts.

Three figures of a pair do not change: how slow its resource is at the activity compared with the fastest, compared
with the resource's own average (so that resources do what they are comparatively good at), and the work that a case
still has ahead (cases that are nearly done go first). The others come from
:func:`core.simulators.process.action_features.action_features`. Learning changes all of it.
"""

import numpy as np

from core.simulators.process.parameters import Parameters
from core.simulators.process.routing import Routing

WEIGHTS = -2.4, -1.5, -1.0
"""Weights of the three figures of a pair that do not change, in the order of :func:`fixed_figures`."""

POSTPONE = -9.0
"""Logit of postpone."""

FEATURE_WEIGHTS = 0.7, 6.0, -2.0
"""Weights of the action features."""


def feature_weights(routing: Routing) -> np.ndarray:
    """Return float32[F], the initial weights of the action features; a flow without joins has only two."""
    return np.array(FEATURE_WEIGHTS if routing.joins else FEATURE_WEIGHTS[:2], np.float32)


def initial_logits(p: Parameters, routing: Routing) -> np.ndarray:
    """Return float32[P + 1], the logits of the pairs and of postpone before the action features are added."""
    slower, own, ahead = fixed_figures(p, routing)
    pairs = WEIGHTS[0] * slower + WEIGHTS[1] * own + WEIGHTS[2] * ahead[p.pair_activity]
    return np.append(pairs, POSTPONE).astype(np.float32)


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
