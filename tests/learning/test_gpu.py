"""The update on a real GPU; needs torch with CUDA, and none of the packages that only the command line uses."""

import numpy as np
import pytest
import torch
from helpers.specs import mlp_spec
from helpers.toy_runs import (
    actor_weights,
    columns_of,
    toy_episodes,
    toy_model,
    toy_stepper,
    toy_update,
    toy_updater,
)

from longstride.hardware.detect import detect_machine
from longstride.hardware.planning.plan import make_plan
from longstride.hardware.planning.precision import choose_precision
from longstride.hardware.planning.update_memory import SAFETY, auto_batch_size
from longstride.hardware.types import PlanSettings
from longstride.learning.algorithms.interface import Samples
from longstride.learning.device_transfer import host_allocator
from longstride.learning.step_costs.update_memory import bytes_of_a_sample
from longstride.learning.torch_settings import apply_global_settings
from longstride.policies.networks import ActorCritic

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no NVIDIA GPU here"),
]

PRECISIONS = [("fp32", 1e-4), ("bf16", 3e-2)]


@pytest.fixture(autouse=True)
def full_float32():
    """Compare in float32 without TF32, whose ten bits of mantissa would hide errors."""
    apply_global_settings(tf32=False, cudnn_benchmark=False)
    if torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("BF16 needs compute capability 8.0")


def run_update(model, precision, **changes):
    """Play one bandit episode and update on the GPU; return the updater and its report."""
    episodes = toy_episodes("bandit", model, 1)
    updater = toy_updater(model, "cuda", precision=precision, **changes)
    return updater, toy_update(updater, episodes)


@pytest.mark.parametrize(("precision", "largest_error"), [("fp32", 1e-3), ("bf16", 1e-1)])
def test_an_update_moves_the_model_twice_and_starts_from_the_policy_that_played(precision, largest_error):
    model = toy_model("bandit")
    before = actor_weights(model).copy()
    updater, report = run_update(model, precision)
    assert report.model_transfers == 2
    assert report.transfer_seconds > 0.0
    assert report.losses["initial_ratio_error"] < largest_error
    assert updater.model.flat.device.type == "cuda"
    assert torch.equal(updater.model.flat.cpu(), model.flat), "the host has what the device learned"
    assert np.abs(actor_weights(model) - before).max() > 1e-4
    second = toy_update(updater, toy_episodes("bandit", model, 1), 1)
    assert second.model_transfers == 2
    assert second.losses["initial_ratio_error"] < largest_error


def test_an_update_on_the_gpu_equals_one_on_the_cpu():
    on_gpu, on_cpu = toy_model("bandit"), toy_model("bandit")
    _, gpu_report = run_update(on_gpu, "fp32", epochs=1)
    episodes = toy_episodes("bandit", on_cpu, 1)
    updater = toy_updater(on_cpu, epochs=1)
    report = toy_update(updater, episodes)
    assert gpu_report.explained_variance == pytest.approx(report.explained_variance, rel=1e-3, abs=1e-4)
    for name in ("policy_loss", "value_loss", "entropy", "approx_kl"):
        assert gpu_report.losses[name] == pytest.approx(report.losses[name], rel=1e-3, abs=1e-4)
    # Adam divides by the gradient's size, so a weight whose gradient is nearly 0 may move differently.
    difference = (on_gpu.flat - on_cpu.flat).abs()
    assert float(difference.median()) < 1e-5


@pytest.mark.parametrize(("precision", "tolerance"), PRECISIONS)
def test_the_loss_on_the_gpu_equals_the_loss_on_the_cpu(precision, tolerance):
    model = toy_model("bandit")
    t = toy_episodes("bandit", model, 1)[0].trajectory
    n = t.steps
    rng = np.random.default_rng(3)
    samples = Samples(
        observations=torch.from_numpy(t.observations[:n].copy()),
        actions=torch.from_numpy(t.actions.copy()),
        log_probs=torch.from_numpy(t.log_probs + rng.normal(0, 0.1, n).astype(np.float32)),
        masks=torch.from_numpy(t.masks.copy()),
        features=torch.from_numpy(t.features.copy()),
        advantages=torch.from_numpy(rng.normal(size=n).astype(np.float32)),
        returns=torch.from_numpy(rng.normal(size=n).astype(np.float32)),
        values=torch.from_numpy(rng.normal(size=n).astype(np.float32)),
    )
    weights = torch.full((n,), 1.0 / n)
    expected = toy_stepper(model).loss(samples, weights)
    other = ActorCritic(model.spec, "cuda")
    with torch.no_grad():
        other.flat.copy_(model.flat)
    actual = toy_stepper(other, precision=precision).loss(samples.map(torch.Tensor.cuda), weights.cuda())
    names = ("total", "policy_loss", "value_loss", "entropy")
    figures = ({"total": loss.total, **loss.terms._asdict()} for loss in (actual, expected))
    for a, e in zip(*([float(each[name].detach()) for name in names] for each in figures), strict=True):
        assert a == pytest.approx(e, rel=tolerance, abs=tolerance)


def test_the_plan_of_this_gpu():
    machine = detect_machine()
    actor, critic = (32, 128, 128, 8), (32, 256, 256, 1)
    by_half = {half: bytes_of_a_sample(mlp_spec(actor, critic), half) for half in (False, True)}
    settings = PlanSettings(
        device="auto",
        precision="auto",
        mixed_precision=True,
        tf32=True,
        auto_batch=True,
        largest_batch=65_536,
        samples=10**7,
        bytes_per_sample=by_half,
        widest_layer=256,
        parallel_episodes=1,
        parallel_reason="",
        simulation_threads=0,
        update_threads=0,
    )
    plan = make_plan(machine, settings)
    assert plan.device == "cuda"
    assert plan.precision == choose_precision(torch.cuda.get_device_capability()) == "bf16"
    assert plan.tf32
    free = torch.cuda.mem_get_info()[0]
    assert plan.batch_size == auto_batch_size(10**7, int(machine.gpu.free_bytes * SAFETY) // by_half[True], 65_536)
    assert plan.batch_size * by_half[True] <= free
    assert machine.gpu.free_bytes <= 1.05 * free
    assert machine.gpu.name == torch.cuda.get_device_name()


def random_rollout(n):
    """Return n samples of 32 observations and 8 actions on the GPU."""
    torch.manual_seed(0)
    return Samples(
        observations=torch.randn(n, 32, device="cuda"),
        actions=torch.zeros(n, dtype=torch.int64, device="cuda"),
        log_probs=torch.full((n,), -2.0, device="cuda"),
        masks=torch.ones(n, 8, dtype=torch.bool, device="cuda"),
        features=torch.zeros(n, 8, 0, device="cuda"),
        advantages=torch.randn(n, device="cuda"),
        returns=torch.randn(n, device="cuda"),
        values=torch.randn(n, device="cuda"),
    )


def test_a_batch_that_is_planned_for_fits_and_its_prediction_holds():
    """65,536 samples of a mid-sized network: the real peak is within what the plan reserves."""
    actor, critic = (32, 128, 128, 128, 8), (32, 256, 256, 256, 1)
    n = 65_536
    for precision in ("fp32", "bf16"):
        model = ActorCritic(mlp_spec(actor, critic, "relu"), "cuda")
        rollout = random_rollout(n)
        stepper = toy_stepper(model, precision=precision, microbatch=n)
        indices, weights = torch.arange(n, device="cuda"), torch.full((n,), 1 / n, device="cuda")
        stepper.step(rollout, indices, weights)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        stepper.step(rollout, indices, weights)
        torch.cuda.synchronize()
        real = torch.cuda.max_memory_allocated() - before
        assert real * SAFETY <= n * bytes_of_a_sample(mlp_spec(actor, critic), precision != "fp32") * 1.05


def spread_model():
    """Return a mid-sized model on the GPU whose weights are all alike in size."""
    model = ActorCritic(mlp_spec((32, 128, 128, 128, 8), (32, 256, 256, 256, 1), "relu"), "cuda")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.05)
    return model


def new_stepper(model, **changes):
    """Return a stepper whose FP16 scale needs no search."""
    stepper = toy_stepper(model, **changes)
    stepper.scaler = torch.amp.GradScaler("cuda", init_scale=256.0, enabled=stepper.scaler.is_enabled())
    return stepper


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_card_that_really_runs_out_of_memory_goes_on_and_learns_the_same(precision):
    """Two fifths of what the whole minibatch needs: a half does not fit, a quarter does."""
    n, whole, pieces = 65_536, spread_model(), spread_model()
    with torch.no_grad():
        pieces.flat.copy_(whole.flat)
    rollout = random_rollout(n)
    indices, weights = torch.arange(n, device="cuda"), torch.full((n,), 1 / n, device="cuda")
    changes = {"precision": precision, "max_grad_norm": 1e9}
    unlimited = new_stepper(whole, microbatch=n, **changes)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_reserved()
    unlimited.step(rollout, indices, weights)
    needed = torch.cuda.max_memory_reserved() - before
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    limited = new_stepper(pieces, microbatch=n, **changes)
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 0.4 * needed) / total)
    try:
        report = limited.step(rollout, indices, weights)
        torch.cuda.synchronize()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    events = limited.memory.take_events()
    assert events
    assert all(event.phase == "gradients" and event.bytes_asked > 2**20 for event in events)
    assert events[0].microbatch_before == n
    assert limited.memory.microbatch == events[-1].microbatch_after == n >> len(events) < n
    assert float(columns_of(limited, report)["skipped"]) == 0.0
    found, expected = limited.optimizer.gradient, unlimited.optimizer.gradient
    relative = (found - expected).norm() / expected.norm()
    assert float(relative) < (1e-4 if precision == "fp32" else 2e-2)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_step_that_is_not_finite_changes_no_bit_and_the_host_never_waits(precision):
    n, model = 4096, spread_model()
    rollout = random_rollout(n)
    indices, weights = torch.arange(n, device="cuda"), torch.full((n,), 1 / n, device="cuda")
    stepper = new_stepper(model, precision=precision, microbatch=1024)
    assert float(columns_of(stepper, stepper.step(rollout, indices, weights))["skipped"]) == 0.0
    before = [model.flat.clone(), *(t.clone() for t in stepper.optimizer_tensors().values())]
    rollout.advantages[7] = torch.inf
    torch.cuda.set_sync_debug_mode("error")
    try:
        report = stepper.step(rollout, indices, weights)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert float(columns_of(stepper, report)["skipped"]) == 1.0
    for old, new in zip(before, [model.flat, *stepper.optimizer_tensors().values()], strict=True):
        assert torch.equal(old, new)
    rollout.advantages[7] = 0.0
    stepper.step(rollout, indices, weights)
    assert not torch.equal(before[0], model.flat)


def test_trajectories_lie_in_pinned_memory():
    array = host_allocator(pinned=True)((16, 3), np.dtype(np.float32))
    assert torch.from_numpy(array).is_pinned()
