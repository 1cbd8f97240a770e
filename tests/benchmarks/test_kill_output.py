"""A handful of kills of trainings with their output on a full disk, and that a changed foreign file is seen."""

import os

import pytest

from benchmarks import kill, kill_output
from longstride.training.run_directory.checkpoint import load_checkpoint

pytestmark = [pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL"), pytest.mark.slow]


def test_runs_that_are_killed_with_their_output_on_a_full_disk_lose_nothing(tmp_path):
    with kill_output.lost_output(tmp_path) as (output, _):
        tally = kill_output.run_with_kills(tmp_path / "0", 3, 3, output)
    assert tally["kills"] >= 1
    assert load_checkpoint(tmp_path / "0" / "killed")[1]["iteration"] == 3 * kill.ITERATIONS_PER_KILL


def test_a_foreign_file_that_changes_is_seen(tmp_path):
    digest = kill_output.make_foreign(tmp_path)
    assert kill_output.digest_of(tmp_path) == digest
    (tmp_path / "run.lock").write_text("other")
    assert kill_output.digest_of(tmp_path) != digest
