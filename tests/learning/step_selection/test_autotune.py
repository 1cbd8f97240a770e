"""The choice of an execution in the first update: checked, measured, undone; and the way back to eager steps."""

from inspect import getclosurevars
from typing import ClassVar

import numpy as np
import pytest
import torch
from helpers.random_rollouts import random_model, random_rollout
from helpers.recorded_graphs import RecordedGraphs
from helpers.toy_runs import toy_episodes, toy_model, toy_stepper, toy_update, toy_updater
from torch.multiprocessing.reductions import StorageWeakRef

from longstride.learning.algorithms.ppo import Ppo
from longstride.learning.minibatches import minibatch_shape, split
from longstride.learning.step_selection.autotune import StepRunner
from longstride.learning.step_selection.executor import Executor

pytestmark = pytest.mark.slow

SAMPLES, LARGEST = 250, 64
ALL = ("eager", "graph", "torch_compile", "torch_compile_graph")
SECONDS = {"eager": 4.0, "graph": 2.0, "torch_compile": 3.0, "torch_compile_graph": 1.0}


def same(loss):
    """Compile nothing."""
    return lambda samples, weights, tensors: loss(samples, weights, tensors)


class Setup:
    """A runner on the CPU with made-up graphs, compiler and speeds."""

    def __init__(self, executions=ALL, graphs=None, compiler=same, seconds=None, run_steps=0, **changes):
        self.model, self.graphs = random_model("discrete"), graphs or RecordedGraphs()
        self.stepper = toy_stepper(self.model, **changes)
        self.executor = Executor(self.stepper, "eager", self.graphs, compiler)
        self.seconds, self.now = {**SECONDS, **(seconds or {})}, 0.0
        self.runner = StepRunner(self.executor, executions, LARGEST, self.clock, run_steps)
        self.rollout = random_rollout(self.model, SAMPLES)

    def clock(self):
        self.now += self.seconds[self.executor.execution]
        return self.now

    def epoch(self, seed=0, samples=SAMPLES):
        rollout = self.rollout.map(lambda column: column[:samples])
        return self.runner.epoch(rollout, self.split(seed, samples))

    def split(self, seed, samples=SAMPLES):
        slots = self.runner.slots(minibatch_shape(samples, LARGEST)[1])
        return split(samples, LARGEST, np.random.default_rng(seed), slots)

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
@pytest.mark.parametrize("fastest", ["graph", "torch_compile", "torch_compile_graph"])
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
        "Update execution: graph is not used: its reports and parameters differ from those of eager steps."
    )


class Changed(RecordedGraphs):
    """Replays that change the model by a share of its norm, as kernels chosen otherwise would."""

    def __init__(self, share):
        super().__init__()
        self.share, self.model = share, None

    def capture(self, function):
        replay = super().capture(function)

        def changed():
            replay()
            self.model.flat.mul_(1.0 + self.share)

        return changed


@pytest.mark.parametrize(("share", "used"), [(1e-6, True), (1e-3, False)])
def test_captured_steps_may_round_otherwise_and_say_so(share, used):
    setup = Setup(("eager", "graph"), Changed(share))
    setup.graphs.model = setup.model
    setup.epoch()
    assert setup.executor.execution == ("graph" if used else "eager")
    notes, _, _ = setup.runner.take_log()
    if used:
        assert notes[1].startswith("Update execution: graph: rounds otherwise than eager steps, by ")
    else:
        assert notes[1].startswith("Update execution: graph is not used: its ")
        assert notes[1].endswith("differ from those of eager steps.")


@pytest.mark.parametrize(("noise", "used"), [(1e-4, True), (0.5, False)])
def test_captured_steps_are_not_asked_to_repeat_what_eager_steps_do_not(monkeypatch, noise, used):
    """Gradients with noise, as attention's sums by atomics have: eager steps differ among themselves."""
    setup, random = Setup(("eager", "graph")), np.random.default_rng(1)
    report_of = setup.stepper.report_of

    def noisy(loss, gradients):
        gradient, report = report_of(loss, gradients)
        return gradient * (1.0 + noise * random.uniform(0.5, 1.0) * random.choice([-1.0, 1.0])), report

    monkeypatch.setattr(setup.stepper, "report_of", noisy)
    setup.epoch()
    notes, trials, _ = setup.runner.take_log()
    assert (setup.executor.execution == "graph") is used
    if used:
        assert notes[1] == "Update execution: graph: eager steps do not repeat themselves; within 1% of them."
    else:
        assert "apart, more than 1%" in trials[1].problem


def test_compiled_steps_may_round_elsewhere_but_not_compute_something_else():
    """A thousandth more is rounding; advantages of other samples are not."""
    for other, used in ((lambda a: 1.001 * a, True), (lambda a: a.flip(0), False)):

        def compiler(loss, other=other):
            return lambda samples, w, t: loss(samples._replace(advantages=other(samples.advantages)), w, t)

        setup = Setup(("torch_compile",), compiler=compiler)
        setup.epoch()
        assert (setup.executor.execution == "torch_compile") is used
        assert ("its gradient and that of eager steps are" in str(setup.runner.take_log()[0])) is not used


def failing(loss):
    raise NotImplementedError("no C++ compiler.\nA long story.")


@pytest.mark.parametrize("executions", [("torch_compile",), ("eager", "torch_compile")])
def test_what_fails_is_said_and_eager_steps_go_on(executions):
    setup, alone = Setup(executions, compiler=failing), Setup(("eager",))
    for each in (setup, alone):
        each.epoch()
    assert_same_bits(setup.state(), alone.state())
    assert setup.runner.take_log()[0] == [
        "Update execution: eager; ms a step: eager 1000.00.",
        "Update execution: torch_compile is not used: NotImplementedError: no C++ compiler.",
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
        "Update execution: eager instead of graph: RuntimeError: operation not permitted when stream is capturing."
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
    insisting = Setup(("torch_compile",))
    insisting.runner.resume_with("graph")
    insisting.epoch()
    assert insisting.executor.execution == "torch_compile"


def test_compiled_steps_are_prepared_once_for_each_shape():
    setup = Setup(("torch_compile",))
    setup.epoch()
    calls, gradients = [], setup.stepper.gradients
    setup.stepper.gradients = lambda *args: calls.append(args) or gradients(*args)
    setup.epoch(1)
    assert len(calls) == 4
    setup.stepper.use_precision("bf16")
    setup.epoch(2)
    assert len(calls) == 4 + 1 + 4


class Counting:
    """A compiler that compiles nothing and counts how often it is asked."""

    def __init__(self):
        self.asked = 0

    def __call__(self, loss):
        self.asked += 1
        return same(loss)


@pytest.mark.parametrize(
    ("executions", "run_steps", "tried"),
    [
        (
            ("eager", "torch_compile"),
            100,
            False,
        ),  # 60 % of 100 steps of 1 s are as long as compiling takes
        (("eager", "torch_compile"), 101, True),
        (("eager", "graph", "torch_compile"), 200, False),  # beside captured steps of 0.5 s
        (("eager", "graph", "torch_compile"), 201, True),
        (("eager", "torch_compile"), 0, True),  # nobody knows how long the run is
        (("torch_compile",), 1, True),  # insisted on
        (("eager", "graph", "torch_compile", "torch_compile_graph"), 100, False),
    ],
)
def test_compiling_is_tried_where_the_run_is_long_enough_to_pay_for_it(executions, run_steps, tried):
    compiler, alone = Counting(), Setup(("eager",))
    setup = Setup(
        executions, compiler=compiler, run_steps=run_steps, seconds={"torch_compile": 9.0, "torch_compile_graph": 9.0}
    )
    for each in (setup, alone):
        each.epoch()
    sentences, trials, _ = setup.runner.take_log()
    assert (compiler.asked > 0) is tried
    assert ("torch_compile" in {trial.execution for trial in trials}) is tried
    assert any("is not tried" in sentence for sentence in sentences) is not tried
    if executions != ("torch_compile",):
        assert setup.executor.execution == ("graph" if "graph" in executions else "eager")
    assert_same_bits(setup.state(), alone.state() if setup.executor.execution == "eager" else eager_epochs(1)[0])


def test_what_is_not_tried_is_said_with_the_figures_behind_it():
    setup = Setup(("eager", "graph", "torch_compile_graph"), run_steps=120, compiler=Counting())
    setup.epoch()
    assert setup.runner.take_log()[0] == [
        "Update execution: graph; ms a step: eager 1000.00, graph 500.00.",
        "Update execution: torch_compile_graph is not tried: it would save at most about 36 s of the run's 120 steps, "
        "and compiling takes about 60 s (both assumed).",
    ]


def test_a_resumed_run_tries_what_was_compiled_however_few_steps_it_has():
    setup = Setup(("eager", "torch_compile"), run_steps=1, compiler=Counting())
    setup.runner.resume_with("torch_compile")
    setup.epoch()
    assert setup.executor.execution == "torch_compile"


@pytest.mark.parametrize("execution", ["graph", "torch_compile", "torch_compile_graph"])
def test_slots_are_kept_grow_and_are_given_up_where_a_quarter_would_be_padding(execution):
    """In steps of 2, a thirty-second of the largest minibatch."""
    runner = Setup((execution,)).runner
    sizes = [(51, 52), (52, 52), (40, 52), (39, 52), (38, 38), (39, 40), (30, 40), (64, 64), (48, 64), (47, 48)]
    assert [runner.slots(size) for size, _ in sizes] == [slots for _, slots in sizes]


def test_eager_steps_have_no_further_slots_before_a_choice_and_after_it():
    assert Setup(("eager",)).runner.slots(51) == 51
    setup = Setup(("eager", "graph"), seconds={"eager": 0.1})
    assert setup.runner.slots(51) == 52
    setup.epoch()
    assert setup.runner.slots(51) == 51


def test_rollouts_of_changing_length_are_captured_once():
    setup = Setup(("graph",))
    setup.epoch()
    captured = setup.graphs.captured
    for seed, samples in enumerate([244, 250, 230, 200, 249, 150], 1):  # 4 or 3 minibatches of 50 to 63
        reports = setup.epoch(seed, samples)
        assert len(reports) == minibatch_shape(samples, LARGEST)[0]
    assert setup.graphs.captured == captured
    setup.epoch(7, samples=47)  # less than three quarters of 64
    assert setup.graphs.captured == captured + 1


def test_eager_steps_after_a_choice_are_those_of_eager_alone_without_padding():
    setup, alone = Setup(("eager", "graph"), seconds={"eager": 0.1}), Setup(("eager",))
    for each in (setup, alone):
        each.epoch()
    sizes, step = [], setup.stepper.step
    setup.stepper.step = lambda rollout, indices, weights: sizes.append(len(indices)) or step(rollout, indices, weights)
    for seed, samples in ((1, SAMPLES), (2, 199)):
        reports = [each.epoch(seed, samples) for each in (setup, alone)]
        assert torch.equal(*reports)
    assert sizes == [63] * 4 + [50] * 4
    assert_same_bits(setup.state(), alone.state())


def test_steps_go_on_where_memory_cannot_even_be_freed_after_a_failure():
    """The error that a capture left behind shows in the next call."""
    setup, alone = Setup(("graph",)), Setup(("eager",))

    def fails(*_):
        raise RuntimeError("CUDA error: operation failed due to a previous error during capture")

    setup.graphs.capture = setup.stepper.memory.free_caches = fails
    for each in (setup, alone):
        each.epoch()
    assert setup.executor.execution == "eager"
    assert_same_bits(setup.state(), alone.state())
    assert "previous error during capture" in setup.runner.take_log()[0][1]


def test_memory_of_the_device_is_kept_for_captures_only():
    """What was kept while captured steps might have been chosen goes with the next update."""
    model, updater = toy_model("bandit"), toy_updater(toy_model("bandit"), executions=("eager", "graph"))

    class Refusing(RecordedGraphs):
        def capture(self, function):
            raise RuntimeError("no captures here")

    updater.runner.executor._given_graphs = Refusing()
    episodes = toy_episodes("bandit", model, 1)
    assert toy_update(updater, episodes, 0).execution == "eager"
    kept = [StorageWeakRef(tensor.untyped_storage()) for tensor in updater.buffers._kept.values()]
    assert kept
    toy_update(updater, episodes, 1)
    assert updater.buffers._kept == {}
    assert all(reference.expired() for reference in kept)


class LearningFromSome(Ppo):
    """PPO that learns from the first samples only; how many comes from a list, one number for each update."""

    numbers: ClassVar[list[int]] = []
    learns_from_all: ClassVar[bool] = False

    def targets(self, rollout, values, next_values):
        targets = super().targets(rollout, values, next_values)
        return targets._replace(learned_from=np.arange(len(targets.returns)) < self.numbers.pop(0))


def test_slots_are_kept_where_an_algorithm_learns_from_some_samples():
    """Minibatches of 46, 44 and 42 have room in the first one's slots; the whole rollout would be four of 64."""
    graphs, model = RecordedGraphs(), toy_model("bandit")
    updater = captured_updater(model, graphs)
    updater.algorithm = LearningFromSome(updater.algorithm.gae_lambda, updater.algorithm.coefficients)
    updater.stepper.algorithm = updater.algorithm
    LearningFromSome.numbers = [92, 88, 84]
    captured = []
    for seed in range(3):
        toy_update(updater, toy_episodes("bandit", model, 1, seed), seed)
        captured.append(graphs.captured)
    assert captured[2] == captured[1] == captured[0]


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
