"""Plans for machines that are not here, and the lines that announce them."""

import json
import sys

import pytest

from core.errors import UserError
from core.hardware.machine import Gpu, Machine, detect_machine
from core.hardware.plan import make_plan
from core.training.notices import batch_line, memory_lines, precision_lines, update_line

H200 = Gpu("NVIDIA H200", (9, 0), 150_000_000_000, 148_500_000_000)
T4 = Gpu("Tesla T4", (7, 5), 16_000_000_000, 15_000_000_000)
OLD = Gpu("Tesla P40", (6, 1), 24_000_000_000, 23_000_000_000)
NOTE = "torch finds no usable NVIDIA GPU or driver"


def machine(gpu=None, cores=8):
    return Machine(cores, 64_000_000_000, 48_000_000_000, gpu, "" if gpu else NOTE)


def plan(here, **changes):
    values = {
        "device": "auto",
        "mixed_precision": True,
        "tf32": True,
        "auto_batch": True,
        "largest_batch": 65_536,
        "samples": 62_000,
        "bytes_per_sample": {False: 8000, True: 4000},
        "episodes_per_update": 1,
        "simulation_threads": 0,
        "update_threads": 0,
    }
    return make_plan(here, **{**values, **changes})


def test_an_h200():
    p = plan(machine(H200))
    assert (p.device, p.precision, p.tf32, p.cudnn_benchmark) == ("cuda", "bf16", True, True)
    assert p.batch_size == p.microbatch == 32_768
    assert precision_lines(p, (9, 0)) == [
        "Mixed Precision: BF16 enabled (Compute 9.0)",
        "H200 optimizations enabled (TF32: True)",
    ]
    assert batch_line(p).startswith("Auto-adjusted batch size: 32768")


def test_a_t4_has_fp16_and_no_tf32():
    p = plan(machine(T4))
    assert (p.device, p.precision, p.tf32) == ("cuda", "fp16", False)
    assert precision_lines(p, (7, 5)) == [
        "Mixed Precision: FP16 enabled (Compute 7.5)",
        "Tesla T4 optimizations enabled (TF32: False)",
    ]


@pytest.mark.parametrize(
    ("gpu", "mixed", "reason"),
    [(OLD, True, "compute capability 6.1"), (H200, False, "USE_MIXED_PRECISION is off")],
)
def test_fp32_says_why(gpu, mixed, reason):
    p = plan(machine(gpu), mixed_precision=mixed)
    assert p.precision == "fp32"
    assert precision_lines(p, gpu.capability)[0] == f"Mixed Precision: off, FP32 ({reason})"


def test_no_gpu_is_normal():
    p = plan(machine())
    assert (p.device, p.precision, p.tf32, p.cudnn_benchmark, p.device_name) == ("cpu", "fp32", False, False, "CPU")
    assert p.batch_size == 32_768
    assert p.microbatch <= 4096, "a CPU works in pieces that its caches hold"
    (line,) = precision_lines(p, None)
    assert line.startswith(f"No GPU ({NOTE}): updates run on the CPU in FP32 on 8 threads")


def test_a_gpu_that_is_not_wanted():
    p = plan(machine(H200), device="cpu")
    assert (p.device, p.precision) == ("cpu", "fp32")
    assert p.reasons["device"] == "DEVICE is cpu"


def test_a_gpu_that_is_demanded_and_not_there():
    with pytest.raises(UserError, match=f"DEVICE is cuda, but {NOTE}; set DEVICE to auto or cpu"):
        plan(machine(), device="cuda")


def test_little_memory_makes_small_batches_and_half_precision_larger_ones():
    """0.7 * 10^8 = 7 * 10^7 bytes: 8750 samples of 8000 bytes, 17,500 of 4000."""
    tight = Gpu("NVIDIA H200", (9, 0), 10**9, 10**8)
    assert plan(machine(tight), mixed_precision=False).batch_size == 8192
    assert plan(machine(tight)).batch_size == 16_384


def test_a_batch_size_of_the_users_own():
    p = plan(machine(), auto_batch=False, largest_batch=5000)
    assert p.batch_size == 5000
    assert p.reasons["batch_size"] == "AUTO_BATCH_SIZE is off"


def test_threads():
    assert plan(machine(cores=8), episodes_per_update=4).simulation_threads == 4
    assert plan(machine(cores=2), episodes_per_update=4).simulation_threads == 2
    p = plan(machine(cores=8), episodes_per_update=16, simulation_threads=3, update_threads=5)
    assert (p.simulation_threads, p.update_threads) == (3, 5)
    assert plan(machine(cores=8)).update_threads == 8


def test_every_choice_has_a_reason_and_the_plan_is_json():
    p = plan(machine(H200))
    assert {"device", "precision", "batch_size"} <= set(p.reasons)
    assert json.loads(json.dumps(p.as_json())) == p.as_json()
    assert p.as_json()["batch_size"] == 32_768


def test_the_block_about_memory():
    """1.5 of 150 decimal GB are taken: 1.0 %."""
    assert memory_lines(H200.name, H200.total_bytes, H200.free_bytes) == [
        "GPU Utilization (NVIDIA H200):",
        "   Total Memory: 150.00 GB",
        "   Allocated:    1.50 GB (1.0%)",
        "   Free:         148.50 GB (99.0%)",
    ]


def test_the_line_after_an_update():
    assert update_line(1.2345) == "Policy update complete - Total time: 1.23s"


def test_this_machine_can_be_asked():
    here = detect_machine()
    assert here.physical_cores >= 1
    assert 0 < here.free_bytes <= here.total_bytes
    assert (here.gpu is None) == bool(here.gpu_note)


def test_planning_does_not_ask_the_machine(monkeypatch):
    """A plan is a pure function: it works where asking would fail."""
    for module in ("psutil", "pynvml"):
        monkeypatch.setitem(sys.modules, module, None)
    assert plan(machine(H200)) == plan(machine(H200))
