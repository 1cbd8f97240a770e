"""Compiled and captured steps on a real GPU, without the packages of the command line; and the same tests on the CPU.

On the CPU captures are recorded operations, and nothing is compiled: test_compile.py traces the loss there.
"""

import time

import numpy as np
import pytest
import torch
from helpers.devices import DEVICES, executor_on, no_waiting, require, reserved, room_for, wait
from helpers.real_steps import rollout_of
from helpers.specs import mlp_spec
from helpers.toy_runs import columns_of, toy_coefficients, toy_episodes, toy_model, toy_stepper, toy_update, toy_updater

from longstride.learning.minibatches import split
from longstride.learning.step_selection.autotune import TOLERANCES, StepRunner
from longstride.learning.torch_settings import apply_global_settings
from longstride.policies.networks import ActorCritic, initialise
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete

DESK = mlp_spec((151, 128, 128, 128, 62), (151, 256, 256, 256, 1), space=Discrete(62), action_features=5)
SHAPES = {
    "loan desk": DESK,
    "choices": mlp_spec((32, 64, 50), (32, 96, 1), space=MultiDiscrete([30, 20])),
    "squashed": mlp_spec((32, 64, 64, 6), (32, 96, 96, 1), space=Box([-1.0] * 6, [1.0] * 6, squashed=True)),
}
ALL = ("eager", "graph", "torch_compile", "torch_compile_graph")
SAMPLES, SIZE = (2048, 512) if torch.cuda.is_available() else (256, 64)
PART = 150 * SIZE // 512
"""Samples of a microbatch that does not divide a minibatch."""


@pytest.fixture(autouse=True)
def no_kernels_of_other_tests():
    """All steppers share the code of their loss, and torch compiles the same code for eight shapes at most."""
    torch._dynamo.reset()


@pytest.fixture(autouse=True)
def full_float32():
    """Compare in float32 without TF32, whose ten bits of mantissa would hide errors."""
    apply_global_settings(tf32=False, cudnn_benchmark=False)


@pytest.fixture(params=DEVICES)
def device(request):
    """Each device."""
    return request.param


def executor_of(device, shape=DESK, precision="fp32", microbatch=SIZE):
    """Return an executor on a device, always of the same weights, and a rollout."""
    require(device, precision)
    host = ActorCritic(shape)
    initialise(host, "orthogonal", torch.Generator().manual_seed(0))
    model = ActorCritic(shape, device)
    with torch.no_grad():
        model.flat.copy_(host.flat)
    stepper = toy_stepper(model, precision=precision, microbatch=microbatch)
    if precision == "fp16":
        stepper.scaler.load_state_dict({**stepper.scaler.state_dict(), "scale": 256.0})
    torch.manual_seed(1)
    return executor_on(device, stepper), rollout_of(shape, SAMPLES, device)


def epochs_of(device, execution, count=2, **changes):
    """Return the reports, weights, moments and scale after some epochs between which everything changes that may."""
    executor, rollout = executor_of(device, **changes)
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
@pytest.mark.parametrize("microbatch", [SIZE, PART])
@pytest.mark.parametrize("name", SHAPES)
def test_replays_are_eager_steps_to_the_bit(device, name, microbatch, precision):
    changes = {"shape": SHAPES[name], "precision": precision, "microbatch": microbatch}
    expected, found = (epochs_of(device, execution, **changes) for execution in ("eager", "graph"))
    assert all(torch.equal(column, expected[0][key]) for key, column in found[0].items())
    assert torch.equal(found[1], expected[1])
    assert all(torch.equal(tensor, expected[2][key]) for key, tensor in found[2].items())
    assert found[3] == expected[3]
    assert float(found[0]["skipped"].sum()) == 0.0


@pytest.mark.parametrize("execution", ["torch_compile", "torch_compile_graph"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("name", SHAPES)
def test_compiled_gradients_are_within_the_tolerance(device, name, precision, execution):
    results = []
    for each in ("eager", execution):
        executor, rollout = executor_of(device, SHAPES[name], precision)
        executor.use(each)
        batches = split(SAMPLES, SIZE, np.random.default_rng(0))
        executor.prepare(rollout, batches)
        executor.run(rollout, batches.first(1))
        results.append(executor.stepper.optimizer.gradient)
    expected, found = results
    assert float((found - expected).norm() / expected.norm()) <= TOLERANCES[precision]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_choice_is_made_checked_and_said(device, precision, capsys):
    executor, rollout = executor_of(device, precision=precision)
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
def test_trying_leaves_no_trace(device, precision):
    (tried, rollout), (alone, _) = (executor_of(device, precision=precision) for _ in range(2))
    runner = StepRunner(tried, ("graph",), SIZE)
    torch.manual_seed(5)
    state_of = torch.cuda.get_rng_state if device == "cuda" else torch.get_rng_state
    randomness = state_of()
    batches = split(SAMPLES, SIZE, np.random.default_rng(0))
    reports = runner.epoch(rollout, batches)
    assert torch.equal(state_of(), randomness)
    assert tried.execution == "graph", runner.take_log().sentences
    assert torch.equal(alone.run(rollout, batches), reports)
    assert torch.equal(alone.stepper.model.flat, tried.stepper.model.flat)
    assert alone.stepper.scaler.state_dict() == tried.stepper.scaler.state_dict()


@pytest.mark.parametrize("kind", ["bandit", "choices", "tracker"])
def test_whole_updates_are_those_of_eager_steps(device, kind):
    """But for rounding: a captured minibatch may have some slots more, of weight 0."""
    flats = []
    for execution in ("eager", "graph"):
        model = toy_model(kind)
        updater = toy_updater(model, device, executions=(execution,))
        updater.runner.executor = executor_on(device, updater.stepper)
        for seed in range(3):
            episodes = toy_episodes(kind, toy_model(kind), 4, 4 * seed)
            report = toy_update(updater, episodes, seed)
            assert (report.execution, report.model_transfers) == (execution, 2 if device == "cuda" else 0)
            assert not [t for t in report.execution_trials if t["problem"]]
        flats.append(model.flat.clone())
    torch.testing.assert_close(*flats, rtol=1e-4, atol=1e-6)


def test_the_host_never_waits_in_an_epoch(device):
    executor, rollout = executor_of(device)
    executor.use("graph")
    batches = split(SAMPLES, SIZE, np.random.default_rng(0))
    executor.prepare(rollout, batches)
    executor.run(rollout, batches)
    replay = executor._captured._replay
    with no_waiting(device):
        replay()


def test_a_step_that_is_not_finite_is_skipped_in_a_replay(device):
    executor, rollout = executor_of(device)
    executor.use("graph")
    batches = split(SAMPLES, SIZE, np.random.default_rng(0))
    executor.prepare(rollout, batches)
    rollout.advantages[7] = torch.inf
    reports = executor.run(rollout, batches)
    assert float(columns_of(executor.stepper, reports)["skipped"].sum()) == 1.0
    assert bool(torch.isfinite(executor.stepper.model.flat).all())


def test_memory_that_runs_out_drops_the_graph_and_its_pool(device):
    """On a card 65,536 samples at once take about half a gigabyte; then there is room for three fifths of it."""
    samples = 65_536 if device == "cuda" else 1024
    executor, _ = executor_of(device, microbatch=samples)
    rollout, batches = rollout_of(DESK, samples, device), split(samples, samples, np.random.default_rng(0))
    executor.use("graph")
    executor.prepare(rollout, batches)
    executor.run(rollout, batches)
    wait(device)
    with_graph = reserved(device)
    executor.stepper.memory.free_caches()
    needed = with_graph - reserved(device)
    assert device == "cpu" or needed > 2**28, "the memory of the graph is given back"
    with room_for(device, executor.stepper, 0.6 * needed, rows=samples // 2):
        executor.prepare(rollout, batches)
        reports = executor.run(rollout, batches)
        wait(device)
    events = executor.stepper.memory.take_events()
    assert events
    assert executor.stepper.memory.microbatch == events[-1].microbatch_after < samples
    assert bool(torch.isfinite(reports).all())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_times_of_a_default_update(device, precision, capsys):
    """62,000 samples of the loan desk's network in minibatches of 1,024; figures to read, no limits to keep."""
    samples = 62_000 if device == "cuda" else 2 * SIZE
    seconds = {}
    for execution in ALL:
        executor, _ = executor_of(device, precision=precision)
        rollout = rollout_of(DESK, samples, device)
        executor.use(execution)
        batches = split(samples, SIZE, np.random.default_rng(0))
        executor.prepare(rollout, batches)
        executor.run(rollout, batches)
        wait(device)
        begin = time.perf_counter()
        executor.run(rollout, batches)
        wait(device)
        seconds[execution] = time.perf_counter() - begin
    with capsys.disabled():
        print(f"\n{precision}, ms an epoch:", {name: round(1e3 * s, 2) for name, s in seconds.items()})
    assert set(seconds) == set(ALL)
