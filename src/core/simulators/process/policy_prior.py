"""The policy prior: what an untrained policy prefers, a rule of thumb from which learning starts.

Three figures of a pair do not change: how slow its resource is at the activity compared with the fastest, compared
with the resource's own average (so that resources do what they are comparatively good at), and the work that a case
still has ahead (cases that are nearly done go first). The others come from
:func:`core.simulators.process.action_features.action_features`. Learning changes all of it.
"""

import numpy as np

from core.simulators.process.parameters import Parameters
from core.simulators.process.routing import Routing

_SLOWER_THAN_FASTEST, _SLOWER_THAN_OWN_AVERAGE, _WORK_AHEAD, _POSTPONE = -2.4, -1.5, -1.0, -9.0
_FEATURE_WEIGHTS = 0.7, 6.0, -2.0


def feature_weights(routing: Routing) -> np.ndarray:
    """Return float32[F], the initial weights of the action features; a flow without joins has only two."""
    return np.array(_FEATURE_WEIGHTS if routing.joins else _FEATURE_WEIGHTS[:2], np.float32)


def initial_logits(p: Parameters, routing: Routing) -> np.ndarray:
    """Return float32[P + 1], the logits of the pairs and of postpone before the action features are added."""
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
    pairs = (
        _SLOWER_THAN_FASTEST * np.log(p.pair_mean / fastest[p.pair_activity])
        + _SLOWER_THAN_OWN_AVERAGE * (slowness - own_average[p.pair_resource])
        + _WORK_AHEAD * (ahead - ahead.mean())[p.pair_activity]
    )
    return np.append(pairs, _POSTPONE).astype(np.float32)
