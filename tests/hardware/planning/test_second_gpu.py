"""What a second GPU is predicted to bring, by hand-computed figures."""

import pytest

from longstride.hardware.planning.gpu_catalog import find_card
from longstride.hardware.planning.second_gpu import SecondGpu, format_second_gpu, second_gpu
from longstride.hardware.planning.work import Work

H200 = find_card("H200")
WORK = Work(flops=0, wide_flops=0, traffic=0, launches=0, steps=100, transfers=0)


def seconds(**changes):
    return {"arithmetic": 0.0, "traffic": 0.0, "launches": 0.0, "transfers": 0.0, **changes}


def test_half_of_all_but_the_launches_is_saved():
    """Of 80 ms of arithmetic and 10 ms over the bus half; launches of 60 ms stay and bind then."""
    second = second_gpu(seconds(arithmetic=0.08, launches=0.06, transfers=0.01), WORK, 0, H200)
    assert second.update == pytest.approx(0.09)
    assert second.saved == pytest.approx(0.09 - (0.06 + 0.005))


def test_each_step_exchanges_all_gradients():
    """100 steps with 10 million gradients of 4 bytes at 40 GB/s, 1 ms each, and 20 microseconds of latency."""
    second = second_gpu(seconds(arithmetic=1.0), WORK, 10_000_000, H200)
    assert second.exchange == pytest.approx(100 * (0.001 + 20e-6))
    assert second.is_worth_it
    assert not second_gpu(seconds(arithmetic=0.2), WORK, 10_000_000, H200).is_worth_it  # saves 100 ms, takes 102
    assert not second_gpu(seconds(launches=1.0), WORK, 10, H200).is_worth_it


@pytest.mark.parametrize(
    ("saved", "exchange", "instances", "sentence"),
    [
        (0.5, 0.1, 1, "A second GPU brings nothing: one environment instance cannot be shared."),
        (
            0.1,
            0.2,
            8,
            "A second GPU brings nothing: it saves at most 100 ms of the update, and adding up gradients takes ",
        ),
        (
            0.5,
            0.1,
            8,
            "A second GPU may pay: it saves at most 500 ms of the update, and adding up gradients takes about ",
        ),
    ],
)
def test_the_verdict_in_words(saved, exchange, instances, sentence):
    assert format_second_gpu(SecondGpu(1.0, saved, exchange), instances).startswith(sentence)
