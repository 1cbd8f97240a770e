"""The update on a real GPU, and the same tests on the CPU; none of the packages that only the command line uses."""

from functools import partial

import numpy as np
import pytest
import torch
from helpers.devices import CARD, DEVICES, no_waiting, peak_of, require, reserved, room_for, wait
from helpers.fake_gpus import install, of_catalogue
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
from longstride.hardware.planning.choices import auto_batch_size
from longstride.hardware.planning.gpu_catalog import find_card
from longstride.hardware.planning.plan import make_plan
from longstride.hardware.planning.precision import choose_precision
from longstride.hardware.planning.update_memory import SAFETY
from longstride.hardware.types import PlanSettings
from longstride.learning.algorithms.interface import Samples
from longstride.learning.device_transfer import host_allocator
from longstride.learning.step_costs.update_memory import bytes_of_a_sample
from longstride.learning.steps.loss_slopes.choose import kernels_on
from longstride.learning.torch_settings import apply_global_settings
from longstride.policies.networks import ActorCritic

PRECISIONS = [("fp32", 1e-4), ("bf16", 3e-2)]


@pytest.fixture(autouse=True)
def full_float32():
    """Compare in float32 without TF32, whose ten bits of mantissa would hide errors."""
    apply_global_settings(tf32=False, cudnn_benchmark=False)


@pytest.fixture(params=DEVICES)
def device(request):
    """Each device."""
    return request.param


def run_update(model, device, precision, **changes):
    """Play one bandit episode and update on a device; return the updater and its report."""
    require(device, precision)
    episodes = toy_episodes("bandit", model, 1)
    updater = toy_updater(model, device, precision=precision, **changes)
    return updater, toy_update(updater, episodes)


def pairs_of(updater):
    """Yield each tensor of the model on the device, without what fills up rows there, and the host's."""
    for name, tensor in updater.host.tensors.items():
        yield updater.model.own_part(updater.model.tensors[name].detach().cpu(), name), tensor.detach()


@pytest.mark.parametrize(("precision", "largest_error"), [("fp32", 1e-3), ("bf16", 1e-1)])
def test_an_update_moves_the_model_twice_and_starts_from_the_policy_that_played(device, precision, largest_error):
    model, transfers = toy_model("bandit"), 2 if device == "cuda" else 0
    before = actor_weights(model).copy()
    updater, report = run_update(model, device, precision)
    assert report.model_transfers == transfers
    assert (report.transfer_seconds > 0.0) == (device == "cuda")
    assert report.losses["initial_ratio_error"] < largest_error
    assert updater.model.flat.device.type == device
    assert all(torch.equal(own, tensor) for own, tensor in pairs_of(updater)), "the host has what the device learned"
    assert np.abs(actor_weights(model) - before).max() > 1e-4
    second = toy_update(updater, toy_episodes("bandit", model, 1), 1)
    assert second.model_transfers == transfers
    assert second.losses["initial_ratio_error"] < largest_error


def test_an_update_on_a_device_equals_one_by_the_kernels_of_the_cpu(device):
    on_gpu, on_cpu = toy_model("bandit"), toy_model("bandit")
    _, gpu_report = run_update(on_gpu, device, "fp32", epochs=1)
    episodes = toy_episodes("bandit", on_cpu, 1)
    updater = toy_updater(on_cpu, epochs=1, executions=("numba",))
    report = toy_update(updater, episodes)
    assert gpu_report.explained_variance == pytest.approx(report.explained_variance, rel=1e-3, abs=1e-4)
    for name in ("policy_loss", "value_loss", "entropy", "approx_kl"):
        assert gpu_report.losses[name] == pytest.approx(report.losses[name], rel=1e-3, abs=1e-4)
    # Adam divides by the gradient's size, so a weight whose gradient is nearly 0 may move differently.
    difference = (on_gpu.flat - on_cpu.flat).abs()
    assert float(difference.median()) < 1e-5


@pytest.mark.parametrize(("precision", "tolerance"), PRECISIONS)
def test_the_loss_on_a_device_equals_the_loss_on_the_cpu(device, precision, tolerance):
    require(device, precision)
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
    other = ActorCritic(model.spec, device)
    with torch.no_grad():
        other.flat.copy_(model.flat)
    actual = toy_stepper(other, precision=precision).loss(
        samples.map(lambda column: column.to(device)), weights.to(device)
    )
    names = ("total", "policy_loss", "value_loss", "entropy")
    figures = ({"total": loss.total, **loss.terms._asdict()} for loss in (actual, expected))
    for a, e in zip(*([float(each[name].detach()) for name in names] for each in figures), strict=True):
        assert a == pytest.approx(e, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("card", ["fake", CARD])
def test_the_plan_of_this_gpu(card, monkeypatch):
    if card == "fake":
        install(monkeypatch, [of_catalogue(find_card("H200"))])
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


def random_rollout(n, device):
    """Return n samples of 32 observations and 8 actions."""
    torch.manual_seed(0)
    return Samples(
        observations=torch.randn(n, 32, device=device),
        actions=torch.zeros(n, dtype=torch.int64, device=device),
        log_probs=torch.full((n,), -2.0, device=device),
        masks=torch.ones(n, 8, dtype=torch.bool, device=device),
        features=torch.zeros(n, 8, 0, device=device),
        advantages=torch.randn(n, device=device),
        returns=torch.randn(n, device=device),
        values=torch.randn(n, device=device),
    )


def test_a_batch_that_is_planned_for_fits_and_its_prediction_holds(device):
    """65,536 samples of a mid-sized network on a card: the real peak is within what the plan reserves."""
    actor, critic = (32, 128, 128, 128, 8), (32, 256, 256, 256, 1)
    n = 65_536 if device == "cuda" else 8192
    for precision in ("fp32", "bf16"):
        model = ActorCritic(mlp_spec(actor, critic, "relu"), device)
        rollout = random_rollout(n, device)
        stepper = toy_stepper(model, precision=precision, microbatch=n)
        indices, weights = torch.arange(n, device=device), torch.full((n,), 1 / n, device=device)
        stepper.step(rollout, indices, weights)
        real = peak_of(device, partial(stepper.step, rollout, indices, weights))
        assert real * SAFETY <= n * bytes_of_a_sample(mlp_spec(actor, critic), precision != "fp32") * 1.05


def spread_model(device):
    """Return a mid-sized model whose weights are all alike in size."""
    model = ActorCritic(mlp_spec((32, 128, 128, 128, 8), (32, 256, 256, 256, 1), "relu"), device)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.05)
    return model


def new_stepper(model, **changes):
    """Return a stepper whose FP16 scale needs no search."""
    stepper = toy_stepper(model, **changes)
    stepper.scaler = torch.amp.GradScaler(model.flat.device.type, init_scale=256.0, enabled=stepper.scaler.is_enabled())
    return stepper


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_device_that_really_runs_out_of_memory_goes_on_and_learns_the_same(device, precision):
    """Two fifths of what the whole minibatch needs: a half does not fit, a quarter does."""
    require(device, precision)
    n = 65_536 if device == "cuda" else 1024
    whole, pieces = spread_model(device), spread_model(device)
    with torch.no_grad():
        pieces.flat.copy_(whole.flat)
    rollout = random_rollout(n, device)
    indices, weights = torch.arange(n, device=device), torch.full((n,), 1 / n, device=device)
    changes = {"precision": precision, "max_grad_norm": 1e9}
    unlimited, before = new_stepper(whole, microbatch=n, **changes), _emptied(device)
    unlimited.step(rollout, indices, weights)
    needed = torch.cuda.max_memory_reserved() - before if device == "cuda" else 0
    _emptied(device)
    limited = new_stepper(pieces, microbatch=n, **changes)
    with room_for(device, limited, 0.4 * needed, rows=n // 4):
        report = limited.step(rollout, indices, weights)
        wait(device)
    events = limited.memory.take_events()
    assert events
    assert all(event.phase == "gradients" and event.bytes_asked > 2**20 for event in events)
    assert events[0].microbatch_before == n
    assert limited.memory.microbatch == events[-1].microbatch_after == n >> len(events) < n
    assert float(columns_of(limited, report)["skipped"]) == 0.0
    found, expected = limited.optimizer.gradient, unlimited.optimizer.gradient
    relative = (found - expected).norm() / expected.norm()
    assert float(relative) < (1e-4 if precision == "fp32" else 2e-2)


def _emptied(device):
    """Give back what torch keeps, count its peak anew, and return the bytes that it holds."""
    wait(device)
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    return reserved(device)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_step_that_is_not_finite_changes_no_bit_and_the_host_never_waits(device, precision):
    require(device, precision)
    n, model = 4096, spread_model(device)
    rollout = random_rollout(n, device)
    indices, weights = torch.arange(n, device=device), torch.full((n,), 1 / n, device=device)
    stepper = new_stepper(model, precision=precision, microbatch=1024)
    assert float(columns_of(stepper, stepper.step(rollout, indices, weights))["skipped"]) == 0.0
    before = [model.flat.clone(), *(t.clone() for t in stepper.optimizer_tensors().values())]
    rollout.advantages[7] = torch.inf
    with no_waiting(device):
        report = stepper.step(rollout, indices, weights)
    assert float(columns_of(stepper, report)["skipped"]) == 1.0
    for old, new in zip(before, [model.flat, *stepper.optimizer_tensors().values()], strict=True):
        assert torch.equal(old, new)
    rollout.advantages[7] = 0.0
    stepper.step(rollout, indices, weights)
    assert not torch.equal(before[0], model.flat)


def test_trajectories_lie_in_pinned_memory_for_a_card(device):
    array = host_allocator(pinned=device == "cuda")((16, 3), np.dtype(np.float32))
    assert torch.from_numpy(array).is_pinned() == (device == "cuda")


@pytest.mark.parametrize("card", [CARD])
def test_the_kernels_of_a_step_compute_what_torch_does(card):
    """On the CPU tests/learning/steps/test_loss_slopes.py runs them in Triton's interpreter."""
    kernels, problem = kernels_on(torch.device(card))
    assert problem == ""
    assert kernels.figures.__module__.endswith("triton_choice")
    assert kernels.gather.__module__.endswith("triton_gather")
    assert kernels.adam.__module__.endswith("triton_adam")
