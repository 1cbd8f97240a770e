# ruff: noqa: E501
"""Trials of executions: the fastest that passes, what is said about them, what counts as the same."""

import numpy as np
import pytest
import torch
from helpers.random_rollouts import random_model, random_rollout
from helpers.toy_runs import toy_stepper

from longstride.learning.minibatches import Minibatches
from longstride.learning.step_selection.autotune import ExecutionTrial, Snapshot, fastest, trial_lines
from longstride.learning.step_selection.comparison import StepResult, difference, other_bits

EAGER = ExecutionTrial("eager", 3e-3, 0.1, "")


@pytest.mark.parametrize(
    ("others", "chosen"),
    [
        ([], "eager"),
        ([ExecutionTrial("graph", 1e-3, 0.2, "")], "graph"),
        ([ExecutionTrial("graph", 4e-3, 0.2, "")], "eager"),
        ([ExecutionTrial("graph", 3e-3, 0.2, "")], "eager"),  # of equals the first, which is the simplest
        ([ExecutionTrial("graph", None, 0.2, "it failed"), ExecutionTrial("torch_compile", 2e-3, 30.0, "")], "torch_compile"),
        ([ExecutionTrial("graph", 1e-3, 0.2, "its weights differ"), ExecutionTrial("torch_compile", 2e-3, 30.0, "")], "torch_compile"),
        ([ExecutionTrial("graph", 2e-3, 0.2, ""), ExecutionTrial("torch_compile", 2.5e-3, 1.0, ""), ExecutionTrial("torch_compile_graph", 1e-3, 1.0, "")],
         "torch_compile_graph"),
    ],
)  # fmt: skip
def test_the_fastest_without_a_problem_is_chosen(others, chosen):
    assert fastest([EAGER, *others]).execution == chosen


def test_what_is_said():
    trials = [
        EAGER,
        ExecutionTrial("graph", 4.04e-4, 0.2, ""),
        ExecutionTrial("torch_compile", None, 9.0, "RuntimeError: no compiler"),
    ]
    assert trial_lines(trials, "graph") == [
        "Update execution: graph; ms a step: eager 3.00, graph 0.40.",
        "Update execution: torch_compile is not used: RuntimeError: no compiler.",
    ]
    assert trial_lines([], "eager") == []


def outcome():
    return StepResult(torch.tensor([3.0, 4.0]), torch.tensor([[1.0, torch.nan]]), torch.tensor([1.0, -2.0]))


def test_to_the_bit_means_to_the_bit():
    assert other_bits(outcome(), outcome()) == ""
    one_bit = torch.nextafter(torch.tensor([1.0, -2.0]), torch.zeros(2))
    said = other_bits(outcome()._replace(parameters=one_bit), outcome())
    assert said == "its parameters differ from those of eager steps"


def test_a_tolerance_is_a_share_of_the_norm():
    """The gradient (3, 4) has the norm 5: an error of 0.04 is 0.8 %."""
    expected = outcome()._replace(reports=torch.tensor([[1.0, 0.0]]))
    near = expected._replace(gradient=torch.tensor([3.04, 4.0]))
    assert difference(near, expected, 0.0081) == ""
    assert difference(near, expected, 0.0079) == ("its gradient and that of eager steps are 0.8% apart, more than 1%")
    far = expected._replace(reports=torch.tensor([[1.5, 0.0]]))
    assert difference(far, expected, 0.05) == "its report and that of eager steps are 50.0% apart, more than 5%"


def test_what_is_not_a_number_is_no_agreement():
    expected = outcome()._replace(reports=torch.tensor([[1.0, 0.0]]))
    assert difference(expected._replace(gradient=torch.full((2,), torch.nan)), expected, 0.05)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("steps_before", [0, 2])
def test_a_snapshot_brings_everything_back_where_it_lies(precision, steps_before):
    model = random_model("discrete")
    stepper, rollout = toy_stepper(model, precision=precision), random_rollout(model, 64)
    step = rollout, torch.arange(64), torch.full((64,), 1 / 64)
    if precision == "fp16":
        stepper.scaler.load_state_dict({**stepper.scaler.state_dict(), "scale": 1024.0})
    for _ in range(steps_before):
        stepper.step(*step)
    flat, scale = model.flat.clone(), stepper.scaler.state_dict()
    before = {name: tensor.clone() for name, tensor in stepper.optimizer_tensors().items()}
    start = Snapshot(stepper, rollout, Minibatches(np.arange(64)[None], np.full((1, 64), 1 / 64, np.float32)))
    places = [tensor.data_ptr() for tensor in stepper.optimizer_tensors().values()]
    for tries in (True, False):
        for _ in range(3):
            stepper.step(*step)
        assert not torch.equal(model.flat, flat)
        start.put_back(tries)
        assert torch.equal(model.flat, flat)
        for name, tensor in stepper.optimizer_tensors().items():
            assert torch.equal(tensor, before[name] if before else torch.zeros_like(tensor))
    assert [tensor.data_ptr() for tensor in stepper.optimizer_tensors().values()] == places
    assert stepper.scaler.state_dict() == scale
