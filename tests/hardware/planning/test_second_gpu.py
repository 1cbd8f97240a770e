"""What a second GPU is predicted to bring, by hand-computed figures."""

import pytest

from longstride.hardware.planning.gpu_catalog import find_card
from longstride.hardware.planning.second_gpu import SecondGpu, format_second_gpu, second_gpu

H200 = find_card("H200")


def test_what_is_shared_is_saved():
    second = second_gpu(0.09, 0.065, 100, 0, H200)
    assert second.update == 0.09
    assert second.saved == pytest.approx(0.025)


def test_each_step_exchanges_all_gradients():
    """100 steps with 10 million gradients of 4 bytes at 40 GB/s, 1 ms each, and 20 microseconds of latency."""
    second = second_gpu(1.0, 0.5, 100, 10_000_000, H200)
    assert second.exchange == pytest.approx(100 * (0.001 + 20e-6))
    assert second.is_worth_it
    assert not second_gpu(0.2, 0.1, 100, 10_000_000, H200).is_worth_it  # saves 100 ms, takes 102
    assert not second_gpu(1.0, 1.0, 100, 10, H200).is_worth_it


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
