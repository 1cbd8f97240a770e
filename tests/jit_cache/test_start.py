"""What the start of a run says about its kernels, through the command line."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from oracles import toy_simulators

pytest.importorskip("pydantic")

from longstride.cli import main
from longstride.jit_cache import cache
from longstride.jit_cache.cache import VARIABLE, CacheStats
from longstride.training.run_directory.metrics_log import read_metrics

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    *("--mode", "train", "--simulator", f"{toy_simulators.__file__}:Bandit", "--training-episodes", "1"),
    *("--actor-hidden-size", "16", "--critic-hidden-size", "16", "--num-hidden-layers", "1", "--device", "cpu"),
    *("--batch-size", "64", "--num-envs", "1"),
]


@pytest.fixture
def started(tmp_path, monkeypatch, capsys):
    """Return a function that trains with kernels in a folder and returns how many were compiled and loaded."""

    def train(name):
        monkeypatch.setattr(cache, "CACHE_STATS", CacheStats())
        monkeypatch.setattr("longstride.training.assembly.run.CACHE_STATS", cache.CACHE_STATS)
        assert main([*SMALL, "--run-directory", str(tmp_path / name)]) == 0
        output = capsys.readouterr().out
        (line,) = re.findall(
            r"Kernels of simulator, policy and update: (.*) in (?:\d+ min ?)?(?:[0-9.]+ m?s)?(.*)\.\n", output
        )
        return (*line, output)

    monkeypatch.setenv(VARIABLE, str(tmp_path / "kernels"))
    return train


def test_a_run_says_whether_its_kernels_were_compiled_or_loaded_and_is_the_same(started, tmp_path):
    done, where, _ = started("first")
    assert re.fullmatch(r"compiled \d+", done)
    assert where == f" ({tmp_path / 'kernels'})"
    done, _, _ = started("second")
    assert re.fullmatch(r"loaded \d+", done)
    records = [record for name in ("first", "second") for record in read_metrics(tmp_path / name)]
    assert len(records) == 2
    assert len({(record["trajectory_sha256"], record["policy_loss"]) for record in records}) == 1


def test_a_run_trains_where_no_kernel_can_be_kept_and_says_so_once(started, tmp_path):
    (tmp_path / "kernels").write_text("a file")
    done, where, output = started("run")
    assert re.fullmatch(r"compiled \d+", done)
    assert where == ""
    assert output.count("Compiled kernels cannot be kept") == 1


def test_a_run_without_compilation_trains(tmp_path):
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), *SMALL, "--run-directory", str(tmp_path / "run")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "compiled 0 in" in done.stdout
