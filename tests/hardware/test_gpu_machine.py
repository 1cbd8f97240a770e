"""A real card, and one that is not there: a machine is what torch and NVML say; the allocator takes its setting."""

import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers.devices import CARD
from helpers.fake_gpus import install, of_catalogue

import longstride
from longstride.hardware.detect import detect_machine, free_and_total_bytes
from longstride.hardware.planning.gpu_catalog import card_of, find_card, tier_of
from longstride.hardware.planning.plan import make_plan
from longstride.hardware.types import PlanSettings

SETTINGS = PlanSettings(
    device="auto",
    precision="auto",
    mixed_precision=True,
    tf32=True,
    auto_batch=True,
    largest_batch=8192,
    samples=62_000,
    bytes_per_sample={False: 8000, True: 4000},
    widest_layer=256,
    parallel_episodes=6,
    parallel_reason="NUM_ENVS is 6",
    simulation_threads=0,
    update_threads=0,
)


@pytest.fixture(params=["fake", CARD])
def card(request, monkeypatch):
    """Return a card that is not there, or None for the real one."""
    if request.param == "cuda":
        return None
    found = of_catalogue(find_card("H200"))
    install(monkeypatch, [found])
    return found


@contextmanager
def taken(card, size):
    """Take so many bytes of a card."""
    if card is not None:
        card.free -= size
        yield
        card.free += size
        return
    memory = torch.empty(size, dtype=torch.uint8, device="cuda")
    yield
    del memory
    torch.cuda.empty_cache()


def note_without_cards(card, monkeypatch):
    """Return why a machine has no GPU if CUDA_VISIBLE_DEVICES names none: a real one in a process of its own."""
    if card is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        return detect_machine().gpu_note
    code = "from longstride.hardware.detect import detect_machine as d; print(d().gpu_note)"
    source = Path(longstride.__file__).parents[1]
    path = os.pathsep.join(filter(None, (str(source), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    return done.stdout + done.stderr


def test_every_gpu_that_torch_sees_is_found_with_torchs_figures(card):
    machine = detect_machine()
    assert len(machine.gpus) == torch.cuda.device_count()
    for i, gpu in enumerate(machine.gpus[:1]):
        free, total = torch.cuda.mem_get_info(i)
        assert gpu.name == torch.cuda.get_device_name(i)
        assert gpu.capability == torch.cuda.get_device_capability(i)
        assert 0 < gpu.total_bytes <= total
        assert abs(gpu.free_bytes - free) < 2 * 2**30, "the contexts of two looks, and what others do between them"
        assert gpu.uuid


def test_nvml_finds_the_same_card_by_its_uuid(card):
    pynvml = pytest.importorskip("pynvml")
    machine = detect_machine()
    if not machine.driver:
        pytest.skip("NVML does not answer here")
    assert machine.driver == pynvml.nvmlSystemGetDriverVersion()
    listed = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    by_uuid = {pynvml.nvmlDeviceGetUUID(handle): handle for handle in listed}
    for gpu in machine.gpus:
        if gpu.mig:  # CUDA may give a slice the UUID of its card or one of its own, which this list has not
            continue
        handle = by_uuid[f"GPU-{gpu.uuid}"]
        assert pynvml.nvmlDeviceGetName(handle) == gpu.name
        assert gpu.total_bytes <= pynvml.nvmlDeviceGetMemoryInfo(handle).total


def test_memory_that_is_taken_is_no_longer_free(card):
    if card is None:
        torch.cuda.empty_cache()  # blocks kept from other tests would be given out again
    before, total = free_and_total_bytes()
    with taken(card, 2**30):
        after, _ = free_and_total_bytes()
        assert 0.9 * 2**30 <= before - after <= 1.5 * 2**30
        assert after < before <= total


def test_this_card_has_the_tier_and_the_formats_of_its_capability(card):
    machine = detect_machine()
    plan = make_plan(machine, SETTINGS)
    assert plan.device == "cuda"
    assert plan.tier == tier_of(machine.gpu)
    assert plan.tf32 == (torch.cuda.get_device_capability() >= (8, 0))
    assert (plan.precision == "bf16") == torch.cuda.is_bf16_supported(including_emulation=False)
    known = card_of(machine.gpu)
    assert known is None or known.capability == machine.gpu.capability


def test_cuda_visible_devices_hides_the_card(card, monkeypatch):
    note = note_without_cards(card, monkeypatch)
    assert "CUDA_VISIBLE_DEVICES is ''" in note or "finds no usable" in note


@pytest.mark.parametrize("card", [CARD], indirect=True)  # only a card has the allocator
def test_expandable_segments_are_taken_or_refused_without_harm(card):
    from longstride.learning.torch_settings import apply_allocator

    torch.cuda.empty_cache()
    taken = apply_allocator("expandable_segments:True")
    x = torch.ones(2**20, device="cuda")
    assert float(x.sum()) == 2**20
    if taken:
        segments = torch.cuda.memory_snapshot()
        assert any(s["is_expandable"] for s in segments), segments
    apply_allocator("expandable_segments:False")


def test_a_card_with_no_room_is_refused_where_it_is_demanded(card):
    machine = detect_machine()
    full = replace(machine, gpus=(replace(machine.gpu, free_bytes=0),))
    assert make_plan(full, SETTINGS).device == "cpu"
