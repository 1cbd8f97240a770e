"""What a policy sees of a batch that it may begin: how far its tasks are from enough, and from full.

Deb and Serfozo ("Optimal control of batch service queues", Advances in Applied Probability 5, 1973): a server of
batches begins from some number of waiting tasks on. That number is a little more than the tasks that are expected to
arrive while a batch is served: a batch that begins with fewer makes more tasks wait for its end than it serves.
"""

import math

import numpy as np
from numba import njit

from longstride.process.kernel.parameters import Parameters
from longstride.process.kernel.queues import tasks_at_head
from longstride.process.scenario.nodes import TASK
from longstride.process.scenario.routing import Routing

SIZE = 2
"""Number of figures of a batch."""

WEIGHTS = -9.0, 0.0
"""Their weights in the rule of thumb, whose postpone is as likely as a pair that lacks 1; see ``policy_prior.py``."""

_OF_LOAD = 0.75
"""Share by which enough tasks exceed the expected ones at full load, less with the square of the load.

With it the rule of thumb has the optimal limits of one server, by value iteration, for batches of 3, 5, 8 and 20 and
loads of 0.1, 0.2, 0.3, 0.5, 0.7 and 0.9.
"""


def enough_tasks(p: Parameters, routing: Routing, on_duty: float) -> np.ndarray:
    """Return float64[P], the tasks from which on the rule of thumb begins a batch, at most a full one.

    That is little more than arrive while a pair serves a batch, over the people who can do it.
    ``on_duty`` is the mean share of the time that people are on duty.
    """
    if not p.starts_batches:
        return np.zeros(len(p.pair_mean))
    tasks = np.array(routing.kind) == TASK
    visits = np.bincount(np.array(routing.target)[tasks], routing.expected_visits()[tasks], len(p.batch_size))
    rate = visits / (p.reward_scale * p.horizon * max(on_duty, 1e-9))
    expected = (rate / np.maximum(np.diff(p.activity_pairs), 1))[p.pair_activity] * p.pair_mean
    size = p.batch_size[p.pair_activity]
    return np.asarray(np.minimum(expected * (1.0 + _OF_LOAD * (expected / size) ** 2), size))


@njit(nogil=True)
def describe_batch(state, p, pair, figures):  # type: ignore[no-untyped-def]
    """Write float32[2]: how far the head of a pair's queue is from enough tasks, and the share that is missing.

    The first is 0 for a batch that is full, else 1 + 2 log(enough / tasks) within 0 and 3.
    """
    a = p.pair_activity[pair]
    figures[0] = figures[1] = 0.0
    if p.batch_by_policy[a]:
        tasks, size = tasks_at_head(state, p, a), p.batch_size[a]
        if tasks < size:
            figures[0] = min(max(1.0 + 2.0 * math.log(max(p.pair_enough[pair], 1e-9) / tasks), 0.0), 3.0)
            figures[1] = 1.0 - tasks / size
