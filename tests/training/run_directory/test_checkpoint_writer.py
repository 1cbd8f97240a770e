"""Writing while a run goes on: what waits, what is said of a disk that fails, what ends a run."""

import errno
import threading

import pytest
import torch

from longstride.errors import NotSavedError
from longstride.training.run_directory import checkpoint_writer
from longstride.training.run_directory.checkpoint import load_checkpoint, save_checkpoint
from longstride.training.run_directory.checkpoint_writer import CheckpointWriter, WriteRetry
from longstride.training.run_directory.directory import RunDirectory


def facts(iteration):
    return {"iteration": iteration}


def tensors(value):
    return {"a": torch.full((3,), float(value))}


@pytest.fixture
def slow_disk(monkeypatch):
    """Return an event without which no checkpoint is written, and the number of those that are being written."""
    go_on, at_work = threading.Event(), []

    def save(directory, tensors, facts, kept):
        at_work.append(facts["iteration"])
        assert len(at_work) == 1, "at most one on its way"
        assert go_on.wait(60)
        save_checkpoint(directory, tensors, facts, kept)
        at_work.pop()

    monkeypatch.setattr(checkpoint_writer, "save_checkpoint", save)
    return go_on, at_work


class Disk:
    """Fails where it is told to."""

    def __init__(self, monkeypatch):
        self.broken = {}
        monkeypatch.setattr(checkpoint_writer, "save_checkpoint", self.save)

    def save(self, directory, tensors, facts, kept):
        if error := self.broken.get(directory.name):
            raise error
        save_checkpoint(directory, tensors, facts, kept)


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


def test_a_checkpoint_on_its_way_is_of_the_tensors_as_they_were(slow_disk, tmp_path):
    writer, weights = CheckpointWriter(RunDirectory(tmp_path)), torch.ones(3)
    writer.save("last", {"a": weights}, facts(1))
    weights.fill_(2.0)  # the next update
    assert not list((tmp_path).glob("checkpoints/last/*.json")), "the run does not wait for it"
    slow_disk[0].set()
    writer.wait()
    assert load_checkpoint(tmp_path)[0]["a"].tolist() == [1.0] * 3


def test_checkpoints_are_written_one_after_another(slow_disk, tmp_path):
    go_on, at_work = slow_disk
    writer = CheckpointWriter(RunDirectory(tmp_path))
    writer.save("last", tensors(1), facts(1))
    second = threading.Thread(target=writer.save, args=("last", tensors(2), facts(2)))
    second.start()
    second.join(0.2)
    assert second.is_alive(), "it waits for the first"
    assert at_work == [1]
    go_on.set()
    second.join(60)
    writer.wait()
    assert load_checkpoint(tmp_path)[1]["iteration"] == 2


def test_the_time_that_a_run_waits_for_the_disk_is_measured(slow_disk, tmp_path):
    writer = CheckpointWriter(RunDirectory(tmp_path))
    writer.save("last", tensors(1), facts(1))
    assert writer.figures()["checkpoint_seconds"] < 0.5, "the disk writes while the run goes on"
    threading.Timer(0.5, slow_disk[0].set).start()
    writer.save("last", tensors(2), facts(2))
    assert writer.figures()["checkpoint_seconds"] > 0.25
    writer.wait()


def test_the_last_few_and_one_best_are_kept(tmp_path):
    writer = CheckpointWriter(RunDirectory(tmp_path), kept=2)
    for iteration in range(1, 5):
        writer.save("best", tensors(iteration), facts(iteration))
        writer.save("last", tensors(iteration), facts(iteration))
    writer.close()
    found = {
        which: [p.stem for p in sorted((tmp_path / "checkpoints" / which).glob("*.json"))] for which in ("last", "best")
    }
    assert found == {"last": ["iteration-00000003", "iteration-00000004"], "best": ["iteration-00000004"]}
    assert writer.saved_iteration == 4


def test_what_fails_is_said_once_tried_again_and_said_to_be_mended(disk, tmp_path):
    writer = CheckpointWriter(RunDirectory(tmp_path))
    disk.broken["last"] = FULL
    said = []
    for iteration in (1, 2, 3):
        writer.save("last", tensors(iteration), facts(iteration))
        writer.wait()
        said += writer.retry.lines()
    assert said == [
        "Cannot write checkpoints/last: No space left on device. Training continues, and this is tried again after "
        "each iteration; what was saved before stays as it is."
    ]
    disk.broken["last"] = OSError(errno.EROFS, "Read-only file system")
    writer.save("last", tensors(4), facts(4))
    writer.wait()
    (line,) = writer.retry.lines()
    assert "Read-only file system" in line, "another kind of failure"
    assert not list(tmp_path.rglob("*.json"))
    del disk.broken["last"]
    writer.save("last", tensors(5), facts(5))
    writer.wait()
    assert list(writer.retry.lines()) == ["checkpoints/last is written again, with everything that was missing."]
    assert load_checkpoint(tmp_path)[1]["iteration"] == 5
    writer.retry.require_all(tmp_path, writer.saved_iteration)


def test_the_best_is_not_lost_where_the_last_takes_its_turn(disk, tmp_path):
    """It comes once, so it waits until it can be written; the last one is the newest."""
    writer = CheckpointWriter(RunDirectory(tmp_path))
    disk.broken = {"best": FULL, "last": FULL}
    writer.save("best", tensors(7), facts(1))
    for iteration in (2, 3):
        writer.save("last", tensors(iteration), facts(iteration))
    writer.wait()
    del disk.broken["last"]
    writer.save("last", tensors(4), facts(4))
    writer.wait()
    assert load_checkpoint(tmp_path)[1]["iteration"] == 4
    disk.broken.clear()
    writer.close()
    assert load_checkpoint(tmp_path / "checkpoints" / "best")[0]["a"].tolist() == [7.0] * 3


def test_the_end_is_the_last_attempt_and_says_what_is_missing(disk, tmp_path):
    writer = CheckpointWriter(RunDirectory(tmp_path))
    writer.save("last", tensors(1), facts(1))
    writer.wait()
    disk.broken["last"] = FULL
    writer.save("last", tensors(2), facts(2))
    writer.close()
    with pytest.raises(NotSavedError) as error:
        writer.retry.require_all(tmp_path, writer.saved_iteration)
    assert str(error.value) == (
        f"Not everything could be saved in {tmp_path}: checkpoints/last (No space left on device). The last checkpoint "
        "there is of iteration 1; free space or repair the disk, and continue with --resume."
    )
    assert load_checkpoint(tmp_path)[1]["iteration"] == 1


def test_nothing_is_written_where_the_directory_is_not_ours(tmp_path):
    def gone():
        raise OSError(errno.ENOENT, "the run directory was moved or removed")

    attempts = WriteRetry(gone)
    writer = CheckpointWriter(RunDirectory(tmp_path / "run"), retry=attempts)
    writer.save("last", tensors(1), facts(1))
    writer.close()
    assert not (tmp_path / "run").exists()
    with pytest.raises(NotSavedError, match=r"moved or removed.*No checkpoint is there.*train again"):
        attempts.require_all(tmp_path / "run", writer.saved_iteration)


def test_what_is_no_failure_of_a_disk_ends_the_run(disk, tmp_path):
    disk.broken["last"] = ZeroDivisionError()
    writer = CheckpointWriter(RunDirectory(tmp_path))
    writer.save("last", tensors(1), facts(1))
    with pytest.raises(ZeroDivisionError):
        writer.wait()
