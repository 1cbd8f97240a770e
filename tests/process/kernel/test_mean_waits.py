"""Mean waits of long episodes against a closed formula: orders of service by priority and by a value of the case."""

import numpy as np
import pytest
from process.kernel.uncompiled_case_values import counter as counter_of_values
from process.kernel.uncompiled_case_values import played
from process.kernel.uncompiled_priorities import counter as counter_of_priorities

from longstride.process.kernel.parameters import build_parameters
from longstride.process.mining.delays.play_logged import as_logged_record, play_logged


def test_mean_waits_of_two_classes_are_those_of_cobham():
    """Cobham (1954): with residual work R, classes wait R / (1 - r1) and R / ((1 - r1) (1 - r1 - r2))."""
    rate, horizon = 0.75, 6000.0
    made = counter_of_priorities(
        [0.0], [0, 1], horizon={"value": horizon}, arrivals={"process": "poisson", "rate": rate}
    )
    parameters, sizes = build_parameters(made)
    waits = {0: [], 1: []}
    for seed in range(3):
        played = play_logged(as_logged_record(parameters), parameters, sizes, seed)
        for priority in waits:
            mine = parameters.node_priority[played.node] == priority
            waits[priority].append((played.start - played.queued)[mine].mean())
    residual, urgent = rate / 2.0, rate / 2.0
    assert np.mean(waits[1]) == pytest.approx(residual / (1.0 - urgent), rel=0.06)
    assert np.mean(waits[0]) == pytest.approx(residual / ((1.0 - urgent) * (1.0 - rate)), rel=0.12)


def test_mean_waits_are_those_of_cobham_where_large_cases_come_first_and_take_longer():
    """Cobham (1954): with residual work R, classes wait R / (1 - r1) and R / ((1 - r1) (1 - r1 - r2))."""
    rate, horizon = 0.7, 6000.0
    changes = {"horizon": {"value": horizon}, "arrivals": {"process": "poisson", "rate": rate}}
    waits = {5.0: [], 1.0: []}
    for seed in range(3):
        events, values = played(counter_of_values([0.0], [1.0, 5.0], work=[0.5, 1.5], **changes), seed)
        for value in waits:
            waits[value].append((events.start - events.queued)[values == value].mean())
    residual, large = rate * (0.5 * 1.5**2 + 0.5 * 0.5**2) / 2.0, rate / 2.0 * 1.5
    assert np.mean(waits[5.0]) == pytest.approx(residual / (1.0 - large), rel=0.06)
    assert np.mean(waits[1.0]) == pytest.approx(residual / ((1.0 - large) * (1.0 - rate)), rel=0.12)
