"""Checkpoints: round trip, the last few, every damage, full disks, crashes."""

import errno
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from longstride.errors import UserError
from longstride.training.run_directory import checkpoint, files
from longstride.training.run_directory.checkpoint import (
    FORMAT,
    load_checkpoint,
    policy_folder,
    save_checkpoint,
    seal,
    unseal,
)
from longstride.training.run_directory.directory import RunDirectory

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(3.5), "c": torch.tensor([True, False])}


def tensor_file(directory):
    return max(directory.glob("iteration-*.safetensors"))


def facts_file(directory):
    return max(directory.glob("iteration-*.json"))


def names(directory):
    return sorted(path.name[: len("iteration-00000000")] + path.suffix for path in directory.iterdir())


@pytest.fixture
def saved(tmp_path):
    save_checkpoint(tmp_path, TENSORS, {"iteration": 3, "best": 1.25, "name": "x"})
    return tmp_path


def test_what_is_saved_is_loaded(saved):
    tensors, facts = load_checkpoint(saved)
    assert {name: t.tolist() for name, t in tensors.items()} == {name: t.tolist() for name, t in TENSORS.items()}
    assert all(tensors[name].dtype == t.dtype for name, t in TENSORS.items())
    assert (facts["iteration"], facts["best"], facts["name"]) == (3, 1.25, "x")


def test_views_of_one_array_are_saved_as_they_are(tmp_path):
    flat = torch.arange(10.0)
    save_checkpoint(tmp_path, {"front": flat[:4], "back": flat[4:], "turned": flat[:4].view(2, 2).T}, {"iteration": 0})
    tensors, _ = load_checkpoint(tmp_path)
    assert tensors["back"].tolist() == [4, 5, 6, 7, 8, 9]
    assert tensors["turned"].tolist() == [[0, 2], [1, 3]]


# The last few


def test_the_last_few_are_kept_and_the_newest_is_loaded(tmp_path):
    for iteration in range(1, 6):
        save_checkpoint(tmp_path, {"a": torch.tensor(float(iteration))}, {"iteration": iteration}, kept=3)
        first = max(1, iteration - 2)
        kept = [f"iteration-{n:08d}{kind}" for n in range(first, iteration + 1) for kind in (".json", ".safetensors")]
        assert names(tmp_path) == kept
        assert load_checkpoint(tmp_path)[0]["a"] == iteration


def test_one_that_is_saved_again_takes_the_place_of_the_first(saved):
    save_checkpoint(saved, {"a": torch.tensor(1.0)}, {"iteration": 3})
    assert load_checkpoint(saved)[0]["a"] == 1.0
    assert len(list(saved.iterdir())) == 2


def test_a_run_that_went_back_leaves_none_of_the_later_ones(tmp_path):
    for iteration in (1, 2, 3, 2):
        save_checkpoint(tmp_path, {"a": torch.tensor(10.0 + iteration)}, {"iteration": iteration}, kept=3)
    assert load_checkpoint(tmp_path)[1]["iteration"] == 2
    assert names(tmp_path) == [f"iteration-0000000{n}{kind}" for n in (1, 2) for kind in (".json", ".safetensors")]


def test_more_digits_are_later(tmp_path):
    for iteration in (99_999_999, 100_000_000):
        save_checkpoint(tmp_path, TENSORS, {"iteration": iteration}, kept=2)
    assert load_checkpoint(tmp_path)[1]["iteration"] == 100_000_000


def test_what_others_put_there_stays(saved):
    (saved / "notes.txt").write_text("mine")
    save_checkpoint(saved, TENSORS, {"iteration": 4})
    assert (saved / "notes.txt").read_text() == "mine"


def test_the_last_checkpoint_of_a_run_is_found(tmp_path):
    assert not RunDirectory(tmp_path).holds_run()
    save_checkpoint(tmp_path / "checkpoints" / "last", TENSORS, {"iteration": 5})
    assert load_checkpoint(tmp_path)[1]["iteration"] == 5
    assert RunDirectory(tmp_path).holds_run()


def test_no_checkpoint(tmp_path):
    with pytest.raises(UserError, match="There is no checkpoint in"):
        load_checkpoint(tmp_path)
    with pytest.raises(UserError, match="There is no checkpoint in"):
        load_checkpoint(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["checkpoint.json", "episode-00000012.json"])
def test_one_of_an_earlier_version_is_a_sentence(tmp_path, name):
    last = tmp_path / "checkpoints" / "last"
    last.mkdir(parents=True)
    (last / name).write_text('{"format": "longstride-checkpoint/2"}')
    assert RunDirectory(tmp_path).holds_run(), "and it is not overwritten"
    with pytest.raises(UserError, match="is of an earlier version of Longstride: train again"):
        load_checkpoint(tmp_path)


def test_one_of_a_later_version_is_a_sentence_and_no_damage(saved):
    save_checkpoint(saved, TENSORS, {"iteration": 4}, kept=2)
    path = facts_file(saved)
    path.write_bytes(seal({**unseal(path.read_bytes()), "format": "longstride-checkpoint/4"}))
    with pytest.raises(UserError, match=f"format longstride-checkpoint/4, not {FORMAT}"):
        load_checkpoint(saved)


# Damage


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two checkpoints, small enough to damage every byte of the second: tensors of each kind, facts of each kind."""
    directory = tmp_path_factory.mktemp("two")
    facts = {"best": 1.25, "name": "x", "none": None, "yes": True, "list": [1, 2.5e-7], "nested": {"a": 1e300}}
    for iteration in (1, 2):
        save_checkpoint(
            directory,
            {**TENSORS, "a": torch.arange(6.0).view(2, 3) * iteration},
            {"iteration": iteration, **facts},
            kept=2,
        )
    return directory


def falls_back(directory, file, content):
    """Return the sentence with which the first checkpoint is loaded when a file of the second has this content."""
    before, said = file.read_bytes(), []
    file.write_bytes(content)
    try:
        tensors, facts = load_checkpoint(directory, said.append)
    finally:
        file.write_bytes(before)
    assert facts["iteration"] == 1, "the damage was not noticed"
    assert tensors["a"].shape == TENSORS["a"].shape
    (sentence,) = said
    assert "is damaged (" in sentence
    assert sentence.endswith("; that of iteration 1 is used.")
    return sentence


def flipped(content, position, bits):
    changed = bytearray(content)
    changed[position] ^= bits
    return bytes(changed)


@pytest.mark.parametrize("bits", [0x01, 0x20, 0x80, 0xFF])
def test_every_flipped_byte_of_the_facts_is_found(two, bits):
    """0x20 changes the case of letters, which JSON forgives in numbers and digests are often compared without."""
    content = facts_file(two).read_bytes()
    for position in range(len(content)):
        falls_back(two, facts_file(two), flipped(content, position, bits))


def test_facts_that_mean_the_same_in_other_bytes_are_found(two):
    content = facts_file(two).read_bytes()
    assert b"1e+300" in content
    for other in (content.replace(b", ", b",\t", 1), content.replace(b"1e+300", b"1E+300"), content + b" "):
        assert json.loads(other) == json.loads(content)
        falls_back(two, facts_file(two), other)


@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_of_the_tensors_is_found(two, bits):
    """The length of the header (8 bytes), the header, and all of the data: the file is small."""
    content = tensor_file(two).read_bytes()
    assert 150 < len(content) < 300
    for position in range(len(content)):
        falls_back(two, tensor_file(two), flipped(content, position, bits))


@pytest.mark.parametrize("file_of", [facts_file, tensor_file])
def test_every_truncation_is_found_and_so_is_more_than_there_was(two, file_of):
    content = file_of(two).read_bytes()
    for length in range(len(content)):
        falls_back(two, file_of(two), content[:length])
    for other in (content + b"\x00", content + content, content[1:], bytes(len(content))):
        falls_back(two, file_of(two), other)


@pytest.mark.parametrize("file_of", [facts_file, tensor_file])
def test_the_files_of_two_checkpoints_are_not_mixed_up(two, file_of):
    newest = file_of(two)
    (older,) = set(two.glob("*" + newest.suffix)) - {newest}
    if file_of is tensor_file:
        falls_back(two, newest, older.read_bytes())
    else:  # under the name of the second stands the first, complete: that is what is loaded
        before = newest.read_bytes()
        newest.write_bytes(older.read_bytes())
        assert load_checkpoint(two)[1]["iteration"] == 1
        newest.write_bytes(before)


def test_a_large_tensor_file_that_is_damaged_anywhere_is_found(tmp_path):
    """Four kilobyte pages and their edges, of a file of 400 kB."""
    for iteration in (1, 2):
        save_checkpoint(tmp_path, {**TENSORS, "z": torch.randn(100_000)}, {"iteration": iteration}, kept=2)
    content = tensor_file(tmp_path).read_bytes()
    pages = range(0, len(content), 32 * 4096)
    for position in [
        *(p + offset for p in pages for offset in (0, 4095) if p + offset < len(content)),
        len(content) - 1,
    ]:
        falls_back(tmp_path, tensor_file(tmp_path), flipped(content, position, 0x10))
        falls_back(tmp_path, tensor_file(tmp_path), content[:position])
        falls_back(tmp_path, tensor_file(tmp_path), content[:position] + b"\x55" * (len(content) - position))


def test_a_missing_tensor_file_is_a_damage(saved):
    save_checkpoint(saved, {"a": torch.zeros(2)}, {"iteration": 4}, kept=2)
    tensor_file(saved).unlink()
    said = []
    assert load_checkpoint(saved, said.append)[1]["iteration"] == 3
    assert "(No such file or directory)" in said[0]


def test_damage_of_all_is_one_sentence_of_the_newest(saved):
    save_checkpoint(saved, {"a": torch.zeros(2)}, {"iteration": 4}, kept=2)
    for path in saved.glob("*.json"):
        path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(
        UserError, match=r"iteration-00000004\.json is damaged \(it was cut or changed\), and so are the 1 before"
    ):
        load_checkpoint(saved)


@pytest.mark.parametrize(
    "content", [b'{"weights": [1, 2]}', b"[1, 2]", b"\xff\xfe\x00\x01", b"[" * 100_000, b"", b"NaN"]
)
def test_what_never_was_a_checkpoint_is_a_sentence(saved, content):
    facts_file(saved).write_bytes(content)
    with pytest.raises(UserError, match=r"is damaged \(it was cut or changed\)"):
        load_checkpoint(saved)


def test_the_seal_is_the_digest_of_the_facts():
    facts = {"iteration": 3, "of": [1.5, None]}
    sealed = json.loads(seal(facts))
    assert sealed.pop("sha256") == hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    assert sealed == facts == unseal(seal(facts))


def test_a_tensor_file_outside_the_directory_is_not_read(saved):
    secret = saved.parent / "secret.safetensors"
    secret.write_bytes(tensor_file(saved).read_bytes())
    path = facts_file(saved)
    path.write_bytes(seal({**unseal(path.read_bytes()), "tensors": "../secret.safetensors"}))
    with pytest.raises(UserError):
        load_checkpoint(saved)


def test_one_that_is_replaced_while_it_is_read_is_no_damage(saved, monkeypatch):
    """An evaluation of the best checkpoint, of which one is kept, beside a run that goes on."""
    real, said = checkpoint._read, []

    def read(path, *arguments):
        if path.name == "iteration-00000003.json":
            save_checkpoint(saved, {"a": torch.ones(1)}, {"iteration": 4})
        return real(path, *arguments)

    monkeypatch.setattr(checkpoint, "_read", read)
    assert load_checkpoint(saved, said.append)[1]["iteration"] == 4


# Disks and crashes


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
        real = files.open_own
        monkeypatch.setattr(files, "open_own", full)
    with pytest.raises(OSError, match="No space left on device"):
        save_checkpoint(saved, {"a": torch.zeros(2)}, {"iteration": 4})
    monkeypatch.undo()
    tensors, facts = load_checkpoint(saved)
    assert facts["iteration"] == 3
    assert torch.equal(tensors["a"], TENSORS["a"])
    assert len(list(saved.iterdir())) == 2, "nothing is left of the failed attempt"
    save_checkpoint(saved, {"a": torch.zeros(2)}, {"iteration": 4})
    assert load_checkpoint(saved)[1]["iteration"] == 4
    assert len(list(saved.iterdir())) == 2


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
    save_checkpoint(small_disk, {"a": torch.ones(5_000)}, {"iteration": 1})
    with pytest.raises(OSError, match="No space left on device"):
        save_checkpoint(small_disk, {"a": torch.zeros(15_000)}, {"iteration": 2})
    tensors, facts = load_checkpoint(small_disk)
    assert facts["iteration"] == 1
    assert torch.equal(tensors["a"], torch.ones(5_000))
    assert len(list(small_disk.iterdir())) == 2
    save_checkpoint(small_disk, {"a": torch.full((5_000,), 2.0)}, {"iteration": 2})
    assert load_checkpoint(small_disk)[0]["a"][0] == 2.0


class CrashError(BaseException):
    """The process ends here: nothing after it runs, not even the clearing up."""


def crashing(monkeypatch, step):
    """Let the process die before or after the given one of all its calls that change the disk."""
    steps = [0]

    def wrap(owner, name):
        real = getattr(owner, name)

        def call(*arguments, **options):
            if name == "open_own" and "wb" not in arguments:
                return real(*arguments, **options)
            steps[0] += 1
            if steps[0] == step:
                raise CrashError
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, call)

    for owner, name in ((files, "open_own"), (files.os, "fsync"), (files.os, "replace"), (Path, "unlink")):
        wrap(owner, name)
    return steps


@pytest.mark.parametrize("kept", [1, 2])
@pytest.mark.parametrize("iteration", [3, 4])
def test_a_crash_at_any_step_leaves_the_old_checkpoint_or_the_new_one(tmp_path, kept, iteration):
    """Steps are counted, so that a change of the code cannot leave one out."""
    with pytest.MonkeyPatch.context() as patch:
        save_checkpoint(tmp_path / "whole", TENSORS, {"iteration": 3}, kept)
        steps = crashing(patch, step=-1)
        save_checkpoint(tmp_path / "whole", {"a": torch.zeros(2)}, {"iteration": iteration}, kept)
    assert steps[0] >= 8, "two files, each opened, synced, renamed, and its folder synced"
    found = []
    for step in range(1, steps[0] + 1):
        directory = tmp_path / str(step)
        save_checkpoint(directory, TENSORS, {"iteration": 3}, kept)
        with pytest.MonkeyPatch.context() as patch, pytest.raises(CrashError):
            crashing(patch, step)
            save_checkpoint(directory, {"a": torch.zeros(2)}, {"iteration": iteration}, kept)
        said = []
        tensors, _ = load_checkpoint(directory, said.append)
        assert said == []
        found.append("new" if tensors["a"].shape == (2,) else "old")
        save_checkpoint(directory, {"a": torch.ones(2)}, {"iteration": 5}, kept)
        assert load_checkpoint(directory)[0]["a"].tolist() == [1.0, 1.0]
        assert not list(directory.glob("*.tmp"))
        if kept == 1:
            assert len(list(directory.iterdir())) == 2, "what the crash left is gone"
    assert found == sorted(found, reverse=True), "old until one moment, new from then on"
    assert set(found) == {"old", "new"}


def test_a_directory_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="File exists"):
        save_checkpoint(tmp_path / "file" / "last", TENSORS, {"iteration": 0})


@pytest.mark.parametrize(("judged_by", "chosen"), [("evaluations", "best"), ("iterations", None)])
@pytest.mark.parametrize(
    ("iteration", "which"), [(7, "after iteration 7"), (0, "the untrained one"), (8, "the mean of the late ones")]
)
def test_the_policy_of_a_run_is_the_best_evaluated_one(tmp_path, judged_by, chosen, iteration, which):
    run, said = RunDirectory(tmp_path), []
    facts = {"best": 1.0, "best_judged_by": judged_by, "mean_of_late_policies": iteration == 8}
    save_checkpoint(run.checkpoints("best"), TENSORS, {"iteration": iteration, **facts})
    save_checkpoint(run.checkpoints("last"), TENSORS, {"iteration": 9, **facts})
    assert policy_folder(tmp_path, said.append) == (run.checkpoints("best") if chosen else tmp_path)
    assert [which in line for line in said] == ([True] if chosen else [])
    for each in ("last", "best"):
        assert policy_folder(run.checkpoints(each)) == run.checkpoints(each), "what is named is taken"


def test_a_damaged_best_checkpoint_is_no_policy_of_a_run(tmp_path):
    run = RunDirectory(tmp_path)
    save_checkpoint(run.checkpoints("best"), TENSORS, {"iteration": 1, "best_judged_by": "evaluations"})
    facts_file(run.checkpoints("best")).write_text("{")
    assert policy_folder(tmp_path) == tmp_path
    assert policy_folder(tmp_path / "nothing") == tmp_path / "nothing"
