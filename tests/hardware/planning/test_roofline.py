"""Times that follow from the work of an update."""

from dataclasses import replace

import pytest

from longstride.hardware.planning.gpu_catalog import find_card
from longstride.hardware.planning.roofline import (
    BUS_BYTES_PER_SECOND,
    LAUNCH_SECONDS,
    REPLAY_SECONDS,
    binding,
    seconds,
    update_seconds,
)
from longstride.hardware.planning.work import Work

WORK = Work(flops=10**12, wide_flops=10**11, traffic=10**10, launches=2000, steps=10, transfers=10**9)


def test_times_by_hand():
    """An A40: 149.7 TFLOP/s in BF16, 74.8 in TF32, 37.4 in FP32, 696 GB/s. A T4 has no BF16 and no TF32."""
    a40, t4 = find_card("A40"), find_card("T4")
    times = seconds(WORK, a40, "bf16", True)
    assert times["arithmetic"] == pytest.approx(1 / 149.7 + 0.1 / 74.8)
    assert times["traffic"] == pytest.approx(10 / 696)
    assert times["launches"] == pytest.approx(2000 * LAUNCH_SECONDS)
    assert times["transfers"] == pytest.approx(1e9 / BUS_BYTES_PER_SECOND)
    replayed = seconds(replace(WORK, replayed=10**5), a40, "bf16", True)
    assert replayed["launches"] == pytest.approx(2000 * LAUNCH_SECONDS + 10**5 * REPLAY_SECONDS)
    assert seconds(WORK, a40, "fp32", False)["arithmetic"] == pytest.approx(1.1 / 37.4)
    assert seconds(WORK, a40, "fp32", True)["arithmetic"] == pytest.approx(1.1 / 74.8)
    assert seconds(WORK, t4, "fp16", True)["arithmetic"] == pytest.approx(1 / 65 + 0.1 / 8.1)


def test_the_largest_binds_and_transfers_are_added():
    times = {"arithmetic": 1.0, "traffic": 3.0, "launches": 2.0, "transfers": 5.0}
    assert binding(times) == "traffic"
    assert update_seconds(times) == 8.0
