"""Killed runs: a handful of kills of real processes, and that the benchmark sees what would be lost."""

import json
import os
import shutil

import pytest

from benchmarks import kill
from benchmarks.kill import LostError
from longstride.training.run_directory.checkpoint import load_checkpoint
from longstride.training.run_directory.metrics_log import read_metrics

pytestmark = [pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL"), pytest.mark.slow]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    directory = tmp_path_factory.mktemp("kill")
    return directory, kill.run_with_kills(directory, seed=3, kills=4)


@pytest.mark.slow
def test_runs_that_are_killed_lose_nothing(runs):
    """Had anything been lost, the fixture would have raised; the run is long enough to be compared."""
    directory, tally = runs
    assert tally["runs"] == 1
    assert tally["kills"] >= 1
    assert load_checkpoint(directory / "killed")[1]["iteration"] == 4 * kill.ITERATIONS_PER_KILL
    assert len(read_metrics(directory / "killed")) == 4 * kill.ITERATIONS_PER_KILL


@pytest.mark.slow
def test_runs_that_differ_are_seen(runs, tmp_path):
    undisturbed, other = runs[0] / "undisturbed", tmp_path / "other"
    shutil.copytree(undisturbed, other)
    kill.compare(undisturbed, other)
    path = other / "metrics.jsonl"
    lines = path.read_text().splitlines()
    record = json.loads(lines[4])
    path.write_text("\n".join([*lines[:4], json.dumps({**record, "update_seconds": 1e9}), *lines[5:]]) + "\n")
    kill.compare(undisturbed, other)
    path.write_text("\n".join([*lines[:4], json.dumps({**record, "steps": record["steps"] + 1}), *lines[5:]]) + "\n")
    with pytest.raises(LostError, match=r"metrics\.jsonl differs"):
        kill.compare(undisturbed, other)
    path.write_text("\n".join([*lines[:4], *lines[5:]]) + "\n")
    with pytest.raises(LostError, match=r"metrics\.jsonl differs"):
        kill.compare(undisturbed, other)
    max((other / "checkpoints" / "last").glob("*.json")).unlink()
    with pytest.raises(LostError, match=r"checkpoints/last differs: .*'iteration'"):
        kill.compare(undisturbed, other)


READY = "Run directory: x.\n"


@pytest.mark.parametrize(
    ("before", "out"),
    [
        (0, READY),
        (1, READY),
        (5, "Resuming after iteration 5 of 9.\n" + READY),
        (5, "Resuming after iteration 4 of 9.\n" + READY),
        (5, "killed while it started"),
    ],
)
def test_what_a_killed_run_may_do(tmp_path, before, out):
    kill.check_resume(tmp_path, before, out)


@pytest.mark.parametrize(
    ("before", "out"),
    [
        (5, "Resuming after iteration 3 of 9.\n" + READY),
        (5, "Resuming after iteration 6 of 9.\n" + READY),
        (2, READY),
        (5, "The checkpoint x is damaged (...)\nResuming after iteration 4 of 9.\n" + READY),
        (5, "Traceback (most recent call last)"),
    ],
)
def test_what_it_may_not(tmp_path, before, out):
    with pytest.raises(LostError):
        kill.check_resume(tmp_path, before, out)
