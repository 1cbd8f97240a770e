"""Folders that hold files of the user: each mode refuses them with a sentence, and every file stays as it was."""

import hashlib
import json
import os
import shutil

import pytest
from commands.test_cli import SMALL, refused, train_arguments  # noqa: F401

from longstride.cli import main
from longstride.own_files.marker import MARKER, kind_of, mark_folder

SWEEP = ("--mode", "sweep", *SMALL, "--sweep", "learning_rate_actor=1e-4..1e-2 log", "--trials", "1")
SWEEP = (*SWEEP, "--finalists", "1", "--held-out-seeds", "0", "--training-episodes", "2")
AB = ("--mode", "ab", *SMALL, "--a", "", "--pairs", "1", "--training-episodes", "2")
SCENARIO = "src/core/longstride/process/scenarios/loan_desk.json"
posix = pytest.mark.skipif(os.name != "posix", reason="links of POSIX")


def digests(folder):
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two iterations; a test changes a copy."""
    directory = tmp_path_factory.mktemp("runs") / "run"
    assert main(train_arguments(directory)) == 0
    return directory


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / "run")


@pytest.mark.parametrize("command", [SWEEP, AB], ids=["sweep", "ab"])
def test_folders_with_the_names_of_trainings_are_not_removed(tmp_path, refused, command):  # noqa: F811
    for name in ("base", "trial-0000", "held-out/base-seed-1", "pair-1/a", "pair-1/b", "plans"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "mine.txt").write_text(name)
    (tmp_path / "journal.log").write_text("first line\nno newline")
    before = digests(tmp_path)
    sentence = refused(*command, "--run-directory", tmp_path)
    assert sentence.startswith(f"{tmp_path} holds base, but no {MARKER}, so it is not the folder of a ")
    assert digests(tmp_path) == before


def test_a_foreign_journal_in_the_folder_of_a_sweep_is_left(tmp_path, refused):  # noqa: F811
    pytest.importorskip("optuna")
    mark_folder(tmp_path, "sweep")
    (tmp_path / "journal.log").write_text("first line\nno newline")
    before = digests(tmp_path)
    assert "journal.log is damaged, or no file of a search; move it away" in refused(
        *SWEEP, "--run-directory", tmp_path
    )
    assert digests(tmp_path) == before


@pytest.mark.parametrize(
    "name",
    ["config.json", "plan.json", "report.html", "metrics.jsonl", "learning_curve.png", "scenario.json", "notes.txt"],
)
def test_a_training_takes_no_folder_that_is_no_run(tmp_path, refused, name):  # noqa: F811
    (tmp_path / name).write_text('{"values": {}}')
    before = digests(tmp_path)
    assert refused(*train_arguments(tmp_path)) == (
        f"{tmp_path} holds {name}, but no {MARKER}, so it is not the folder of a run; name a new or empty folder with "
        "--run-directory."
    )
    assert digests(tmp_path) == before


def test_a_scenario_in_the_working_folder_is_not_rewritten(tmp_path, refused, monkeypatch):  # noqa: F811
    shutil.copy(SCENARIO, tmp_path / "scenario.json")
    before = digests(tmp_path)
    monkeypatch.chdir(tmp_path)
    arguments = ("--mode", "train", "--scenario", "scenario.json", "--run-directory", ".", "--device", "cpu")
    assert refused(*arguments, "--training-episodes", "1").startswith(". holds scenario.json, but no ")
    mark_folder(tmp_path, "run")
    assert "scenario.json is read by this training, which would write over it" in refused(*arguments)
    (tmp_path / MARKER).unlink()
    assert digests(tmp_path) == before


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        (("evaluate", "--policy", "first", *SMALL), "evaluation.json"),
        (("plan", *SMALL), "plan.json"),
        (("whatif", "--policy", "fifo", "--scenario", "loan_desk", "--change", "people +1"), "whatif.json"),
        (("backtest", "--event-log", "none.csv"), "backtest.json"),
        (("backtest", "--event-log", "none.csv"), "backtest.md"),
    ],
)
def test_a_result_in_the_working_folder_replaces_no_file_of_the_user(tmp_path, refused, monkeypatch, mode, name):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text('{"mine": 1}')
    before = digests(tmp_path)
    assert f"{name} was not written by Longstride" in refused("--mode", *mode)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    before = digests(tmp_path)
    assert "holds mine.txt, but no" in refused("--mode", *mode, "--run-directory", "other")
    assert digests(tmp_path) == before


def test_a_plan_prepares_its_folder_for_the_training(tmp_path, monkeypatch):
    for _ in range(2):
        assert main(["--mode", "plan", *SMALL, "--run-directory", str(tmp_path / "run")]) == 0
    assert kind_of(tmp_path / "run") == "run"
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main(["--mode", "plan", *SMALL]) == 0, "its own plan.json is replaced"


def test_a_run_of_an_earlier_version_is_known_and_gets_the_marker(copy, refused):  # noqa: F811
    (copy / MARKER).unlink()
    before = digests(copy)
    assert "already holds a run" in refused(*train_arguments(copy))
    assert digests(copy) == before
    assert main(["--mode", "report", "--run-directory", str(copy)]) == 0
    assert main(train_arguments(copy, 3, "--resume")) == 0
    assert kind_of(copy) == "run"
    assert len((copy / "metrics.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize("marked", [True, False])
def test_a_training_that_died_before_its_first_checkpoint_begins_again(copy, marked):
    shutil.rmtree(copy / "checkpoints")
    if not marked:
        (copy / MARKER).unlink()
    (copy / "notes.txt").write_text("mine")
    assert main(train_arguments(copy)) == 0
    assert (copy / "notes.txt").read_text() == "mine"


def test_a_refused_training_leaves_no_folder(tmp_path, refused):  # noqa: F811
    scenario = shutil.copy(SCENARIO, tmp_path / "mine.json")
    flags = ("--scenario", scenario, "--actor-hidden-size", "16", "--device", "cuda")
    assert "cuda" in refused("--mode", "train", *flags, "--run-directory", tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.json"]


@posix
@pytest.mark.parametrize("name", ["run.lock", "config.json.tmp", "metrics.jsonl.tmp", "plan.json.tmp"])
def test_a_planted_link_is_not_followed(copy, tmp_path, refused, name):  # noqa: F811
    victim = tmp_path / "victim"
    victim.write_text("content")
    (copy / name).symlink_to(victim)
    assert f"{name} is a symbolic link, and links are not followed there" in refused(
        *train_arguments(copy, 3, "--resume")
    )
    assert victim.read_text() == "content"
    assert (copy / name).is_symlink()


@posix
def test_a_foreign_file_in_place_of_the_lock_is_not_emptied(copy, refused):  # noqa: F811
    (copy / "run.lock").write_text("a lock of\nanother program")
    assert "its run.lock is not a lock of Longstride; move that file away" in refused(
        *train_arguments(copy, 3, "--resume")
    )
    assert (copy / "run.lock").read_text() == "a lock of\nanother program"


def test_an_export_takes_no_folder_with_other_files(copy, tmp_path, refused):  # noqa: F811
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "main.c").write_text("mine")
    command = ("--mode", "export", "--checkpoint", copy, "--output", tmp_path / "out", "--format", "safetensors")
    assert "holds main.c, but no" in refused(*command)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["main.c"]


def test_a_report_replaces_no_page_of_the_user(copy, refused):  # noqa: F811
    (copy / MARKER).unlink()
    shutil.rmtree(copy / "checkpoints")
    (copy / "config.json").unlink()
    (copy / "report.html").write_text("<p>mine</p>")
    assert "report.html was not written by Longstride" in refused("--mode", "report", "--run-directory", copy)
    assert (copy / "report.html").read_text() == "<p>mine</p>"


def test_the_marker_of_a_run(run):
    assert json.loads((run / MARKER).read_text()) == {"format": "longstride-folder/1", "kind": "run"}
