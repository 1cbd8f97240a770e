"""What a run's records and last lines say of the machine."""

import io

import pytest
from helpers.devices import DEVICES
from helpers.fake_gpus import install, of_catalogue
from helpers.toy_runs import toy_model
from rich.console import Console

pytest.importorskip("pydantic")

from longstride.config import Config
from longstride.hardware.detect import detect_machine
from longstride.hardware.gpu_sampler import GpuSampler
from longstride.hardware.planning.gpu_catalog import find_card
from longstride.learning.step_costs.work import update_flops, update_work
from longstride.settings import Settings
from longstride.training.assembly.run import build_run
from longstride.training.display import utilization
from longstride.training.display.utilization import UtilizationTracker, phase_line
from longstride.training.run_directory.metrics_log import MetricsLog, read_metrics

RECORD = {
    "precision": "bf16",
    "update_seconds": 2e-5,
    "simulation_seconds": 0.5,
    "steps": 4096,
    "batch_size": 1024,
    "epochs": 3,
}


def total(work):
    return work.flops + work.wide_flops


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(MetricsLog, "_open_board", lambda *_: None)
    config = {"simulator": "oracles.toy_simulators:Shop", "training_episodes": 2, "num_envs": 2}
    sizes = {"actor_hidden_size": 8, "critic_hidden_size": 8, "num_hidden_layers": 1, "num_epochs": 2}
    settings = Settings(Config(**config, **sizes, device="cpu", run_directory=str(tmp_path)))
    built = build_run(settings, False, lambda _: None, verbose=True)
    text = io.StringIO()
    built.train(Console(file=text), lambda: False)
    return built, read_metrics(tmp_path), text.getvalue()


def test_a_run_on_the_cpu_knows_its_arithmetic_and_no_more(run):
    built, records, text = run
    model = built.trainer.model
    shape = model.spec
    work = []
    for record in records:
        work.append(update_flops(shape, False, record["steps"], 2))
        assert record["update_flops_per_second"] == pytest.approx(work[-1] / record["update_seconds"])
        assert [record[name] for name in ("update_bytes_per_second", "mfu", "bandwidth_share", "gpu")] == [None] * 4
    rate = sum(work) / sum(record["update_seconds"] for record in records)
    assert f"\nUpdates: {rate / 1e9:,.1f} GFLOP/s.\n" in text
    decisions = sum(record["steps"] for record in records) / sum(record["simulation_seconds"] for record in records)
    assert f"\nSimulation: {decisions:,.0f} steps/s, " in text.replace("\r", "")
    assert "GPU Utilization" not in text


def test_a_round_on_a_card(monkeypatch):
    fake = of_catalogue(find_card("A40"), busy=81, watts=190.0, mhz=1740)
    install(monkeypatch, [fake])
    model, card = toy_model("shop"), find_card("A40")
    with GpuSampler(detect_machine().gpu, 3600.0) as monitor:
        tracker = UtilizationTracker(monitor, card)
        assert tracker.efficiency_line() == tracker.simulation_line() == ""
        tracker.sampler.phase("simulating")
        fake.busy, fake.reasons = 3, 0x4
        tracker.sampler.phase("updating")
        first = tracker.figures(RECORD, model.spec, 512)
        second = tracker.figures({**RECORD, "update_seconds": 6e-5}, model.spec, 512)
    assert list(first["gpu"]) == ["simulating", "updating"]
    assert second["gpu"] == {}
    shape = model.spec
    work = update_work(shape, True, 4096, 1024, 512, 3)
    arithmetic = work.flops / 149.7e12 + work.wide_flops / 37.4e12
    assert first["mfu"] == pytest.approx(arithmetic / 2e-5)
    assert second["bandwidth_share"] == pytest.approx(work.traffic / 696e9 / 6e-5)
    # Over both: twice the work in eighty microseconds.
    assert arithmetic > 1e-7, "the percentage has digits that tell"
    assert f"MFU {100 * 2 * arithmetic / 8e-5:.1f} % of the A40's peak (below good:" in tracker.efficiency_line()
    assert f" {2 * work.traffic / 8e-5 / 1e9:,.2f} GB/s of memory traffic" in tracker.efficiency_line()
    # Twice 4,096 steps in a second; 4 bytes for each of the actor's parameters, of a core that moves 1 MB/s.
    monkeypatch.setattr(utilization, "measure_cache_bandwidth", lambda: 1e6)
    size = 4 * model.spec.actor_parameters
    assert tracker.simulation_line() == (
        f"Simulation: 8,192 steps/s, 8,192 a thread; at {size / 1e3:.1f} kB of parameters each (less with relu) "
        f"{100 * 8192 * size / 1e6:.0f} % of the 0.00 GB/s that a core moves in its caches now."
    )
    assert tracker.phase_lines()[0] == (
        "   Simulating:   3% busy, 190 W, 1,740 MHz, at most 0.00 GB, slowed 100% of the time (power cap)"
    )


def test_each_rank_has_threads_that_play(monkeypatch):
    monkeypatch.setattr(utilization, "measure_cache_bandwidth", lambda: 1e6)
    tracker = UtilizationTracker(ranks=2)
    tracker.play_with(4)
    tracker.figures({**RECORD, "precision": "fp32"}, toy_model("shop").spec, 512)
    assert tracker.simulation_line().startswith("Simulation: 8,192 steps/s, 1,024 a thread; ")


def test_a_phase_of_which_nvml_says_nothing():
    names = ("utilisation", "power_watts", "sm_mhz", "throttled", "memory_bytes")
    summary = {**dict.fromkeys(names), "samples": 1, "reasons": []}
    assert phase_line("updating", summary) == "   Updating:     NVML says nothing of this device"


@pytest.mark.parametrize("device", DEVICES)
def test_no_update_on_a_real_card_beats_its_peaks(device, tmp_path, monkeypatch):
    """On a CPU, whose peaks are not known, there is work alone."""
    monkeypatch.setattr(MetricsLog, "_open_board", lambda *_: None)
    sizes = {"actor_hidden_size": 16, "critic_hidden_size": 16, "num_hidden_layers": 1, "rollout_steps": 32}
    small = {} if device == "cuda" else {"simulator": "oracles.toy_simulators:Shop", **sizes}
    config = Config(training_episodes=3, num_envs=2, device=device, run_directory=str(tmp_path), **small)
    build_run(Settings(config), False, lambda _: None).train(Console(file=io.StringIO()), lambda: False)
    for record in read_metrics(tmp_path):
        assert record["update_flops_per_second"] > 0
        assert set(record["gpu"] or {}) == ({"simulating", "updating"} if device == "cuda" else set())
        if record["mfu"] is not None:
            assert 0.0 < record["mfu"] < 1.0
