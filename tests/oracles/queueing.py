"""Queueing networks once more: jobs with service times of their own in plain Python, and value iteration."""

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

from longstride.simulators.queueing.network import LEAVES


def simulate(network, choose, events, seed):
    """Return the mean cost a time unit of a network whose stations have one server each.

    Every job brings its service time along, drawn when it arrives, and keeps what is left of it when it is preempted.
    ``choose(station, classes, jobs)`` returns the class that a station serves, of those that have jobs.
    """
    rng, queues = np.random.default_rng(seed), [[] for _ in network.next_class]
    stations = [[k for k, rate in enumerate(row) if rate > 0] for row in network.service_rate]
    arrival = [rng.exponential(1 / rate) if rate > 0 else np.inf for rate in network.arrival_rate]
    clock = cost = 0.0

    def work():
        mean = 1 + network.spread * rng.choice([-1, 1]) if network.spread else 1.0
        return rng.exponential(mean)

    for _ in range(events):
        serving = []  # time until it is done, station, class
        for station, classes in enumerate(stations):
            busy = [k for k in classes if queues[k]]
            if busy:
                k = choose(station, busy, [len(queue) for queue in queues])
                serving.append((queues[k][0] / network.service_rate[station][k], station, k))
        k_in = min(range(len(arrival)), key=arrival.__getitem__)
        done = min(serving, default=(np.inf, -1, -1))
        duration = min(arrival[k_in], done[0])
        clock += duration
        cost += duration * sum(h * len(queue) for h, queue in zip(network.holding_cost, queues, strict=True))
        arrival = [left - duration for left in arrival]
        for _, station, k in serving:
            queues[k][0] -= duration * network.service_rate[station][k]
        if done[0] < arrival[k_in] + duration:
            queues[done[2]].pop(0)
            if network.next_class[done[2]] != LEAVES:
                queues[network.next_class[done[2]]].append(work())
        else:
            queues[k_in].append(work())
            arrival[k_in] = rng.exponential(1 / network.arrival_rate[k_in])
    return cost / clock


def least_jobs_of_criss_cross(second_rate, arrival_rate, most, tolerance=1e-4):
    """Return the least mean number of jobs in the criss-cross network with at most ``most`` jobs of each class.

    Value iteration of the uniformised chain; arrivals and jobs that find no room are lost.
    """
    first, clock = 2.0, 2 * arrival_rate + 2.0 + second_rate
    n1, n2, n3 = np.indices((most + 1,) * 3)
    cost, value = (n1 + n2 + n3) / clock, np.zeros(n1.shape)

    def more(array, axis):
        """Return the values after one job more, where there is room."""
        return np.concatenate([np.take(array, range(1, most + 1), axis), np.take(array, [most], axis)], axis)

    def less(array, axis):
        return np.concatenate([np.take(array, [0], axis), np.take(array, range(most), axis)], axis)

    low, high = 0.0, np.inf
    while high - low > tolerance / clock:
        on = np.where(n1 > 0, more(less(value, 0), 2), value)
        off = np.where(n2 > 0, less(value, 1), value)
        new = cost + arrival_rate * (more(value, 0) + more(value, 1)) + first * np.minimum(on, off)
        new = (new - cost) / clock + cost + second_rate / clock * less(value, 2)
        low, high, value = (new - value).min(), (new - value).max(), new - new[0, 0, 0]
    return (low + high) / 2 * clock


def least_cost_of_n_model(network, most):
    """Return the least cost a time unit of the N-model with at most ``most`` jobs of each class, and the policy.

    Policy iteration with sparse equations; arrivals that find no room are lost. The policy is bool[most + 1, most + 1]:
    whether station 1 serves class 2.
    """
    size = most + 1
    n1, n2 = (axis.ravel() for axis in np.indices((size, size)))
    here, cost = np.arange(size * size), network.holding_cost[0] * n1 + network.holding_cost[1] * n2
    (own, help_rate), (_, main) = network.service_rate
    less_1, less_2 = here - size * (n1 > 0), here - (n2 > 0)
    more = [(here + size * (n1 < most), network.arrival_rate[0]), (here + (n2 < most), network.arrival_rate[1])]
    # Station 1 helps only with a second job of class 2; with a single one it has its own class to serve.
    moves = [
        [*more, (less_1, own * (n1 > 0)), (less_2, main * (n2 > 0))],
        [*more, (less_1, own * ((n1 > 0) & (n2 < 2))), (less_2, main * (n2 > 0) + help_rate * (n2 > 1))],
    ]
    helps = n1 == 0
    while True:
        rows, columns, rates = (
            [here],
            [np.zeros_like(here)],
            [-np.ones(len(here))],
        )  # the first unknown is the mean cost
        for after, rate in (
            (np.where(helps, b, a), np.where(helps, s, r)) for (a, r), (b, s) in zip(*moves, strict=True)
        ):
            rows += [here, here]
            columns += [after + 1, here + 1]
            rates += [rate, -rate]
        matrix = sparse.csc_matrix(
            (np.concatenate(rates), (np.concatenate(rows), np.concatenate(columns))), (len(here), len(here) + 1)
        )
        kept = np.r_[0, 2 : len(here) + 1]  # the value of the empty state is 0
        solution = spsolve(matrix[:, kept], -cost)
        value = np.r_[0.0, solution[1:]]
        slope = [sum(rate * (value[after] - value) for after, rate in move) for move in moves]
        better = np.where(np.abs(slope[1] - slope[0]) > 1e-7, slope[1] < slope[0], helps)
        if (better == helps).all():
            return solution[0], helps.reshape(size, size)
        helps = better
