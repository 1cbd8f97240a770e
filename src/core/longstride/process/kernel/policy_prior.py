"""The policy prior: the preferences of an untrained policy, a rule from which learning starts.

There are five priors, with the same layout but different numbers. ``fifo``, ``spt`` and ``atc`` are the heuristics of
these names, with ties broken by the fastest person; ``atc`` is for objectives with due dates. ``logged`` serves the
oldest case, or the longest wait, by the person whom the log shows most often. None of these postpones. ``rule`` is a
rule of thumb that does.

Three figures of a pair are constant: the slowness of its resource at the activity compared with the fastest resource,
the same compared with the resource's own average (resources do what they are comparatively good at), and the remaining
work of a case (cases that are nearly done go first). Further figures are the action features of
:func:`longstride.process.kernel.pairs.action_features.action_features`. Learning changes all weights.
"""

import numpy as np

from longstride.process.kernel.aims.case_classes import activity_weights
from longstride.process.kernel.pairs import batches
from longstride.process.kernel.parameters import Parameters
from longstride.process.scenario.routing import Routing

WEIGHTS = -2.4, -1.5, -1.0
"""Weights of the three constant figures of a pair, in the order of :func:`fixed_figures`."""

POSTPONE = -9.0
"""Logit of postpone."""

FEATURE_WEIGHTS = 0.7, 6.0, -2.0
"""Weights of the action features."""

RULE, FIFO, SPT, LOGGED, ATC = "rule", "fifo", "spt", "logged", "atc"
PRIORS = RULE, FIFO, SPT, LOGGED, ATC

SHARP = 6.0
"""Logits of the choice of a prior's heuristic; for ``spt`` and ``atc``, factors of the logarithm of their figures."""

NEGATIVE, OLDEST, URGENCY, LONGEST = range(4)
"""What the second action feature shows: see :func:`longstride.process.kernel.pairs.action_features.action_features`."""

SECOND_FEATURE = {RULE: NEGATIVE, FIFO: OLDEST, SPT: NEGATIVE, LOGGED: OLDEST, ATC: URGENCY}


def second_feature(p: Parameters, prior: str) -> int:
    """Return what the second action feature shows; that of ``logged`` follows the log's order of service."""
    return LONGEST if prior == LOGGED and p.longest_wait else SECOND_FEATURE[prior]


def initial_policy(p: Parameters, routing: Routing, prior: str = RULE) -> tuple[np.ndarray, np.ndarray]:
    """Return what an untrained policy prefers: logits, and the weights of the action features.

    The logits, float32[P + 1], are those of the pairs and of postpone, without the action features. The weights are
    float32[F]; F is 2 for a flow without joins, 3 for another, and 2 more if policies begin batches.
    """
    pairs = _preferences(p, routing, prior)
    postpone = POSTPONE if prior == RULE else pairs.min() - SHARP
    of_batches = batches.WEIGHTS if p.starts_batches else ()
    weights = np.array([*(FEATURE_WEIGHTS if routing.joins else FEATURE_WEIGHTS[:2]), *of_batches], np.float32)
    if prior != RULE:
        weights[:] = 0.0
    second = second_feature(p, prior)
    if second in (OLDEST, LONGEST):
        weights[1] = SHARP + pairs.max() - pairs.min()
    if second == URGENCY:
        weights[1] = SHARP
    return np.append(pairs, postpone).astype(np.float32), weights


def _preferences(p: Parameters, routing: Routing, prior: str) -> np.ndarray:
    """Return float64[P], the logits of the pairs, without the action features."""
    slower, own, ahead = fixed_figures(p, routing)
    if prior == SPT:
        times = p.pair_mean / activity_weights(p, routing)[p.pair_activity]
        return np.asarray(-SHARP * np.log(times / times.min()))
    if prior == ATC:
        return np.zeros(len(p.pair_mean))
    if prior == LOGGED:
        most = np.zeros(len(p.activity_pairs) - 1)
        np.maximum.at(most, p.pair_activity, p.pair_habit)
        return np.asarray(np.log((p.pair_habit + 0.5) / (most[p.pair_activity] + 0.5)))
    if prior == FIFO:
        return np.asarray(-slower)
    return np.asarray(WEIGHTS[0] * slower + WEIGHTS[1] * own + WEIGHTS[2] * ahead[p.pair_activity])


def fixed_figures(p: Parameters, routing: Routing) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the constant figures: two of each pair, float64[P] each, and one of each activity, float64[A].

    They are logarithms: of the service time over the fastest person's, of that ratio over the person's usual one, and
    of the remaining work of a case over the mean of all activities, each over the weight of its cases. If the objective
    weighs costs, the first two contain them as times.
    """
    activities, resources = len(p.activity_pairs) - 1, len(p.on_duty_at_start)
    fastest = np.full(activities, np.inf)
    np.minimum.at(fastest, p.pair_activity, p.pair_price)
    counts = np.bincount(p.pair_activity, minlength=activities)
    # Automatic activities need no person, so they are not work.
    typical, usual = (
        np.divide(counts, speed, out=np.full(activities, 1e-9 * p.service_unit), where=counts > 0)
        for speed in (np.bincount(p.pair_activity, 1.0 / each, activities) for each in (p.pair_mean, p.pair_price))
    )
    slowness = np.log(p.pair_price / usual[p.pair_activity])
    per_resource = np.maximum(np.bincount(p.pair_resource, minlength=resources), 1)
    own_average = np.bincount(p.pair_resource, slowness, resources) / per_resource
    ahead = np.log(routing.expected_work_ahead(typical) / activity_weights(p, routing))
    slower = np.log(p.pair_price / fastest[p.pair_activity])
    return slower, slowness - own_average[p.pair_resource], ahead - ahead.mean()
