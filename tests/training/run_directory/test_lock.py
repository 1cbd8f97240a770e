"""One process a run directory: real processes that hold the lock, die with it, and are refused."""

import contextlib
import gc
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pydantic")
pytest.importorskip("fcntl")

import fcntl

from commands.test_cli import train_arguments

from longstride.cli import main
from longstride.errors import UserError
from longstride.own_files.marker import mark_folder
from longstride.training.run_directory import lock
from longstride.training.run_directory.lock import RunLock, is_locked

SOURCE = Path(lock.__file__).resolve().parents[3]
HOLD = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from longstride.training.run_directory.lock import RunLock
held = RunLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of a run directory."""
    mark_folder(tmp_path / "run", "run")
    arguments = [sys.executable, "-c", HOLD, str(tmp_path / "run"), str(SOURCE)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_who_comes_second_is_told_who_has_it(holder, tmp_path):
    with pytest.raises(UserError) as error:
        RunLock(tmp_path / "run")
    assert str(error.value) == (
        f"{tmp_path / 'run'} is in use: process {holder.pid} trains there; wait for it, stop it, or name another "
        "--run-directory."
    )


@pytest.mark.filterwarnings("error")
def test_a_lock_that_is_dropped_ends_and_leaves_no_open_file(tmp_path):
    gc.collect()
    before = len(os.listdir("/dev/fd"))
    dropped = RunLock(tmp_path / "run")
    assert is_locked(tmp_path / "run")
    assert len(os.listdir("/dev/fd")) == before + 2, "the lock and its directory"
    del dropped
    gc.collect()
    assert not is_locked(tmp_path / "run")
    assert len(os.listdir("/dev/fd")) == before
    RunLock(tmp_path / "run").release()


def test_who_only_looks_sees_the_lock_and_takes_none(holder, tmp_path):
    assert is_locked(tmp_path / "run")
    holder.kill()
    holder.wait()
    assert (tmp_path / "run" / "run.lock").exists()
    assert not is_locked(tmp_path / "run")
    assert not is_locked(tmp_path / "nowhere")
    held = RunLock(tmp_path / "run")
    with contextlib.closing(held._file):
        assert is_locked(tmp_path / "run")


@pytest.mark.parametrize("more", [(), ("--resume",)])
def test_training_in_a_directory_that_is_in_use_is_refused(holder, tmp_path, capsys, more):
    before = sorted(tmp_path.rglob("*"))
    assert main(train_arguments(tmp_path / "run", 2, *more)) == 2
    error = capsys.readouterr().err
    assert re.fullmatch(rf"error: \S+ is in use: process {holder.pid} trains there; [^\n]*\n", error)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_lock_goes_with_its_process(holder, tmp_path, number):
    holder.send_signal(number)
    holder.wait(60)
    assert (tmp_path / "run" / "run.lock").exists(), "the file stays and locks nobody out"
    held = RunLock(tmp_path / "run")
    assert (tmp_path / "run" / "run.lock").read_text().split()[0] == str(os.getpid())
    held.release()
    assert not (tmp_path / "run" / "run.lock").exists()


def test_a_released_lock_is_free_and_an_abandoned_directory_gone(tmp_path):
    first = RunLock(tmp_path / "run")
    first.release()
    assert (tmp_path / "run").is_dir()
    RunLock(tmp_path / "run").release(abandon=True)
    assert (tmp_path / "run").is_dir(), "it was there before"
    RunLock(tmp_path / "other").release(abandon=True)
    assert not (tmp_path / "other").exists()


def test_a_file_that_is_removed_between_opening_and_locking_is_not_taken_for_the_lock(tmp_path, monkeypatch):
    """The one who had it unlinks it on release: a lock on a file without a name keeps nobody out."""
    first, real = RunLock(tmp_path), fcntl.flock

    def late(*arguments):
        first.release()
        real(*arguments)

    monkeypatch.setattr(lock.fcntl, "flock", late)
    second = RunLock(tmp_path)
    monkeypatch.undo()
    with pytest.raises(UserError, match="is in use"):
        RunLock(tmp_path)
    second.release()


@pytest.mark.parametrize("kind", ["no flock", "no locks"])
def test_without_locks_a_run_goes_on_and_says_so(tmp_path, monkeypatch, kind):
    if kind == "no flock":
        monkeypatch.setattr(lock, "fcntl", None)
    else:

        def refused(*arguments):
            raise OSError(37, "No locks available")

        monkeypatch.setattr(lock.fcntl, "flock", refused)
    held = RunLock(tmp_path)
    assert held.note == f"{tmp_path} cannot be locked: take care that no second process trains there."
    held.require()
    held.release()


def test_windows_which_removes_no_open_file_is_left_no_lock(tmp_path, monkeypatch):
    """It has no flock, and its unlink refuses a file that a process holds open."""
    monkeypatch.setattr(lock, "fcntl", None)
    held, real = RunLock(tmp_path / "run"), Path.unlink

    def unlink(path):
        if not held._file.closed:
            raise PermissionError(13, "The process cannot access the file because it is being used")
        real(path)

    monkeypatch.setattr(Path, "unlink", unlink)
    held.release(abandon=True)
    assert not (tmp_path / "run").exists()


def test_the_note_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lock, "fcntl", None)
    assert main(train_arguments(tmp_path / "run", 1)) == 0
    assert f"{tmp_path / 'run'} cannot be locked" in capsys.readouterr().out


def test_a_directory_that_was_moved_removed_or_replaced_is_not_ours(tmp_path):
    run = tmp_path / "run"
    held = RunLock(run)
    held.require()
    run.rename(tmp_path / "moved")
    with pytest.raises(OSError, match="was moved or removed"):
        held.require()
    run.mkdir()
    with pytest.raises(OSError, match="was moved or removed"):
        held.require()
    other = RunLock(run)
    held.release()
    assert (run / "run.lock").exists(), "the other one's"
    run.rename(tmp_path / "second")
    other.release()


def test_a_run_goes_on_without_its_lock_file(tmp_path):
    held = RunLock(tmp_path)
    (tmp_path / "run.lock").unlink()
    held.require()
    held.release()


def test_a_directory_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"Cannot write in .*: Not a directory\."):
        RunLock(tmp_path / "file" / "run")


def test_the_lock_is_held_from_the_first_word_to_the_last(tmp_path):
    """A real run, whose directory a second one asks for as soon as it is there, and again when it has ended."""
    script = Path(__file__).resolve().parents[3] / "scripts" / "train.py"
    command = [sys.executable, str(script), *train_arguments(tmp_path / "run", 100_000)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 90
        while not (tmp_path / "run" / "metrics.jsonl").exists() and time.monotonic() < end:
            time.sleep(0.05)
        with pytest.raises(UserError, match=f"process {process.pid} trains there"):
            RunLock(tmp_path / "run")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    RunLock(tmp_path / "run").release()
