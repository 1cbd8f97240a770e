"""Times that follow from the work of an update."""

from dataclasses import replace

import pytest

from longstride.hardware.operations import Need
from longstride.hardware.planning.gpu_catalog import find_card
from longstride.hardware.planning.roofline import (
    BUS_BYTES_PER_SECOND,
    LAUNCH_SECONDS,
    REPLAY_SECONDS,
    binding,
    card_seconds,
    seconds,
    update_seconds,
)
from longstride.hardware.planning.work import Work

NEEDS = [(10, Need(flops=1e11, traffic=1e8)), (10, Need(wide_flops=1e10)), (180, Need(traffic=5e7)), (1800, Need())]
WORK = Work(NEEDS, launches=2000, steps=10, transfers=10**9)


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


def test_the_times_of_operations_add_up_on_the_card():
    """An A40: products bound by arithmetic, copies by traffic, the rest by the shortest time of an operation."""
    a40 = find_card("A40")
    card = 10 * 1e11 / 149.7e12 + 10 * 1e10 / 74.8e12 + 180 * 5e7 / 696e9 + 1800 * REPLAY_SECONDS
    assert card_seconds(WORK.operations, a40, "bf16", True) == pytest.approx(card)
    assert card < 2000 * LAUNCH_SECONDS, "an eager step waits for the host, which launches ahead of the card"
    assert seconds(WORK, a40, "bf16", True)["operations"] == pytest.approx(2000 * LAUNCH_SECONDS)
    captured = seconds(replace(WORK, launches=10, replayed=2000), a40, "bf16", True)
    assert captured["operations"] == pytest.approx(card)


def test_two_cards_have_as_many_operations_on_half_the_samples():
    half, a40 = WORK.shared(2), find_card("A40")
    assert (half.launches, half.traffic, half.transfers) == (2000, WORK.traffic / 2, 10**9 / 2)
    card = 5 * 1e11 / 149.7e12 + 5 * 1e10 / 74.8e12 + 90 * 5e7 / 696e9 + 1800 * REPLAY_SECONDS
    assert card_seconds(half.operations, a40, "bf16", True) == pytest.approx(card)


def test_the_largest_binds_and_transfers_are_added():
    times = {"arithmetic": 1.0, "traffic": 3.0, "launches": 2.0, "transfers": 5.0, "operations": 4.0}
    assert binding(times) == "traffic"
    assert update_seconds(times) == 9.0
