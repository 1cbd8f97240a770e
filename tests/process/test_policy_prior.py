"""The rule of thumb that an untrained policy follows."""

import numpy as np
import pytest
from oracles.process_play import BASE, rework, scenario, service

from longstride.process.scenario.routing import build_routing
from longstride.process.simulator import ProcessSimulator


def work_ahead(flow, work):
    return build_routing(flow, list(work)).expected_work_ahead(np.array(list(work.values()), np.float64)).tolist()


def test_work_ahead_of_a_sequence_counts_down():
    flow = {"seq": [{"task": "A"}, {"task": "B"}, {"task": "C"}]}
    assert work_ahead(flow, {"A": 1.0, "B": 2.0, "C": 4.0}) == [7.0, 6.0, 4.0]


def test_work_ahead_weighs_branches_and_takes_the_longest_of_parallel_ones():
    either = {"xor": [{"p": 0.25, "branch": {"task": "B"}}, {"p": 0.75, "branch": {"task": "C"}}]}
    assert work_ahead({"seq": [{"task": "A"}, either]}, {"A": 1.0, "B": 2.0, "C": 4.0})[0] == 1 + 0.25 * 2 + 0.75 * 4
    both = {"seq": [{"task": "A"}, {"and": [{"task": "B"}, {"task": "C"}]}]}
    assert work_ahead(both, {"A": 1.0, "B": 2.0, "C": 4.0}) == [5.0, 2.0, 4.0]


def test_work_ahead_of_rework_solves_its_equations():
    """w_A = 1 + w_B and w_B = 1/2 + 0.2 w_A + 0.3 w_B, so w_B = 0.7 / 0.5."""
    flow = rework().flow
    assert work_ahead(flow, {"A": 1.0, "B": 0.5}) == pytest.approx([2.4, 1.4], rel=1e-4)


def test_the_untrained_policy_prefers_the_quick_the_specialist_and_the_nearly_done():
    pairs = {("A", "r"): 2.0, ("A", "s"): 4.0, ("B", "r"): 2.0, ("B", "s"): 8.0, ("C", "r"): 2.0, ("C", "s"): 2.0}
    logits = ProcessSimulator(
        scenario(
            activities=["A", "B", "C"],
            resources=["r", "s"],
            service=[service(a, r, "exponential", mean=m) for (a, r), m in pairs.items()],
            flow={"seq": [{"task": "A"}, {"task": "B"}, {"task": "C"}]},
        )
    ).initial_logits
    named = dict(zip(pairs, logits, strict=False))
    assert named["A", "r"] > named["A", "s"]
    assert named["B", "r"] > named["B", "s"]
    assert named["C", "s"] > named["C", "r"], "s is slow at everything else"
    assert named["B", "r"] > named["A", "r"], "one step nearer to the end"
    assert logits[-1] < logits[:-1].min(), "postponing is rare"


def test_one_activity_and_one_resource_leave_nothing_to_prefer():
    assert ProcessSimulator(scenario(**BASE)).initial_logits[0] == 0.0
