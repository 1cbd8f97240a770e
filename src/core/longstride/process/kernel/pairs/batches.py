"""What a policy sees of a batch that it may begin: how far its tasks are from enough, and from full.

Deb and Serfozo ("Optimal control of batch service queues", Advances in Applied Probability 5, 1973): a server of
batches begins from some number of waiting tasks on. That number is near the tasks that are expected to arrive while a
batch is served: a batch that begins with fewer makes more tasks wait for its end than it serves.
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


def enough_tasks(p: Parameters, routing: Routing, on_duty: float) -> np.ndarray:
    """Return float64[P], the tasks that arrive while a pair serves a batch, over the people who can do it.

    They are at most a full batch. ``on_duty`` is the mean share of the time that people are on duty.
    """
    if not p.starts_batches:
        return np.zeros(len(p.pair_mean))
    tasks = np.array(routing.kind) == TASK
    visits = np.bincount(np.array(routing.target)[tasks], routing.expected_visits()[tasks], len(p.batch_size))
    rate = visits / (p.reward_scale * p.horizon * max(on_duty, 1e-9))
    of_person = (rate / np.maximum(np.diff(p.activity_pairs), 1))[p.pair_activity]
    return np.asarray(np.minimum(of_person * p.pair_mean, p.batch_size[p.pair_activity]))


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
