"""ReentrantLine: jobs pass the same stations up to three times."""

from collections.abc import Mapping

import numpy as np

from longstride.simulators.options import one_of, whole
from longstride.simulators.queueing import dynamics, rules
from longstride.simulators.queueing.network import LEAVES, Network, set_up
from longstride.simulators.simulator import Function, Simulator

ARRIVAL_RATE = 9.0 / 140.0
RATES = (
    (1 / 8, 1 / 2, 1 / 4),
    (1 / 6, 1 / 7, 1.0),
)  # of the classes of the 1st, 3rd, .. and of the 2nd, 4th, .. station
SPREAD = {"exponential": 0.0, "hyperexponential": 0.8}
BEST = {  # QGym's work-conserving PPO: layout, service -> mean cost of 2, 3, .. stations; 0 for a misprint
    (1, "exponential"): (13.6, 22.6, 29.7, 38.7, 0.0, 56.3, 65.8, 75.8, 83.1),
    (2, "exponential"): (13.72, 22.09, 29.90, 38.01, 46.80, 55.51, 63.15, 70.30, 80.36),
    (1, "hyperexponential"): (29.9, 47.5, 64.4, 81.8, 99.8, 118.2),
    (2, "hyperexponential"): (30.67, 45.66, 61.09, 77.98, 93.84, 110.48),
}


class ReentrantLine(Simulator):
    """Choose at each event which of its three classes each station serves; QGym's re-entrant lines.

    Layout 2 is one route: jobs arrive at rate 9/140, pass all stations, begin again at the first one, and leave after
    the third pass. In layout 1, the extended six-class network, there are two routes with that arrival rate each: two
    passes, and one pass. Either way each station has three classes and is busy 90 % of the time. The mean service
    times of a station's classes are 8, 2, 4 at the 1st, 3rd, .. station and 6, 7, 1 at the 2nd, 4th, .. one; the first
    two are those of the first route. Each job costs 1 a time unit. A step is an event. With hyperexponential service
    the mean of each job is 1.8 or 0.2 times that of its class, at random and unseen.

    Action: for each station 0, 1 or 2, one of its classes. Observation, float32[3 stations]: jobs of each class, the
    stations one after another. Reward: minus the holding cost until the next event. Never terminated. An episode starts
    empty.

    QGym's figures are means of one run of 50,000 or 80,000 events, so they are only known within some 10 %.

    Sources: Bertsimas, Nasrabadi and Paschalidis, "Robust fluid processing networks", IEEE Transactions on Automatic
    Control 60(3), 2015; Dai and Gluzman, Stochastic Systems 12(1), 2022; Chen, Li, Che, Dong, Peng and Namkoong,
    "QGym", 2024.

    Args:
        layout: 1 or 2.
        stations: 2 .. 10.
        service: ``"exponential"`` or ``"hyperexponential"``.
        max_steps: events after which an episode is truncated.

    Raises:
        ValueError: an option is none of these.
    """

    metrics_dtype = np.dtype([("mean_cost", np.float64)])
    main_metric, main_metric_lower_is_better = "mean_cost", True
    metric_units: Mapping[str, str] = {"mean_cost": "per time unit"}

    def __init__(
        self, layout: int = 1, stations: int = 2, service: str = "exponential", max_steps: int = 50_000
    ) -> None:
        which, count = one_of("layout", layout, (1, 2)), whole("stations", stations, 2, 10)
        kind = one_of("service", service, list(SPREAD))
        self.max_steps = max_steps
        set_up(self, reentrant_line(which, count, SPREAD[kind]))
        self.references = references(which, count, kind)

    reset = staticmethod(dynamics.reset)
    observe = staticmethod(dynamics.observe)
    action_mask = staticmethod(dynamics.action_mask)
    step = staticmethod(dynamics.step_of_many)
    time = staticmethod(dynamics.time)
    episode_metrics = staticmethod(dynamics.episode_metrics)

    heuristics: Mapping[str, Function] = {
        "c_mu": rules.c_mu,
        "max_weight": rules.max_weight,
        "max_pressure": rules.max_pressure,
        "last_first": rules.last_first,
    }


def reentrant_line(layout: int, stations: int, spread: float) -> Network:
    """Return the network; class 3 s + j is the j-th of station s, where j is the pass of layout 2."""
    classes = 3 * stations
    service = np.zeros((stations, classes))
    for station in range(stations):
        service[station, 3 * station : 3 * station + 3] = RATES[station % 2]
    next_class = [k + 3 if k + 3 < classes else k + 4 - classes for k in range(classes)]
    next_class[classes - 1] = LEAVES
    arrival = [0.0] * classes
    arrival[0] = ARRIVAL_RATE
    if layout == 1:
        next_class[classes - 2] = LEAVES
        arrival[2] = ARRIVAL_RATE
    return Network(arrival, service.tolist(), next_class, [1.0] * classes, [1] * stations, spread)


def references(layout: int, stations: int, service: str) -> dict[str, float]:
    """Return the published mean cost of the best learned policies."""
    published = BEST[layout, service][stations - 2 : stations - 1]
    return {"PPO-WC (QGym 2024)": published[0]} if published and published[0] > 0 else {}
