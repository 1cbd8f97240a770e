"""Paths of a run, and which directory a run takes."""

import pytest

from longstride.errors import UserError
from longstride.training.run_directory.directory import (
    RunDirectory,
    checkpoint_files,
    checkpoint_name,
    choose_directory,
    iteration_of,
    run_directory_of,
)


def test_a_free_directory_is_chosen_in_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chosen = []
    for _ in range(3):
        directory = choose_directory("", "gymnasium/CartPole")
        directory.path.mkdir(parents=True)
        chosen.append(str(directory))
    assert chosen == ["runs/gymnasium-CartPole", "runs/gymnasium-CartPole-2", "runs/gymnasium-CartPole-3"]
    assert str(choose_directory("mine", "other")) == "mine"


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is a file; --run-directory needs a folder"):
        choose_directory(str(tmp_path / "file"), "run")


def test_the_run_of_a_checkpoint_folder(tmp_path):
    run = RunDirectory(tmp_path / "run")
    assert run_directory_of(run.checkpoints("best")).path == run.path
    assert run_directory_of(run.path).path == run.path


def test_checkpoints_are_listed_by_their_iteration(tmp_path):
    for iteration in (7, 100_000_000, 12):
        (tmp_path / f"{checkpoint_name(iteration)}.json").touch()
    for other in ("iteration-one.json", "iteration-00000013.safetensors", "notes.json"):
        (tmp_path / other).touch()
    assert [iteration_of(path) for path in checkpoint_files(tmp_path)] == [100_000_000, 12, 7]


@pytest.mark.parametrize("name", ["iteration-00000001.json", "episode-00000001.json", "checkpoint.json"])
def test_a_run_of_any_version_is_not_overwritten(tmp_path, name):
    run = RunDirectory(tmp_path)
    run.require_free()
    run.checkpoints("last").mkdir(parents=True)
    run.require_free()
    (run.checkpoints("last") / name).touch()
    assert run.holds_run()
    with pytest.raises(UserError, match=f"{tmp_path} already holds a run; add --resume to continue it"):
        run.require_free()
