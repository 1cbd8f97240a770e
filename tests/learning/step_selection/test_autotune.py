"""The choice of an execution in the first update: checked, measured, undone; and the way back to eager steps."""

from inspect import getclosurevars

import numpy as np
import pytest
import torch
from helpers.random_rollouts import random_model, random_rollout
from helpers.recorded_graphs import RecordedGraphs
from helpers.toy_runs import toy_episodes, toy_model, toy_stepper, toy_update, toy_updater

from core.learning.minibatches import minibatch_shape, split
from core.learning.step_selection.autotune import StepRunner
from core.learning.step_selection.executor import Executor

SAMPLES, LARGEST = 250, 64
ALL = ("eager", "graph", "compile", "compile_graph")
SECONDS = {"eager": 4.0, "graph": 2.0, "compile": 3.0, "compile_graph": 1.0}


def same(loss):
    """Compile nothing."""
    return lambda samples, weights, tensors: loss(samples, weights, tensors)


class Setup:
    """A runner on the CPU with made-up graphs, compiler and speeds."""

    def __init__(self, executions=ALL, graphs=None, compiler=same, seconds=None, **changes):
        self.model, self.graphs = random_model("discrete"), graphs or RecordedGraphs()
        self.stepper = toy_stepper(self.model, **changes)
        self.executor = Executor(self.stepper, "eager", self.graphs, compiler)
        self.seconds, self.now = {**SECONDS, **(seconds or {})}, 0.0
        self.runner = StepRunner(self.executor, executions, LARGEST, self.clock)
        self.rollout = random_rollout(self.model, SAMPLES)

    def clock(self):
        self.now += self.seconds[self.executor.execution]
        return self.now

    def epoch(self, seed=0):
        return self.runner.epoch(self.rollout, self.split(seed))

    def split(self, seed):
        slots = self.runner.slots(minibatch_shape(SAMPLES, LARGEST)[1])
        return split(SAMPLES, LARGEST, np.random.default_rng(seed), slots)

    def state(self):
        return {"flat": self.model.flat.clone(), **{n: t.clone() for n, t in self.stepper.optimizer_tensors().items()}}


def assert_same_bits(a, b):
    assert a.keys() == b.keys()
    for name, tensor in a.items():
        assert torch.equal(tensor, b[name]), name


def eager_epochs(count, **changes):
    """Return what eager steps do, and report, with the slots that other executions have: 64 in place of 63."""
    setup = Setup(("graph",), **changes)
    setup.runner._untried = []
    setup.executor.use("eager")
    reports = []
    for seed in range(count):
        padded = split(SAMPLES, LARGEST, np.random.default_rng(seed), 64)
        reports.append(setup.executor.run(setup.rollout, padded))
    return setup.state(), reports, setup.stepper.scaler.state_dict()


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("fastest", ["graph", "compile", "compile_graph"])
def test_the_fastest_runs_and_trying_leaves_no_trace(fastest, precision):
    setup = Setup(seconds={fastest: 0.5}, precision=precision)
    torch.manual_seed(3)
    randomness = torch.get_rng_state()
    reports = [setup.epoch(seed) for seed in range(2)]
    expected, expected_reports, scale = eager_epochs(2, precision=precision)
    assert setup.executor.execution == setup.runner.chosen == fastest
    assert_same_bits(setup.state(), expected)
    assert all(torch.equal(a, b) for a, b in zip(reports, expected_reports, strict=True))
    assert setup.stepper.scaler.state_dict() == scale
    assert torch.equal(torch.get_rng_state(), randomness)
    notes, trials, seconds = setup.runner.take_log()
    assert seconds > 0.0
    assert notes[0].startswith(f"Update execution: {fastest}; ms a step: eager ")
    assert [t.execution for t in trials] == list(ALL)
    assert [t.problem for t in trials] == [""] * 4
    assert setup.runner.take_log() == ([], [], 0.0)


def test_eager_steps_that_are_the_fastest_are_kept_as_they_are():
    setup, alone = Setup(seconds={"eager": 0.1}), Setup(("eager",))
    for each in (setup, alone):
        each.epoch()
    assert setup.executor.execution == "eager"
    assert_same_bits(setup.state(), alone.state())
    assert alone.runner.take_log() == ([], [], 0.0)


def test_seconds_of_a_step_are_those_of_a_run_over_its_minibatches():
    setup = Setup(("eager", "graph"))
    setup.epoch()
    _, (eager, graph), _ = setup.runner.take_log()
    assert (eager.seconds, graph.seconds) == (4.0 / 4, 2.0 / 4)  # four minibatches


class OnlyTheFirst(RecordedGraphs):
    """Replays that always take the first minibatch: what a stale address would do."""

    def capture(self, function):
        replay = super().capture(function)
        slots = getclosurevars(function).nonlocals["buffers"]

        def wrong():
            slots.position.zero_()
            replay()

        return wrong


def test_a_graph_that_keeps_the_first_minibatch_is_found_and_not_used():
    setup, alone = Setup(("eager", "graph"), OnlyTheFirst()), Setup(("eager",))
    for each in (setup, alone):
        each.epoch()
    assert setup.executor.execution == "eager"
    assert_same_bits(setup.state(), alone.state())
    notes, trials, seconds = setup.runner.take_log()
    assert seconds > 0.0
    assert trials[1].seconds is None
    assert notes[1] == (
        "Update execution: graph is not used: its reports and parameters are not those of eager steps to the bit."
    )


def test_compiled_steps_may_round_elsewhere_but_not_compute_something_else():
    """A thousandth more is rounding; advantages of other samples are not."""
    for other, used in ((lambda a: 1.001 * a, True), (lambda a: a.flip(0), False)):

        def compiler(loss, other=other):
            return lambda samples, w, t: loss(samples._replace(advantages=other(samples.advantages)), w, t)

        setup = Setup(("compile",), compiler=compiler)
        setup.epoch()
        assert (setup.executor.execution == "compile") is used
        assert ("its gradient and that of eager steps are" in str(setup.runner.take_log()[0])) is not used


def failing(loss):
    raise NotImplementedError("no C++ compiler.\nA long story.")


@pytest.mark.parametrize("executions", [("compile",), ("eager", "compile")])
def test_what_fails_is_said_and_eager_steps_go_on(executions):
    setup, alone = Setup(executions, compiler=failing), Setup(("eager",))
    for each in (setup, alone):
        each.epoch()
    assert_same_bits(setup.state(), alone.state())
    assert setup.runner.take_log()[0] == [
        "Update execution: eager; ms a step: eager 1000.00.",
        "Update execution: compile is not used: NotImplementedError: no C++ compiler.",
    ]


class OutOfMemory(RecordedGraphs):
    """Has no room for the first captures."""

    def __init__(self, failures):
        super().__init__()
        self.failures = failures

    def capture(self, function):
        if self.failures:
            self.failures -= 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB.")
        return super().capture(function)


def test_of_several_one_that_needs_more_memory_is_not_worth_smaller_microbatches():
    setup = Setup(("eager", "graph"), OutOfMemory(1), microbatch=64)
    setup.epoch()
    assert (setup.executor.execution, setup.stepper.memory.microbatch) == ("eager", 64)
    assert setup.stepper.memory.take_events() == []
    assert setup.runner.take_log()[0][1] == "Update execution: graph is not used: memory ran out."


def test_what_is_insisted_on_is_tried_with_smaller_microbatches():
    setup = Setup(("graph",), OutOfMemory(1), microbatch=64)
    setup.epoch()
    assert (setup.executor.execution, setup.stepper.memory.microbatch) == ("graph", 32)
    assert len(setup.stepper.memory.take_events()) == 1
    assert_same_bits(setup.state(), eager_epochs(1, microbatch=32)[0])


def test_a_later_capture_that_fails_ends_in_eager_steps_with_a_reason():
    setup = Setup(("graph",))
    setup.epoch()
    setup.runner.take_log()

    def broken(function):
        raise RuntimeError("operation not permitted when stream is capturing")

    setup.graphs.capture = broken
    setup.stepper.use_precision("bf16")
    before = setup.state()
    setup.epoch(1)
    assert setup.executor.execution == "eager"
    assert not torch.equal(setup.model.flat, before["flat"])
    assert setup.runner.take_log()[0] == [
        "Update execution: eager in place of graph: RuntimeError: operation not permitted when stream is capturing."
    ]


def test_a_later_capture_without_room_halves_the_microbatch():
    setup = Setup(("graph",), OutOfMemory(0), microbatch=64)
    setup.epoch()
    setup.stepper.use_precision("bf16")
    setup.graphs.failures = 1
    setup.epoch(1)
    assert (setup.executor.execution, setup.stepper.memory.microbatch) == ("graph", 32)


def test_a_resumed_run_goes_on_with_what_was_chosen():
    setup = Setup(seconds={"eager": 0.1})
    assert setup.runner.chosen is None
    setup.runner.resume_with("graph")
    setup.epoch()
    assert setup.executor.execution == "graph"
    assert [t.execution for t in setup.runner.take_log()[1]] == ["eager", "graph"]
    insisting = Setup(("compile",))
    insisting.runner.resume_with("graph")
    insisting.epoch()
    assert insisting.executor.execution == "compile"


def test_compiled_steps_are_prepared_once_for_each_shape():
    setup = Setup(("compile",))
    setup.epoch()
    calls, gradients = [], setup.stepper.gradients
    setup.stepper.gradients = lambda *args: calls.append(args) or gradients(*args)
    setup.epoch(1)
    assert len(calls) == 4
    setup.stepper.use_precision("bf16")
    setup.epoch(2)
    assert len(calls) == 4 + 1 + 4


def captured_updater(model, graphs, **changes):
    """Return an updater whose steps are captured by made-up graphs."""
    updater = toy_updater(model, executions=("graph",), **changes)
    updater.runner.executor._given_graphs = graphs
    return updater


@pytest.mark.parametrize("kind", ["bandit", "choices", "tracker"])
def test_updates_whose_steps_are_captured_are_those_of_eager_steps(kind):
    """Three rounds of different episodes: the rollout stays where it is, and is captured once beside the trials."""
    graphs, model, other = RecordedGraphs(), toy_model(kind), toy_model(kind)
    updaters = captured_updater(model, graphs), toy_updater(other)
    for seed in range(3):
        reports = []
        for updater in updaters:
            episodes = toy_episodes(kind, other, 3, 3 * seed)
            reports.append(toy_update(updater, episodes, seed))
        assert [r.execution for r in reports] == ["graph", "eager"]
        assert reports[0].optimizer_steps == reports[1].optimizer_steps
        for name in ("policy_loss", "value_loss", "entropy", "approx_kl"):
            assert reports[0].losses[name] == pytest.approx(reports[1].losses[name], rel=1e-4, abs=1e-5)
        torch.testing.assert_close(model.flat, other.flat, rtol=1e-3, atol=1e-4)
        other.flat.data.copy_(model.flat)
        updaters[1].stepper.load_optimizer_tensors(updaters[0].stepper.optimizer_tensors())
    assert graphs.captured == 2


def test_an_update_that_diverges_goes_back_and_is_captured_anew():
    graphs, model = RecordedGraphs(), toy_model("bandit")
    updater = captured_updater(model, graphs, precision="bf16")
    episodes = toy_episodes("bandit", model, 1)
    toy_update(updater, episodes, 0)
    good = model.flat.clone()
    toy_update(updater, episodes, 1)
    captured = graphs.captured
    with torch.no_grad():
        updater.model.layers("critic")[-1][0].fill_(1e30)
    report = toy_update(updater, episodes, 2)
    assert report.skipped_steps == report.optimizer_steps
    assert (report.fallbacks[0]["precision"], report.execution) == ("fp32", "graph")
    assert torch.equal(model.flat, good)
    report = toy_update(updater, episodes, 3)
    assert (report.skipped_steps, report.execution, graphs.captured) == (0, "graph", captured + 1)
    assert not torch.equal(model.flat, good)
