"""Runs whose policy answers in batches, with torch on the CPU, from the command line."""

import json

import pytest
from oracles import toy_simulators

pytest.importorskip("pydantic")

from longstride.cli import main
from longstride.training.run_directory.metrics_log import read_metrics

SIMULATOR = f"{toy_simulators.__file__}:Shop"
FLAGS = [
    *("--simulator", SIMULATOR, "--actor-hidden-size", "16", "--critic-hidden-size", "16", "--collect-on", "torch"),
    *("--num-hidden-layers", "2", "--num-envs", "20", "--rollout-steps", "30", "--learning-rate-schedule"),
    *("constant", "--entropy-schedule", "constant"),
]


def hashes(directory):
    return [record["trajectory_sha256"] for record in read_metrics(directory)]


def train(directory, iterations, *more):
    flags = ["--training-episodes", str(iterations), "--run-directory", str(directory), *more]
    return main(["--mode", "train", *FLAGS, *flags])


def test_a_run_learns_and_a_resumed_one_is_the_same(tmp_path, capsys):
    """To the bit: hashes of the trajectories of each iteration, which depend on all updates before."""
    assert train(tmp_path / "whole", 4, "--verbose") == 0
    assert "collect on torch: COLLECT_ON is torch" in capsys.readouterr().out
    assert train(tmp_path / "parts", 2) == 0
    assert train(tmp_path / "parts", 4, "--resume", "--simulation-threads", "1") == 0
    whole = hashes(tmp_path / "whole")
    assert hashes(tmp_path / "parts") == whole
    assert len(set(whole)) == 4
    record = read_metrics(tmp_path / "whole")[-1]
    assert record["initial_ratio_error"] < 1e-4
    assert json.loads((tmp_path / "whole" / "plan.json").read_text())["collect_on"] == "torch"
    assert main(["--mode", "replay", "--run-directory", str(tmp_path / "whole"), "--iteration", "4"]) == 0


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--collect-on", "gpu"], "COLLECT_ON is gpu, but "),
        (["--algorithm", "grpo", "--num-envs", "8"], "COLLECT_ON is torch, but ALGORITHM is grpo, "),
    ],
)
def test_what_cannot_be_had_is_one_sentence(tmp_path, capsys, flags, sentence):
    assert train(tmp_path / "run", 1, *flags) == 2
    printed = "".join(capsys.readouterr())
    assert f"error: {sentence}" in printed
    assert "set it to auto or cpu" in printed
    assert "Traceback" not in printed
    assert not (tmp_path / "run").exists()
