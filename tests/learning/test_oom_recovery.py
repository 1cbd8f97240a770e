"""Out of memory: the step is tried again with half the microbatch and learns the same."""

import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.toy_runs import toy_episodes, toy_model, toy_stepper, toy_update, toy_updater
from learning.steps.test_torch_step import rollout

from longstride.learning import device_transfer
from longstride.learning.oom_recovery import SMALLEST_MICROBATCH, OomRetry, bytes_asked, is_out_of_memory
from longstride.learning.step_selection import executor

ON_GPU = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.25 GiB is"
ON_CPU = "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: "
ON_CPU += "you tried to allocate 4096000 bytes. Error code 12 (Cannot allocate memory)"
FAILURES = [torch.OutOfMemoryError(ON_GPU), RuntimeError(ON_CPU), MemoryError()]


class FailAt:
    """Calls a function, but raises at some calls, counted from 1."""

    def __init__(self, function, error, *calls):
        self.function, self.error, self.calls, self.count = function, error, calls, 0

    def __call__(self, *arguments, **named):
        self.count += 1
        if self.count in self.calls:
            raise self.error
        return self.function(*arguments, **named)


def step_once(failures=(), error=FAILURES[0], **changes):
    """Take a step on 256 samples whose forward passes fail at some calls; return everything that it changed."""
    model = toy_model("bandit")
    stepper = toy_stepper(model, **{"max_grad_norm": 1e9, **changes})
    weights = torch.full((256,), 1 / 256)
    stepper.step(rollout(model), torch.arange(256), weights)  # so that there is a state of the optimiser
    stepper.loss = FailAt(stepper.loss, error, *failures)
    report = stepper.step(rollout(model), torch.arange(256).flip(0), weights)
    gradient = stepper.optimizer.gradient
    state = {"flat": model.flat, "report": report, "gradient": gradient, **stepper.optimizer_tensors()}
    return state, stepper


def assert_equal(a, b):
    assert a.keys() == b.keys()
    for name, tensor in a.items():
        assert torch.equal(tensor, b[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("error", FAILURES, ids=["gpu", "cpu", "numpy"])
@pytest.mark.parametrize("failing", [1, 2, 4])
def test_a_step_that_ran_out_of_memory_is_the_step_with_half_the_microbatch(error, failing):
    """To the bit, whichever of its four microbatches failed: the first attempt left no trace."""
    failed, stepper = step_once((failing,), error, microbatch=64)
    expected, never = step_once(microbatch=64)
    assert stepper.memory.microbatch == 32
    (event,) = stepper.memory.take_events()
    assert (event.phase, event.microbatch_before, event.microbatch_after) == ("gradients", 64, 32)
    assert event.bytes_free > 0
    assert stepper.memory.take_events() == never.memory.take_events() == []
    halved_from_the_start = toy_halved_second_step()
    assert_equal(failed, halved_from_the_start)
    for name, tensor in expected.items():  # and the un-split step's to rounding
        torch.testing.assert_close(failed[name], tensor, rtol=1e-4, atol=1e-6)


def toy_halved_second_step():
    """Return what step_once returns if the second step simply has half the microbatch."""
    model = toy_model("bandit")
    stepper = toy_stepper(model, max_grad_norm=1e9, microbatch=64)
    weights = torch.full((256,), 1 / 256)
    stepper.step(rollout(model), torch.arange(256), weights)
    stepper.memory.microbatch = 32
    report = stepper.step(rollout(model), torch.arange(256).flip(0), weights)
    gradient = stepper.optimizer.gradient
    return {"flat": model.flat, "report": report, "gradient": gradient, **stepper.optimizer_tensors()}


@pytest.mark.parametrize("failures", [(1, 2, 3), (1, 3)])
def test_the_gradient_of_a_split_step_is_that_of_the_whole_one(failures):
    whole, _ = step_once(microbatch=256)
    split, stepper = step_once(failures, microbatch=256)
    assert stepper.memory.microbatch == 256 >> len(failures)
    torch.testing.assert_close(split["gradient"], whole["gradient"], rtol=1e-5, atol=2e-7)
    torch.testing.assert_close(split["report"], whole["report"], rtol=1e-5, atol=1e-6)


def test_threads_that_still_run_are_waited_for_and_change_no_bit():
    alone, _ = step_once((2,), microbatch=64)
    together, stepper = step_once((2,), microbatch=64, threads=2)
    assert stepper.memory.microbatch == 32
    assert_equal(alone, together)


def test_the_scale_of_fp16_does_not_change_when_memory_runs_out():
    _, failed = step_once((2,), precision="fp16")
    _, never = step_once(precision="fp16")
    assert failed.memory.microbatch == 32
    assert failed.scaler.state_dict() == never.scaler.state_dict()
    assert failed.scaler.state_dict()["scale"] > 1.0


def test_a_microbatch_above_the_number_of_samples_is_halved_from_that_number():
    _, stepper = step_once((1,), microbatch=100_000)
    assert stepper.memory.microbatch == 128


def test_the_tensors_of_the_failed_attempt_are_gone_when_it_is_tried_again():
    ladder, seen = OomRetry(64, torch.device("cpu")), []

    def attempt():
        if seen:
            return seen[0]()
        tensor = torch.zeros(10)
        seen.append(weakref.ref(tensor))
        raise torch.OutOfMemoryError(ON_GPU)

    assert ladder.run("values", 100, attempt) is None


def test_the_ladder_ends_with_the_error_and_nothing_learned():
    model = toy_model("bandit")
    stepper, before = toy_stepper(model), model.flat.clone()
    stepper.loss = FailAt(stepper.loss, torch.OutOfMemoryError(ON_GPU), *range(1, 100))
    with pytest.raises(torch.OutOfMemoryError):
        stepper.step(rollout(model), torch.arange(256), torch.full((256,), 1 / 256))
    assert stepper.memory.microbatch == SMALLEST_MICROBATCH == 16
    assert stepper.loss.count == 3
    assert [(e.microbatch_before, e.microbatch_after) for e in stepper.memory.take_events()] == [(64, 32), (32, 16)]
    assert torch.equal(model.flat, before)
    assert stepper.optimizer_tensors() == {}


def test_other_errors_are_not_tried_again():
    model = toy_model("bandit")
    stepper = toy_stepper(model)
    stepper.loss = FailAt(stepper.loss, RuntimeError("shapes cannot be multiplied"), 1)
    with pytest.raises(RuntimeError, match="shapes"):
        stepper.step(rollout(model), torch.arange(256), torch.full((256,), 1 / 256))
    assert stepper.loss.count == 1


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (torch.OutOfMemoryError(ON_GPU), int(2.5 * 2**30)),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0"), 20 * 2**20),
        (RuntimeError(ON_CPU), 4096000),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 12 bytes."), 12),
        (MemoryError(), None),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), None),
    ],
)
def test_what_an_allocator_says(error, asked):
    assert is_out_of_memory(error)
    assert bytes_asked(error) == asked


def test_what_numpy_says():
    with pytest.raises(MemoryError) as raised:
        np.empty((2**50,), np.uint8)
    assert bytes_asked(raised.value) == 2**50


@pytest.mark.parametrize(("call", "phase", "after"), [(n, "upload", 64) for n in (1, 2, 5, 10, 11)])
def test_an_upload_that_ran_out_of_memory_is_tried_again(monkeypatch, call, phase, after):
    expected, model = toy_model("bandit"), toy_model("bandit")
    episodes = toy_episodes("bandit", model, 1)
    toy_update(toy_updater(expected), episodes)
    failing = FailAt(device_transfer.upload, torch.OutOfMemoryError(ON_GPU), call)
    for module in (device_transfer, executor):
        monkeypatch.setattr(module, "upload", failing)
    updater = toy_updater(model, microbatch=128)
    report = toy_update(updater, episodes)
    assert [(e["phase"], e["microbatch_before"], e["microbatch_after"]) for e in report.out_of_memory] == [
        (phase, 128, after)
    ]
    assert torch.equal(model.flat, expected.flat)


def test_a_state_to_go_back_to_that_ran_out_of_memory_is_tried_again():
    expected, model = toy_model("bandit"), toy_model("bandit")
    episodes = toy_episodes("bandit", model, 1)
    toy_update(toy_updater(expected), episodes)
    updater = toy_updater(model, microbatch=128)
    updater.stepper.copy_optimizer = FailAt(updater.stepper.copy_optimizer, torch.OutOfMemoryError(ON_GPU), 1)
    (event,) = toy_update(updater, episodes).out_of_memory
    assert (event["phase"], event["microbatch_after"]) == ("snapshot", 64)
    assert torch.equal(model.flat, expected.flat)


def test_values_that_ran_out_of_memory_are_tried_again():
    expected, model = toy_model("bandit"), toy_model("bandit")
    episodes = toy_episodes("bandit", model, 1)
    toy_update(toy_updater(expected, microbatch=32), episodes)
    updater = toy_updater(model)
    updater.model.values = FailAt(updater.model.values, RuntimeError(ON_CPU), 3)
    report = toy_update(updater, episodes)
    assert [(e["phase"], e["bytes_asked"], e["microbatch_after"]) for e in report.out_of_memory] == [
        ("values", 4096000, 32)
    ]
    assert torch.equal(model.flat, expected.flat)


LIMITED = """
import resource, torch
from pathlib import Path
from longstride.policies.networks import ActorCritic
from longstride.learning.algorithms.interface import Samples
from helpers.specs import mlp_spec
from helpers.toy_runs import toy_stepper

torch.manual_seed(0)
n = 16_384
model = ActorCritic(mlp_spec((8, 256, 256, 4), (8, 256, 1), "relu"))
with torch.no_grad():
    model.flat[: model.layout.actor_size].normal_(0, 0.05)
rollout = Samples(torch.randn(n, 8), torch.zeros(n, dtype=torch.int64), torch.full((n,), -1.4),
                  torch.ones(n, 4, dtype=torch.bool), torch.zeros(n, 4, 0),
                  torch.randn(n), torch.randn(n),
                  torch.randn(n))
indices, weights = torch.arange(n), torch.full((n,), 1 / n)
def gradient(stepper):
    gradient, layout = stepper.gradients(rollout, indices, weights)[0], stepper.model.layout
    return torch.cat([gradient[layout.slice_of(part)] for part in ("actor", "critic")])
def limit():
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 40 * 2**20, resource.RLIM_INFINITY))
expected = gradient(toy_stepper(model, microbatch=64))
small = toy_stepper(model, microbatch=n, max_grad_norm=1e9)
limit()
small.step(rollout, indices, weights)
actual = small.optimizer.gradient
for event in small.memory.take_events():
    print(event.phase, event.bytes_asked, event.microbatch_after)
torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-6)
print("learned", small.memory.microbatch)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space of a process")
def test_a_process_that_really_runs_out_of_memory_goes_on():
    """16,384 samples need about 60 MB for their activations; 40 are left."""
    tests = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PYTHONPATH": f"{tests.parent / 'src' / 'core'}:{tests}", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    *events, last = done.stdout.split("\n")[:-1]
    assert events
    assert all(event.startswith("gradients ") and int(event.split()[1]) > 2**20 for event in events)
    assert last == f"learned {events[-1].split()[2]}"
