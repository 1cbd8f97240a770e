"""Compiled and captured steps on a real GPU; needs torch with CUDA, and none of the packages of the command line."""

import time

import numpy as np
import pytest
import torch
from helpers.real_steps import rollout_of
from helpers.specs import mlp_spec
from helpers.toy_runs import columns_of, toy_coefficients, toy_episodes, toy_model, toy_stepper, toy_update, toy_updater

from longstride.learning.minibatches import split
from longstride.learning.step_selection.autotune import TOLERANCES, StepRunner
from longstride.learning.step_selection.executor import Executor
from longstride.learning.torch_settings import apply_global_settings
from longstride.policies.networks import ActorCritic, initialise
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no NVIDIA GPU here"),
]

DESK = mlp_spec((151, 128, 128, 128, 62), (151, 256, 256, 256, 1), space=Discrete(62), action_features=5)
SHAPES = {
    "loan desk": DESK,
    "choices": mlp_spec((32, 64, 50), (32, 96, 1), space=MultiDiscrete([30, 20])),
    "squashed": mlp_spec((32, 64, 64, 6), (32, 96, 96, 1), space=Box([-1.0] * 6, [1.0] * 6, squashed=True)),
}
ALL = ("eager", "graph", "torch_compile", "torch_compile_graph")
SAMPLES, SIZE = 16_384, 1024


@pytest.fixture(autouse=True)
def no_kernels_of_other_tests():
    """All steppers share the code of their loss, and torch compiles the same code for eight shapes at most."""
    torch._dynamo.reset()


@pytest.fixture(autouse=True)
def full_float32():
    """Compare in float32 without TF32, whose ten bits of mantissa would hide errors."""
    apply_global_settings(tf32=False, cudnn_benchmark=False)


def executor_of(shape=DESK, precision="fp32", microbatch=SIZE):
    """Return an executor on the GPU, always of the same weights, and a rollout."""
    if precision == "bf16" and torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("BF16 needs compute capability 8.0")
    host = ActorCritic(shape)
    initialise(host, "orthogonal", torch.Generator().manual_seed(0))
    model = ActorCritic(shape, "cuda")
    with torch.no_grad():
        model.flat.copy_(host.flat)
    stepper = toy_stepper(model, precision=precision, microbatch=microbatch)
    if precision == "fp16":
        stepper.scaler.load_state_dict({**stepper.scaler.state_dict(), "scale": 256.0})
    torch.manual_seed(1)
    return Executor(stepper, "eager"), rollout_of(shape, SAMPLES, "cuda")


def epochs_of(execution, count=2, **changes):
    """Return the reports, weights, moments and scale after some epochs between which everything changes that may."""
    executor, rollout = executor_of(**changes)
    executor.use(execution)
    reports = []
    for seed in range(count):
        changes = {"clip_range": 0.2 / (1 + seed), "entropy_coefficient": 0.01 * (1 + seed)}
        executor.stepper.set_coefficients(toy_coefficients(1 / (1 + seed), **changes))
        batches = split(SAMPLES, SIZE, np.random.default_rng(seed))
        executor.prepare(rollout, batches)
        reports.append(executor.run(rollout, batches))
    stepper = executor.stepper
    return (
        columns_of(stepper, torch.cat(reports)),
        stepper.model.flat,
        stepper.optimizer_tensors(),
        stepper.scaler.state_dict(),
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("microbatch", [SIZE, 300])
@pytest.mark.parametrize("name", SHAPES)
def test_replays_are_eager_steps_to_the_bit(name, microbatch, precision):
    changes = {"shape": SHAPES[name], "precision": precision, "microbatch": microbatch}
    expected, found = epochs_of("eager", **changes), epochs_of("graph", **changes)
    assert all(torch.equal(column, expected[0][key]) for key, column in found[0].items())
    assert torch.equal(found[1], expected[1])
    assert all(torch.equal(tensor, expected[2][key]) for key, tensor in found[2].items())
    assert found[3] == expected[3]
    assert float(found[0]["skipped"].sum()) == 0.0


@pytest.mark.parametrize("execution", ["torch_compile", "torch_compile_graph"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("name", SHAPES)
def test_compiled_gradients_are_within_the_tolerance(name, precision, execution):
    results = []
    for each in ("eager", execution):
        executor, rollout = executor_of(SHAPES[name], precision)
        executor.use(each)
        batches = split(SAMPLES, SIZE, np.random.default_rng(0))
        executor.prepare(rollout, batches)
        executor.run(rollout, batches.first(1))
        results.append(executor.stepper.optimizer.gradient)
    expected, found = results
    assert float((found - expected).norm() / expected.norm()) <= TOLERANCES[precision]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_choice_is_made_checked_and_said(precision, capsys):
    executor, rollout = executor_of(precision=precision)
    runner = StepRunner(executor, ALL, SIZE)
    runner.epoch(rollout, split(SAMPLES, SIZE, np.random.default_rng(0)))
    notes, trials, _ = runner.take_log()
    with capsys.disabled():
        print("", *notes, *trials, sep="\n")
    assert [trial.execution for trial in trials] == list(ALL)
    assert [trial.problem for trial in trials] == [""] * 4
    assert executor.execution == min(trials, key=lambda t: t.seconds).execution
    assert notes[0].startswith(f"Update execution: {executor.execution}; ms a step: eager ")


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_trying_leaves_no_trace(precision):
    (tried, rollout), (alone, _) = executor_of(precision=precision), executor_of(precision=precision)
    runner = StepRunner(tried, ("graph",), SIZE)
    torch.manual_seed(5)
    randomness = torch.cuda.get_rng_state()
    batches = split(SAMPLES, SIZE, np.random.default_rng(0))
    reports = runner.epoch(rollout, batches)
    assert torch.equal(torch.cuda.get_rng_state(), randomness)
    assert tried.execution == "graph", runner.take_log().sentences
    assert torch.equal(alone.run(rollout, batches), reports)
    assert torch.equal(alone.stepper.model.flat, tried.stepper.model.flat)
    assert alone.stepper.scaler.state_dict() == tried.stepper.scaler.state_dict()


@pytest.mark.parametrize("kind", ["bandit", "choices", "tracker"])
def test_whole_updates_are_those_of_eager_steps(kind):
    """But for rounding: a captured minibatch may have some slots more, of weight 0."""
    flats = []
    for execution in ("eager", "graph"):
        model = toy_model(kind)
        updater = toy_updater(model, "cuda", executions=(execution,))
        for seed in range(3):
            episodes = toy_episodes(kind, toy_model(kind), 4, 4 * seed)
            report = toy_update(updater, episodes, seed)
            assert (report.execution, report.model_transfers) == (execution, 2)
            assert not [t for t in report.execution_trials if t["problem"]]
        flats.append(model.flat.clone())
    torch.testing.assert_close(*flats, rtol=1e-4, atol=1e-6)


def test_the_host_never_waits_in_an_epoch():
    executor, rollout = executor_of()
    executor.use("graph")
    batches = split(SAMPLES, SIZE, np.random.default_rng(0))
    executor.prepare(rollout, batches)
    executor.run(rollout, batches)
    replay = executor._captured._replay
    torch.cuda.set_sync_debug_mode("error")
    try:
        replay()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_step_that_is_not_finite_is_skipped_in_a_replay():
    executor, rollout = executor_of()
    executor.use("graph")
    batches = split(SAMPLES, SIZE, np.random.default_rng(0))
    executor.prepare(rollout, batches)
    rollout.advantages[7] = torch.inf
    reports = executor.run(rollout, batches)
    assert float(columns_of(executor.stepper, reports)["skipped"].sum()) == 1.0
    assert bool(torch.isfinite(executor.stepper.model.flat).all())


def test_memory_that_runs_out_drops_the_graph_and_its_pool():
    """65,536 samples at once take about half a gigabyte; then there is room for three fifths of it."""
    samples = 65_536
    executor, _ = executor_of(microbatch=samples)
    rollout, batches = rollout_of(DESK, samples, "cuda"), split(samples, samples, np.random.default_rng(0))
    executor.use("graph")
    executor.prepare(rollout, batches)
    executor.run(rollout, batches)
    torch.cuda.synchronize()
    with_graph = torch.cuda.memory_reserved()
    executor.stepper.memory.free_caches()
    needed = with_graph - torch.cuda.memory_reserved()
    assert needed > 2**28, "the memory of the graph is given back"
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 0.6 * needed) / total)
    try:
        executor.prepare(rollout, batches)
        reports = executor.run(rollout, batches)
        torch.cuda.synchronize()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    events = executor.stepper.memory.take_events()
    assert events
    assert executor.stepper.memory.microbatch == events[-1].microbatch_after < samples
    assert bool(torch.isfinite(reports).all())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_times_of_a_default_update(precision, capsys):
    """62,000 samples of the loan desk's network in minibatches of 1,024; figures to read, no limits to keep."""
    samples = 62_000
    seconds = {}
    for execution in ALL:
        executor, _ = executor_of(precision=precision)
        rollout = rollout_of(DESK, samples, "cuda")
        executor.use(execution)
        batches = split(samples, SIZE, np.random.default_rng(0))
        executor.prepare(rollout, batches)
        executor.run(rollout, batches)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        executor.run(rollout, batches)
        torch.cuda.synchronize()
        seconds[execution] = time.perf_counter() - begin
    with capsys.disabled():
        print(f"\n{precision}, ms an epoch:", {name: round(1e3 * s, 2) for name, s in seconds.items()})
    assert set(seconds) == set(ALL)
