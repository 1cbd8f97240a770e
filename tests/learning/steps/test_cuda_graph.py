"""Captured steps: what a replay does, when it is captured anew, what a capture leaves behind."""

import gc
import weakref
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.random_rollouts import SPACES, random_model, random_rollout
from helpers.recorded_graphs import RecordedGraphs
from helpers.toy_runs import columns_of, toy_coefficients, toy_stepper

from longstride.learning.minibatches import split
from longstride.learning.steps.cuda_graph import CudaGraphs, GraphedEpochs

pytestmark = pytest.mark.slow

SAMPLES, SIZE = 240, 60


def plain_error():
    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB.")


def minibatches(seed=0, samples=SAMPLES):
    return split(samples, SIZE, np.random.default_rng(seed))


def state_of(stepper):
    return {"flat": stepper.model.flat.clone(), **{n: t.clone() for n, t in stepper.optimizer_tensors().items()}}


def assert_same_bits(a, b):
    assert a.keys() == b.keys()
    for name, tensor in a.items():
        assert torch.equal(tensor, b[name]), name


def graphed(space="discrete", graphs=None, **changes):
    """Return a stepper, its captured epochs, the graphs and a rollout."""
    model, graphs = random_model(space), graphs or RecordedGraphs()
    stepper = toy_stepper(model, **changes)
    return stepper, GraphedEpochs(stepper, graphs), graphs, random_rollout(model, SAMPLES)


def run(epochs, rollout, seed=0, samples=SAMPLES):
    batches = minibatches(seed, samples)
    epochs.prepare(rollout, batches.steps, batches.size)
    return epochs.run(batches, torch.from_numpy(batches.weights))


def eager(stepper, rollout, seed=0, samples=SAMPLES):
    indices, weights = map(torch.from_numpy, minibatches(seed, samples))
    return torch.stack([stepper.step(rollout, i, w) for i, w in zip(indices, weights, strict=True)])


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("microbatch", [64, 16])
@pytest.mark.parametrize("space", SPACES)
def test_replays_are_eager_steps_to_the_bit_whatever_changes_between_epochs(space, microbatch, precision):
    """Also learning rates and coefficients, which a replay must read from tensors; with one capture."""
    changes = {"microbatch": microbatch, "precision": precision}
    stepper, epochs, graphs, rollout = graphed(space, **changes)
    other = toy_stepper(random_model(space), **changes)
    for seed, (rate, coefficient) in enumerate([(1e-3, 0.2), (3e-3, 0.1), (1e-4, 0.02)]):
        for each in (stepper, other):
            names = ("clip_range", "entropy_coefficient", "value_coefficient")
            numbers = (coefficient, 0.1 * coefficient, 3 * coefficient)
            each.set_coefficients(toy_coefficients(1e3 * rate, **dict(zip(names, numbers, strict=True))))
        found, expected = run(epochs, rollout, seed), eager(other, rollout, seed)
        assert torch.equal(found, expected)
        assert_same_bits(state_of(stepper), state_of(other))
    assert stepper.scaler.state_dict() == other.scaler.state_dict()
    assert (graphs.captured, graphs.replays, epochs.captures) == (1, 12, 1)
    assert not torch.equal(stepper.model.flat, random_model(space).flat)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_capture_changes_nothing(precision):
    stepper, epochs, _, rollout = graphed(precision=precision)
    eager(stepper, rollout)
    before, scale = state_of(stepper), stepper.scaler.state_dict()
    epochs.prepare(rollout, 4, SIZE)
    assert_same_bits(state_of(stepper), before)
    assert stepper.scaler.state_dict() == scale


def test_a_first_capture_leaves_the_optimiser_as_if_it_had_never_stepped():
    stepper, epochs, _, rollout = graphed()
    epochs.prepare(rollout, 4, SIZE)
    assert stepper.optimizer_tensors() == {}
    assert not any(tensor.any() for tensor in stepper.copy_optimizer())


def test_steps_that_are_not_finite_are_skipped_and_counted_in_a_replay():
    stepper, epochs, _, rollout = graphed()
    rollout.advantages[17] = torch.inf
    reports = run(epochs, rollout)
    poisoned = (minibatches()[0] == 17).any(axis=1)
    assert columns_of(stepper, reports)["skipped"].tolist() == poisoned.astype(float).tolist()
    assert torch.isfinite(stepper.model.flat).all()
    assert set(t.item() for n, t in stepper.optimizer_tensors().items() if n.endswith("step")) == {3.0}


def moved(rollout):
    return rollout.map(torch.clone)


@pytest.mark.parametrize(
    ("change", "again"),
    [
        (lambda s, r: r, False),
        (lambda s, r: r.map(lambda column: column[:200]), False),  # fewer samples, in the same memory
        (lambda s, r: s.load_optimizer_tensors({n: t.clone() for n, t in s.optimizer_tensors().items()}) or r, False),
        (lambda s, r: s.set_coefficients(toy_coefficients(0.1, clip_range=0.1, entropy_coefficient=0.3)) or r, False),
        (lambda s, r: moved(r), True),
        (lambda s, r: s.use_precision("bf16") or r, True),
        (lambda s, r: setattr(s.memory, "microbatch", 16) or r, True),
        (lambda s, r: s.set_coefficients(toy_coefficients(entropy_coefficient=0.0)) or r, True),  # a term is left out
        (lambda s, r: s.load_optimizer_tensors({}) or r, False),
    ],
    ids=["nothing", "fewer", "state", "rates", "moved", "precision", "microbatch", "no bonus", "new state"],
)
def test_what_needs_another_capture(change, again):
    stepper, epochs, graphs, rollout = graphed()
    samples = 200  # 4 minibatches of 50
    epochs.prepare(rollout, 4, 50)
    run(epochs, rollout, 0, samples)
    assert graphs.captured == 1
    other = toy_stepper(random_model("discrete"))
    eager(other, rollout, 0, samples)
    changed = change(stepper, rollout)
    change(other, rollout)
    assert torch.equal(run(epochs, changed, 1, samples), eager(other, changed, 1, samples))
    assert_same_bits(state_of(stepper), state_of(other))
    assert graphs.captured == 1 + again


def test_more_minibatches_than_there_is_room_for_need_another_capture():
    _, epochs, graphs, rollout = graphed()
    epochs.prepare(rollout, 4, 2)
    epochs.prepare(rollout, 64, 2)
    assert graphs.captured == 1
    epochs.prepare(rollout, 120, 2)
    assert graphs.captured == 2
    batches = split(SAMPLES, 2, np.random.default_rng(0))
    assert len(epochs.run(batches, torch.from_numpy(batches.weights))) == 120


class Failing(RecordedGraphs):
    """Fails some captures, once a warm-up has run; an error is made when it is raised, as it holds what failed."""

    def __init__(self, *errors):
        super().__init__()
        self.errors, self.seen = list(errors), None

    def capture(self, function):
        if self.seen is not None:
            gc.collect()
            assert self.seen() is None, "the graph that failed is still there"
        if self.errors:
            self.seen = weakref.ref(function)
            function()
            raise self.errors.pop(0)()
        return super().capture(function)


def nested_error():
    """Return what torch raises where memory runs out in a capture: the end of the capture complains as well."""
    try:
        try:
            raise plain_error()
        finally:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
    except RuntimeError as error:
        return error


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("error", [plain_error, nested_error], ids=["plain", "at the end"])
def test_a_capture_that_ran_out_of_memory_is_made_with_half_the_microbatch(error, precision):
    graphs = Failing(error)
    stepper, epochs, _, rollout = graphed(graphs=graphs, microbatch=60, precision=precision)
    other = toy_stepper(random_model("discrete"), microbatch=30, precision=precision)
    assert torch.equal(run(epochs, rollout), eager(other, rollout))
    assert_same_bits(state_of(stepper), state_of(other))
    assert stepper.scaler.state_dict() == other.scaler.state_dict()
    (event,) = stepper.memory.take_events()
    assert (event.phase, event.microbatch_before, event.microbatch_after) == ("gradients", 60, 30)
    assert graphs.captured == 1


def test_memory_that_runs_out_elsewhere_drops_the_graph_first():
    stepper, epochs, graphs, rollout = graphed()
    run(epochs, rollout)
    slots, attempts = weakref.ref(epochs._buffers.reports), []

    def values():
        held = [flat.grad for flat in stepper.optimizer._parts.values()]
        attempts.append((slots() is None, all(number is None for number in held)))
        if len(attempts) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    stepper.memory.run("values", SAMPLES, values)
    assert attempts == [(False, False), (True, True)]
    run(epochs, rollout)
    assert graphs.captured == 2


def test_other_errors_of_a_capture_are_passed_on_and_change_nothing():
    stepper, epochs, _, rollout = graphed(graphs=Failing(lambda: RuntimeError("capture of this is not permitted")))
    eager(stepper, rollout)
    before = state_of(stepper)
    with pytest.raises(RuntimeError, match="not permitted"):
        epochs.prepare(rollout, 4, SIZE)
    assert_same_bits(state_of(stepper), before)
    assert stepper.memory.take_events() == []


def test_the_slots_are_written_before_each_epochs_first_replay():
    seen = []

    class Watching(RecordedGraphs):
        def capture(self, function):
            replay = super().capture(function)

            def watched():
                slots = epochs._buffers
                seen.append((int(slots.position), slots.indices[:4].numpy().copy()))
                replay()

            return watched

    _, epochs, _, rollout = graphed(graphs=Watching())
    for seed in (0, 1):
        run(epochs, rollout, seed)
    assert [position for position, _ in seen] == [0, 1, 2, 3] * 2
    for number, (_, indices) in enumerate(seen):
        np.testing.assert_array_equal(indices, minibatches(number // 4)[0])


class Pools:
    """The part of CUDA's caching allocator that keeps the memory of captures (c10/cuda/CUDACachingAllocator.cpp)."""

    def __init__(self):
        self.uses, self.recording, self.faults = {}, set(), []

    def begin(self, pool):
        self.uses[pool] = self.uses.get(pool, 0) + 1
        self.recording.add(pool)

    def end(self, device, pool):
        if pool not in self.recording:
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")
        self.recording.remove(pool)

    def release(self, device, pool):
        if self.uses.get(pool, 0) == 0:
            self.faults.append(f"{pool} is released once too often, which ends the process if a destructor does it")
            raise RuntimeError("INTERNAL ASSERT FAILED: uc >= 0")
        self.uses[pool] -= 1


class Card:
    """Streams, graphs and pools of torch.cuda as they are in torch 2.13; one call fails."""

    def __init__(self, monkeypatch, failing):
        self.pools, self.failing, self.handles = Pools(), failing, 0
        self.main = self.current = self.stream("main")
        for name in ("current_stream", "stream_context", "CUDAGraph", "graph_pool_handle"):
            monkeypatch.setattr(torch.cuda, name.replace("stream_context", "stream"), getattr(self, name))
        monkeypatch.setattr(torch.cuda, "Stream", lambda device: self.stream("side"))
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        for name in ("synchronize", "empty_cache"):
            monkeypatch.setattr(torch.cuda, name, lambda: None)
        monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", self.pools.end, raising=False)
        monkeypatch.setattr(torch._C, "_cuda_releasePool", self.pools.release, raising=False)

    @staticmethod
    def stream(name):
        return SimpleNamespace(name=name, wait_stream=lambda other: None)

    def current_stream(self, device=None):
        return self.current

    def graph_pool_handle(self):
        self.handles += 1
        return (0, self.handles)

    @contextmanager
    def stream_context(self, stream):
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def fail(self, where):
        if where == self.failing:
            raise RuntimeError(f"CUDA error: {where}")

    def CUDAGraph(self):  # noqa: N802
        return Graph(self)


class Graph:
    """What at::cuda::CUDAGraph does with the memory of its capture; ``later`` as from torch 2.14 on."""

    def __init__(self, card):
        self.card, self.ended, self.later = card, False, not torch.__version__.startswith("2.13")

    def capture_begin(self, pool, capture_error_mode):
        self.id = pool
        self.card.pools.begin(self.id)
        self.ended = self.later  # a failed capture is released, too
        self.card.fail("cudaStreamBeginCapture")

    def capture_end(self):
        self.card.fail("cudaStreamEndCapture")
        self.card.pools.end(0, self.id)
        self.card.fail("cudaGraphGetNodes")
        self.ended = True

    def replay(self):
        """Do nothing."""

    def reset(self):
        if self.ended:
            self.ended = False
            with suppress(RuntimeError):
                self.card.pools.end(0, self.id)
            self.card.pools.release(0, self.id)

    def __del__(self):
        with suppress(RuntimeError):  # in C++ it would end the process; the pools have written it down
            self.reset()


FAILURES = ["cudaStreamBeginCapture", "a launch", "cudaStreamEndCapture", "cudaGraphGetNodes"]


def failed_capture(monkeypatch, failing):
    """Return a card after a capture in which a call failed, and the message of the error."""
    card, runs = Card(monkeypatch, failing), []

    def step():
        runs.append(card.current.name)
        if len(runs) == 4:
            card.fail("a launch")

    with pytest.raises(RuntimeError) as error:
        CudaGraphs(torch.device("cuda")).capture(step)
    message = str(error.value)
    del error
    gc.collect()
    assert set(runs) == {"side"}
    return card, message


@pytest.mark.parametrize("failing", FAILURES)
def test_a_failed_capture_leaves_the_stream_as_it_was_and_passes_on_its_error(monkeypatch, failing):
    card, message = failed_capture(monkeypatch, failing)
    assert card.current is card.main
    assert message == f"CUDA error: {failing}"


@pytest.mark.parametrize("version", ["2.13.0+cu130", "2.14.0.dev20260801+cu130", "2.14.0"])
@pytest.mark.parametrize("failing", FAILURES)
def test_the_memory_of_a_failed_capture_is_released_once(monkeypatch, failing, version):
    monkeypatch.setattr(torch, "__version__", version)
    card, _ = failed_capture(monkeypatch, failing)
    assert card.pools.faults == []
    assert card.pools.recording == set()
    assert set(card.pools.uses.values()) == {0}


def test_the_memory_of_a_capture_is_released_with_its_replay(monkeypatch):
    card = Card(monkeypatch, None)
    replay = CudaGraphs(torch.device("cuda")).capture(lambda: None)
    assert set(card.pools.uses.values()) == {1}
    del replay
    gc.collect()
    assert set(card.pools.uses.values()) == {0}
    assert card.pools.faults == []


def test_what_is_asked_of_cuda(monkeypatch):
    """Warm-up and capture on one stream beside the main one, which waits for it, and one run in the capture."""
    calls, around = [], []

    class Stream:
        def __init__(self, name):
            self.name = name

        def wait_stream(self, other):
            calls.append(f"{self.name} waits for {other.name}")

    @contextmanager
    def inside(name):
        around.append(name)
        yield
        around.pop()

    main = Stream("main")
    graph = SimpleNamespace(
        capture_begin=lambda pool, capture_error_mode: calls.append(f"begin in {pool}, {capture_error_mode}"),
        capture_end=lambda: calls.append("end"),
        replay=lambda: calls.append("replay"),
    )
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream("side"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: main)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: inside(f"on {stream.name}"))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: graph)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "its pool")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: calls.append("wait"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    replay = CudaGraphs(torch.device("cuda")).capture(lambda: calls.append(f"run {around[-1]}"))
    replay()
    assert calls == [
        "side waits for main",
        *["run on side"] * 3,
        "main waits for side",
        "wait",
        *("begin in its pool, thread_local", "run on side", "end"),
        "replay",
    ]
