"""Trainings of a search: done once, resumed after a kill, begun again where nothing was saved, with a share of time."""

import json
from pathlib import Path

import pytest

pytest.importorskip("pydantic")

from longstride.commands import comparison_folder
from longstride.errors import UserError
from longstride.own_files.marker import mark_folder
from longstride.process.front import trainings as own
from longstride.process.front.trainings import common_trainings, train_once
from longstride.settings import load_settings


class FakeRuns:
    """In place of fresh processes: leaves a checkpoint after the first part of a training, and may be killed there."""

    def __init__(self):
        self.calls, self.kill, self.code = [], "", 0

    def __call__(self, arguments, log, stop=None):
        self.calls.append(arguments)
        directory = Path(arguments[arguments.index("--run-directory") + 1])
        log.write_text("error: Memory ran out.\n" if self.code else "Plan:\n")
        directory.mkdir(parents=True, exist_ok=True)
        mark_folder(directory, "run")
        if self.kill == "early":
            raise KeyboardInterrupt
        if self.kill == "no time":
            return 0, 30.0
        last = directory / "checkpoints" / "last"
        last.mkdir(parents=True, exist_ok=True)
        (last / "iteration-00000001.json").write_text("{}")
        if self.kill:
            raise KeyboardInterrupt
        return self.code, 30.0


@pytest.fixture
def runs(monkeypatch):
    fake = FakeRuns()
    monkeypatch.setattr(comparison_folder, "run_fresh", fake)
    monkeypatch.setattr(own, "run_fresh", fake)
    return fake


ARGUMENTS = ["--mode", "train", "--total-steps", "10"]


def test_a_training_is_done_once(tmp_path, runs):
    assert train_once(tmp_path / "weight-1", ARGUMENTS, print) == 30.0
    assert train_once(tmp_path / "weight-1", ARGUMENTS, print) == 30.0
    assert len(runs.calls) == 1
    assert runs.calls[0][:4] == ARGUMENTS


def test_a_training_that_was_killed_is_resumed(tmp_path, runs):
    runs.kill = "late"
    with pytest.raises(KeyboardInterrupt):
        train_once(tmp_path / "weight-1", ARGUMENTS, print)
    runs.kill, said = "", []
    assert train_once(tmp_path / "weight-1", ARGUMENTS, said.append) == 30.0
    assert "--resume" in runs.calls[1]
    assert "--total-steps" not in runs.calls[1], "the run has its own settings"
    assert said == [f"  resuming {tmp_path / 'weight-1'}"]


def test_a_training_without_a_checkpoint_begins_again(tmp_path, runs):
    runs.kill = "early"
    with pytest.raises(KeyboardInterrupt):
        train_once(tmp_path / "weight-1", ARGUMENTS, print)
    runs.kill = ""
    train_once(tmp_path / "weight-1", ARGUMENTS, print)
    assert "--resume" not in runs.calls[1]
    assert runs.calls[1] == runs.calls[0]


def test_a_training_that_fails_is_a_sentence_and_is_tried_again(tmp_path, runs):
    runs.code = 2
    with pytest.raises(UserError, match=r"The training in .*weight-1 failed: Memory ran out\. All of it: .*\.log\."):
        train_once(tmp_path / "weight-1", ARGUMENTS, print)
    runs.code = 0
    train_once(tmp_path / "weight-1", ARGUMENTS, print)
    assert len(runs.calls) == 2


def test_a_training_without_time_for_an_iteration_is_not_done(tmp_path, runs):
    runs.kill = "no time"
    with pytest.raises(UserError, match="had no time for an iteration; the same command with more --minutes continues"):
        train_once(tmp_path / "weight-1", ARGUMENTS, print)
    runs.kill = ""
    assert train_once(tmp_path / "weight-1", ARGUMENTS, print) == 30.0
    assert len(runs.calls) == 2


def flags(seconds, **options):
    settings = load_settings(None, {name: str(value) for name, value in options.items()})
    made = common_trainings(settings, {name: str(value) for name, value in options.items()}, None, seconds)
    return made, made.arguments(Path("s.json"), 4, {"objective": "cost=1 cycle_time=2"})


def test_the_time_is_shared_by_the_trainings_unless_they_have_a_length():
    made, words = flags(400.0, scenario="loan_desk", cost=40, num_epochs=3)
    assert words[words.index("--time-budget") + 1] == "90s"
    assert words[words.index("--num-epochs") + 1] == "3"
    assert words[words.index("--scenario") + 1] == "s.json"
    assert "--cost" not in words, "the scenario has it"
    assert made.has_time(1e9, 1), "each training has its own limit"
    made, words = flags(400.0, training_episodes=5)
    assert "--time-budget" not in words
    assert made.has_time(200.0, 1)
    assert not made.has_time(201.0, 1)
    made, words = flags(None)
    assert "--time-budget" not in words
    assert made.has_time(1e9, 1)


def test_a_training_whose_start_took_the_time_is_reported(tmp_path, monkeypatch):
    done = {"weight-1": 1, "weight-2": 12}
    monkeypatch.setattr(own, "whole_records", lambda directory: [{}] * done[directory.name])
    directories = [str(tmp_path / name) for name in done]
    assert flags(400.0)[0].short(directories) == [
        "Hardly trained, since starting and compiling took most of the time: weight-1 1 iteration. More --minutes in a "
        "new --run-directory train longer."
    ]
    assert not flags(400.0)[0].short(directories[1:])
    assert not flags(400.0, training_episodes=1)[0].short(directories), "as asked for"


def test_what_a_file_says_of_the_process_is_in_the_scenario(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(f"EVENT_LOG = {json.dumps(str(tmp_path / 'log.csv'))}\nDUE = 'column promised'\nNUM_EPOCHS = 2\n")
    made = common_trainings(load_settings(file, {}), {}, file, None)
    assert made.flags == ["--hyperparameters", str(file), "--event-log", "", "--due", ""]
