"""Checkpoints: round trip, damage, full disks."""

import errno
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
import torch

from core.errors import UserError
from core.training import checkpoint, files
from core.training.checkpoint import CheckpointWriter, load_checkpoint, save_checkpoint

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(3.5), "c": torch.tensor([True, False])}


def tensor_file(directory):
    (path,) = directory.glob("state-*.safetensors")
    return path


@pytest.fixture
def saved(tmp_path):
    save_checkpoint(tmp_path, TENSORS, {"episode": 3, "best": 1.25, "name": "x"})
    return tmp_path


def test_what_is_saved_is_loaded(saved):
    tensors, facts = load_checkpoint(saved)
    assert {name: t.tolist() for name, t in tensors.items()} == {name: t.tolist() for name, t in TENSORS.items()}
    assert all(tensors[name].dtype == t.dtype for name, t in TENSORS.items())
    assert (facts["episode"], facts["best"], facts["name"]) == (3, 1.25, "x")


def test_views_of_one_array_are_saved_as_they_are(tmp_path):
    flat = torch.arange(10.0)
    save_checkpoint(tmp_path, {"front": flat[:4], "back": flat[4:], "turned": flat[:4].view(2, 2).T}, {"episode": 0})
    tensors, _ = load_checkpoint(tmp_path)
    assert tensors["back"].tolist() == [4, 5, 6, 7, 8, 9]
    assert tensors["turned"].tolist() == [[0, 2], [1, 3]]


@pytest.mark.parametrize("episode", [3, 4])
def test_a_new_checkpoint_takes_the_place_of_the_old_one(saved, episode):
    for value in (1.0, 2.0):
        save_checkpoint(saved, {"a": torch.tensor(value)}, {"episode": episode})
        tensors, facts = load_checkpoint(saved)
        assert tensors["a"] == value
        assert facts["episode"] == episode
        assert len(list(saved.iterdir())) == 2, "one JSON and one tensor file"


def test_the_last_checkpoint_of_a_run_is_found(tmp_path):
    save_checkpoint(tmp_path / "checkpoints" / "last", TENSORS, {"episode": 5})
    assert load_checkpoint(tmp_path)[1]["episode"] == 5


def test_no_checkpoint(tmp_path):
    with pytest.raises(UserError, match="There is no checkpoint in"):
        load_checkpoint(tmp_path)
    with pytest.raises(UserError, match="There is no checkpoint in"):
        load_checkpoint(tmp_path / "nowhere")


def truncate(directory):
    path = tensor_file(directory)
    path.write_bytes(path.read_bytes()[:-5])


def flip(directory):
    path = tensor_file(directory)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def remove_tensors(directory):
    tensor_file(directory).unlink()


def cut_json(directory):
    path = directory / "checkpoint.json"
    path.write_text(path.read_text()[:20])


def foreign_json(directory):
    (directory / "checkpoint.json").write_text('{"weights": [1, 2]}')


def list_json(directory):
    (directory / "checkpoint.json").write_text("[1, 2]")


def binary_json(directory):
    (directory / "checkpoint.json").write_bytes(b"\xff\xfe\x00\x01")


def without_name(directory):
    path = directory / "checkpoint.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "tensors"}))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (truncate, "is damaged: state-.* was cut or changed"),
        (flip, "is damaged: state-.* was cut or changed"),
        (remove_tensors, "cannot be read"),
        (cut_json, "cannot be read"),
        (foreign_json, "is not a checkpoint of this program"),
        (list_json, "is not a checkpoint of this program"),
        (binary_json, "cannot be read"),
        (without_name, "cannot be read"),
    ],
)
def test_damage_is_a_sentence(saved, damage, sentence):
    damage(saved)
    with pytest.raises(UserError, match=sentence):
        load_checkpoint(saved)


def test_a_tensor_file_outside_the_directory_is_not_read(saved):
    path = saved / "checkpoint.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tensors": "../../secret.safetensors"}))
    with pytest.raises(UserError):
        load_checkpoint(saved)


@pytest.mark.parametrize("failing", [1, 2])
@pytest.mark.parametrize("late", [False, True])
def test_a_full_disk_leaves_the_old_checkpoint(saved, monkeypatch, failing, late):
    """The tensors are the first file that is written, the JSON the second; `late` fails when the disk must sync."""
    calls = []

    def full(*arguments, **options):
        if late or "wb" in arguments:
            calls.append(arguments)
            if len(calls) == failing:
                raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments, **options)

    if late:
        real = files.os.fsync
        monkeypatch.setattr(files.os, "fsync", full)
    else:
        real = Path.open
        monkeypatch.setattr(Path, "open", full)
    with pytest.raises(UserError, match=r"No space left on device\. What was saved before is untouched"):
        save_checkpoint(saved, {"a": torch.zeros(2)}, {"episode": 4})
    monkeypatch.undo()
    tensors, facts = load_checkpoint(saved)
    assert facts["episode"] == 3
    assert torch.equal(tensors["a"], TENSORS["a"])
    assert not list(saved.glob("*.tmp"))
    save_checkpoint(saved, {"a": torch.zeros(2)}, {"episode": 4})
    assert load_checkpoint(saved)[1]["episode"] == 4
    assert len(list(saved.iterdir())) == 2, "nothing is left of the failed attempt"


@pytest.fixture
def small_disk(tmp_path):
    """A real disk of 64 KiB, where this process may mount one."""
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if os.name != "posix" or os.geteuid() != 0 or mount is None or unmount is None:
        pytest.skip("only root can mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run([mount, "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    yield disk
    subprocess.run([unmount, disk], check=True)


def test_a_disk_that_is_really_full(small_disk):
    """20 kB fit twice with their JSON files, 60 kB beside 20 kB do not."""
    save_checkpoint(small_disk, {"a": torch.ones(5_000)}, {"episode": 1})
    with pytest.raises(UserError, match="No space left on device"):
        save_checkpoint(small_disk, {"a": torch.zeros(15_000)}, {"episode": 2})
    tensors, facts = load_checkpoint(small_disk)
    assert facts["episode"] == 1
    assert torch.equal(tensors["a"], torch.ones(5_000))
    assert len(list(small_disk.iterdir())) == 2
    save_checkpoint(small_disk, {"a": torch.full((5_000,), 2.0)}, {"episode": 2})
    assert load_checkpoint(small_disk)[0]["a"][0] == 2.0


def test_a_crash_between_the_two_files_leaves_the_old_checkpoint(saved, monkeypatch):
    class CrashError(BaseException):
        pass

    def crash(*arguments):
        raise CrashError

    monkeypatch.setattr("core.training.checkpoint.write_atomically", crash)
    with pytest.raises(CrashError):
        save_checkpoint(saved, {"a": torch.zeros(2)}, {"episode": 4})
    monkeypatch.undo()
    assert load_checkpoint(saved)[1]["episode"] == 3
    save_checkpoint(saved, {"a": torch.ones(2)}, {"episode": 4})
    assert load_checkpoint(saved)[0]["a"].tolist() == [1.0, 1.0]


def test_a_directory_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Cannot write the checkpoint"):
        save_checkpoint(tmp_path / "file" / "last", TENSORS, {"episode": 0})


@pytest.fixture
def slow_disk(monkeypatch):
    """Return an event without which no checkpoint is written, and the number of those that are being written."""
    go_on, at_work = threading.Event(), []

    def save(directory, tensors, facts):
        at_work.append(facts["episode"])
        assert len(at_work) == 1, "at most one on its way"
        assert go_on.wait(60)
        save_checkpoint(directory, tensors, facts)
        at_work.pop()

    monkeypatch.setattr(checkpoint, "save_checkpoint", save)
    return go_on, at_work


def test_a_checkpoint_on_its_way_is_of_the_tensors_as_they_were(slow_disk, tmp_path):
    writer, weights = CheckpointWriter(), torch.ones(3)
    writer.save(tmp_path, {"a": weights}, {"episode": 1})
    weights.fill_(2.0)  # the next update
    assert not (tmp_path / "checkpoint.json").exists(), "the run does not wait for it"
    slow_disk[0].set()
    writer.wait()
    assert load_checkpoint(tmp_path)[0]["a"].tolist() == [1.0] * 3


def test_checkpoints_are_written_one_after_another(slow_disk, tmp_path):
    go_on, at_work = slow_disk
    writer = CheckpointWriter()
    writer.save(tmp_path, TENSORS, {"episode": 1})
    second = threading.Thread(target=writer.save, args=(tmp_path, TENSORS, {"episode": 2}))
    second.start()
    second.join(0.2)
    assert second.is_alive(), "it waits for the first"
    assert at_work == [1]
    go_on.set()
    second.join(60)
    writer.wait()
    assert load_checkpoint(tmp_path)[1]["episode"] == 2


def test_what_could_not_be_written_is_said_at_the_next_one_and_once(tmp_path):
    (tmp_path / "file").write_text("")
    writer = CheckpointWriter()
    writer.save(tmp_path / "file", TENSORS, {"episode": 1})
    with pytest.raises(UserError, match="Cannot write the checkpoint"):
        writer.save(tmp_path / "file", TENSORS, {"episode": 2})
    writer.wait()
    writer.save(tmp_path / "file", TENSORS, {"episode": 2})
    with pytest.raises(UserError, match="Cannot write the checkpoint"):
        writer.wait()
