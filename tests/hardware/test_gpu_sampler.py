"""The monitor of a GPU: what it samples, by phase, and that nothing runs without one."""

import threading
import time

import pytest
import torch
from helpers.devices import DEVICES, wait
from helpers.fake_gpus import install, of_catalogue

from longstride.hardware import gpu_sampler
from longstride.hardware.detect import detect_machine
from longstride.hardware.gpu_sampler import GpuSampler, take_sample
from longstride.hardware.nvml import nvml
from longstride.hardware.planning.gpu_catalog import find_card

REAL = pytest.importorskip("pynvml")
NEVER = 3600.0
"""Seconds: with this interval only the ends of phases are sampled."""


@pytest.fixture
def card(monkeypatch):
    found = of_catalogue(find_card("A40"), free=40 * 10**9)
    install(monkeypatch, [of_catalogue(find_card("T4"), busy=99), found], order=[1, 0])
    return found


def monitor_here(interval=NEVER):
    return GpuSampler(detect_machine().gpu, interval)


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "gpu-monitor"]


def test_each_phase_has_its_own_means_of_the_card_that_torch_uses(card):
    with monitor_here() as monitor:
        for busy, watts, name in ((10, 70.0, "updating"), (0, 60.0, "simulating"), (80, 200.0, "updating")):
            monitor.phase(name)
            monitor.run_summary()  # waits for the sample of the phase before
            card.busy, card.watts = busy, watts
        card.reasons = 0x4 | 0x1  # a power cap; idling is no reason
        first = monitor.take_iteration()
        monitor.phase("simulating")
        second = monitor.take_iteration()
    assert first == {
        "updating": {
            "samples": 2,
            "utilisation": 45.0,
            "power_watts": 135.0,
            "sm_mhz": 1410.0,
            "throttled": 50.0,
            "memory_bytes": 8 * 10**9,
            "reasons": ["power cap"],
        },
        "simulating": {**dict.fromkeys(["utilisation", "throttled"], 0.0), "samples": 1, "power_watts": 60.0}
        | {"sm_mhz": 1410.0, "memory_bytes": 8 * 10**9, "reasons": []},
    }
    assert list(second) == ["simulating"]
    assert second["simulating"]["utilisation"] == 80.0
    assert monitor.run_summary()["simulating"]["utilisation"] == 40.0


def test_the_background_samples_and_ends(card):
    card.busy = 33
    with monitor_here(0.001) as monitor:
        monitor.phase("updating")
        deadline = time.monotonic() + 30
        while card.asked < 5 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert len(threads()) == 1
    assert threads() == []
    asked = card.asked
    summary = monitor.take_iteration()["updating"]
    assert summary["samples"] == asked + 1 > 5
    assert summary["utilisation"] == 33.0


def test_a_run_waits_for_a_slow_nvml_only_where_it_reads(card, monkeypatch):
    """A phase ends although NVML does not answer yet; its sample is in the summary all the same."""
    answers = threading.Event()

    def slow(*arguments):
        assert answers.wait(60)
        return take_sample(*arguments)

    monkeypatch.setattr(gpu_sampler, "take_sample", slow)
    with monitor_here() as monitor:
        monitor.phase("simulating")
        monitor.phase("updating")
        monitor.phase(None)
        assert card.asked == 0
        threading.Timer(0.05, answers.set).start()
        summary = monitor.take_iteration()
    assert {name: each["samples"] for name, each in summary.items()} == {"simulating": 1, "updating": 1}


def test_nothing_is_sampled_between_rounds(card):
    with monitor_here() as monitor:
        assert monitor.take_iteration() == {}
        monitor.phase("simulating")
        monitor.take_iteration()
        asked = card.asked
        assert monitor.take_iteration() == {}
    assert card.asked == asked == 1


def test_the_reasons_are_those_of_the_library(card):
    """The names and bits of nvidia-ml-py; idling and clocks that somebody chose are no slowdown."""
    names = {
        "SwPowerCap": ("power cap",),
        "HwSlowdown": ("hardware slowdown",),
        "SwThermalSlowdown": ("heat (software)",),
        "HwThermalSlowdown": ("heat (hardware)",),
        "HwPowerBrakeSlowdown": ("power brake",),
    }
    for name in (*names, "GpuIdle", "ApplicationsClocksSetting", "SyncBoost", "DisplayClockSetting"):
        card.reasons = getattr(REAL, f"nvmlClocksThrottleReason{name}")
        assert take_sample(nvml(), card).throttled == names.get(name, ()), name


def test_what_a_slice_does_not_say_is_none(card):
    card.busy = card.watts = card.mhz = card.reasons = None
    with monitor_here() as monitor:
        monitor.phase("updating")
        summary = monitor.take_iteration()["updating"]
    assert {name for name, value in summary.items() if value is None} == {
        "utilisation",
        "power_watts",
        "sm_mhz",
        "throttled",
    }


@pytest.mark.parametrize("missing", ["gpu", "driver", "package", "uuid"])
def test_without_a_gpu_nvml_or_uuid_nothing_runs(monkeypatch, missing):
    card = of_catalogue(find_card("A40"))
    gpu = detect_gpu(monkeypatch, card) if missing != "gpu" else None
    install(monkeypatch, [card], driver=missing != "driver", package=missing != "package")
    if missing == "uuid":
        card.uuid = "another"
    with GpuSampler(gpu) as monitor:
        assert threads() == []
        monitor.phase("updating")
        assert monitor.take_iteration() is None
    assert monitor.run_summary() == {}
    assert card.asked == 0


def detect_gpu(monkeypatch, card):
    install(monkeypatch, [card])
    return detect_machine().gpu


@pytest.mark.parametrize("device", DEVICES)
def test_a_real_card_is_seen_to_work(device, monkeypatch):
    """And one that is not there, while the CPU computes."""
    size, seconds = (4096, 3.0) if device == "cuda" else (64, 0.3)
    if device == "cpu":
        install(monkeypatch, [of_catalogue(find_card("A40"), busy=60, free=40 * 10**9)])
    gpu = detect_machine().gpu
    if gpu is None or gpu.mig:
        pytest.skip("NVML tells little of a slice")
    a = torch.randn(size, size, device=device)
    with GpuSampler(gpu) as monitor:
        monitor.phase("updating")
        begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            a = torch.nn.functional.normalize(a @ a)
            wait(device)
        summary = monitor.take_iteration()["updating"]
    assert summary["utilisation"] > 20.0
    assert 0 < summary["memory_bytes"] <= gpu.total_bytes
