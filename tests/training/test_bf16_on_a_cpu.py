"""Runs whose updates compute in BF16 on the CPU, which any torch can do; whether it pays, benchmarks say."""

from dataclasses import replace

import pytest

pytest.importorskip("pydantic")

from training.test_trainer import assert_same_state, figures, new_run, train

from longstride.errors import UserError
from longstride.hardware.detect import detect_machine
from longstride.training.assembly import run as run_builder
from longstride.training.run_directory.metrics_log import MetricsLog


@pytest.fixture(autouse=True)
def machine_with_bf16(monkeypatch):
    """A machine without a GPU whose CPU has the instructions; TensorBoard's import takes seconds."""
    monkeypatch.setattr(MetricsLog, "_open_board", lambda *_: None)
    here = replace(detect_machine(), gpus=(), gpu_note="none is wanted", cpu_bf16="AVX512-BF16")
    monkeypatch.setattr(run_builder, "detect_machine", lambda: here)


def trained(directory, **changes):
    train(new_run(directory, update_threads=2, **changes))
    return figures(directory)


def test_a_run_in_bf16_computes_in_it_and_again_to_the_bit(tmp_path):
    fp32 = trained(tmp_path / "fp32")
    bf16 = trained(tmp_path / "bf16", precision="bf16")
    assert {(r["precision"], r["execution"]) for r in bf16} == {("bf16", "eager")}
    assert {r["precision"] for r in fp32} == {"fp32"}
    # BF16 has 8 bits of mantissa, FP32 has 24: the policy that plays and the one that is updated are apart by rounding.
    assert fp32[-1]["initial_ratio_error"] < 5e-6 < 5e-5 < bf16[-1]["initial_ratio_error"] < 0.1
    again = trained(tmp_path / "again", precision="bf16", simulation_threads=1)
    assert again == bf16
    assert_same_state(tmp_path / "bf16", tmp_path / "again")


def test_a_cpu_without_the_instructions_refuses(tmp_path, monkeypatch):
    monkeypatch.setattr(run_builder, "detect_machine", lambda: replace(detect_machine(), gpus=(), cpu_bf16=""))
    with pytest.raises(UserError, match="PRECISION is bf16, but the update runs on the CPU, which has FP32 only"):
        new_run(tmp_path / "refused", precision="bf16")


def test_it_goes_on_in_the_other_format(tmp_path):
    """Compiled steps in FP32 and torch's in BF16 keep the same checkpoint."""
    for episodes, precision in ((1, "fp32"), (2, "bf16"), (3, "fp32")):
        train(new_run(tmp_path / "run", resume=episodes > 1, precision=precision, training_episodes=episodes))
    found = [(r["precision"], r["execution"]) for r in figures(tmp_path / "run")]
    assert found == [("fp32", "numba"), ("bf16", "eager"), ("fp32", "numba")]
