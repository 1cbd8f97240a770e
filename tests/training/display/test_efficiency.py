"""Achieved rates against figures worked out by hand."""

import pytest

from longstride.hardware.operations import Need
from longstride.hardware.planning.gpu_catalog import CARDS, MODEL_FLOPS_UTILISATION, find_card
from longstride.hardware.planning.work import Work
from longstride.training.display.utilization import achieved, rate_mfu

NEED = Need(flops=149_700e9, wide_flops=37_400e9, traffic=348e9)
WORK = Work([(1, NEED)], launches=1, steps=1, transfers=0)
"""On an A40: a second of BF16, a second of FP32 (half a second of TF32), half a second of traffic."""


def test_rates_and_shares_by_hand():
    a40 = find_card("A40")
    found = achieved(WORK, 10.0, a40, "bf16", tf32=False)
    assert found.update_flops_per_second == pytest.approx(18.71e12)
    assert found.update_bytes_per_second == pytest.approx(34.8e9)
    assert found.mfu == pytest.approx(0.2)
    assert found.bandwidth_share == pytest.approx(0.05)
    assert achieved(WORK, 10.0, a40, "bf16", tf32=True).mfu == pytest.approx(0.15)


@pytest.mark.parametrize(("mfu", "word"), [(0.199, "below good"), (0.2, "good"), (0.299, "good"), (0.3, "excellent")])
def test_the_marks_of_an_a40(mfu, word):
    assert rate_mfu(find_card("A40"), mfu).startswith(word + ":")
    assert "20-25 % is good, 30-35 % excellent" in rate_mfu(find_card("A40"), mfu)


def test_only_cards_with_marks_have_one():
    assert [card.name for card in CARDS if rate_mfu(card, 0.5)] == [
        card.name for card in CARDS if card.name in MODEL_FLOPS_UTILISATION
    ]
    assert rate_mfu(find_card("T4"), 0.5) == ""
