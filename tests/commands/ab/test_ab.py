"""--mode ab: what is refused before anything runs, turns, what a kill leaves, failing sides, fresh runs."""

import json
import os
import re
import shlex
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from commands.test_cli import ROOT, SMALL, TOYS, refused  # noqa: F401

from longstride.cli import main
from longstride.commands import comparison_folder
from longstride.commands.ab import runs
from longstride.commands.ab.side import read_side
from longstride.own_files.marker import mark_folder
from longstride.setting_flags import Parser, add_flags, flags_of
from longstride.training.run_directory.lock import RunLock

BANDIT = ["--simulator", f"{TOYS}:Bandit"]


def ab(directory, *flags):
    return main(["--mode", "ab", *BANDIT, "--run-directory", str(directory), *flags])


def argument(arguments, name):
    return [value for flag, value in pairwise(arguments) if flag == f"--{name}"]


class FakeRuns:
    """In place of fresh processes: writes what a run leaves, with updates that take a second an epoch."""

    def __init__(self):
        self.trained, self.interrupt_at, self.fail_at = [], None, None

    def __call__(self, arguments, log, stop=None):
        log.write_text("")
        if arguments[1] == "plan":
            return 0, 1.0
        (directory,) = argument(arguments, "run-directory")
        epochs = float((argument(arguments, "num-epochs") or [1])[-1])
        self.trained.append((directory[-1], *argument(arguments, "seed"), epochs))
        os.makedirs(directory, exist_ok=True)
        mark_folder(Path(directory), "run")
        if len(self.trained) == self.interrupt_at:
            raise KeyboardInterrupt
        if len(self.trained) == self.fail_at:
            log.write_text("Plan:\nerror: The disk is full.\n")
            return 2, 1.0
        jitter = 1 + len(self.trained) / 1000
        records = [
            {
                **{"iteration": n, "steps": 10, "return": 1.0, "metrics": {}, "trajectory_sha256": f"{epochs}{n}"},
                **{"simulation_seconds": jitter, "transfer_seconds": 0.0, "update_seconds": epochs / jitter},
                **{"precision": "fp32", "batch_size": 64, "execution": "numba"},
            }
            for n in (1, 2, 3)
        ]
        with open(f"{directory}/metrics.jsonl", "w") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
        with open(f"{directory}/plan.json", "w") as file:
            json.dump({"batch_size": 1024, "machine": {"physical_cores": 3}}, file)
        return 0, 60.0


@pytest.fixture
def fake_runs(monkeypatch):
    fake = FakeRuns()
    for module in (runs, comparison_folder):
        monkeypatch.setattr(module, "run_fresh", fake)
    return fake


def test_sides_take_turns_with_equal_seeds_and_a_slowdown_is_found_in_its_phase(tmp_path, fake_runs, capsys):
    flags = ("--a", "--num-epochs=1", "--b", "--num-epochs 4", "--seed", "7", "--pairs", "4")
    assert ab(tmp_path / "ab", *flags) == 0
    assert fake_runs.trained == [
        *(("a", "7", 1.0), ("b", "7", 4.0), ("b", "8", 4.0), ("a", "8", 1.0)),
        *(("a", "9", 1.0), ("b", "9", 4.0), ("b", "10", 4.0), ("a", "10", 1.0)),
    ]
    found = json.loads((tmp_path / "ab" / "ab.json").read_text())
    assert found["machine"] == {"physical_cores": 3}
    assert [found[side]["values"]["num_epochs"] for side in "ab"] == [1, 4]
    assert [found[side]["values"]["training_episodes"] for side in "ab"] == [3, 3]
    assert [(run["seed"], run["first"]) for run in found["runs"]] == [(7, "a"), (8, "b"), (9, "a"), (10, "b")]
    ratios = {name: row["ratio"] for name, row in found["comparison"]["seconds"].items()}
    assert ratios["update"]["value"] == pytest.approx(4.0, rel=0.01)
    assert ratios["simulation"]["low"] < 1.0 < ratios["simulation"]["high"]
    assert ratios["iteration"]["value"] == pytest.approx(2.5, rel=0.01)
    out = capsys.readouterr().out
    assert "NUM_EPOCHS: 1 (A), 4 (B)." in out
    assert "Update: B takes 4 times as long as A" in out
    assert "first iteration (warm-up)" in out
    assert "Both ran with numba steps in fp32, minibatches of 1,024 samples." in out


def test_one_side_alone_is_compared_with_the_flags_of_both(tmp_path, fake_runs, capsys):
    assert ab(tmp_path, "--num-epochs", "2", "--b", "--num-epochs 3", "--pairs", "1", "--training-episodes", "4") == 0
    assert sorted(fake_runs.trained) == [("a", "0", 2.0), ("b", "0", 3.0)]
    assert json.loads((tmp_path / "ab.json").read_text())["a"]["values"]["training_episodes"] == 4
    assert main(["--mode", "ab", *BANDIT, "--run-directory", str(tmp_path / "2"), "--a", "", "--pairs", "1"]) == 0
    assert "A and B are the same settings" in capsys.readouterr().out


def test_an_interrupted_comparison_goes_on_where_it_stopped(tmp_path, fake_runs, capsys):
    flags = ("--b", "--num-epochs 2", "--pairs", "2")
    fake_runs.interrupt_at = 4
    assert ab(tmp_path, *flags) == 130
    assert "Finished runs are kept" in capsys.readouterr().out
    assert json.loads((tmp_path / "ab.json").read_text())["comparison"]["pairs"] == 1, "the pair that is complete"
    (tmp_path / "pair-2" / "a" / "metrics.jsonl").write_text("of the run that was cut off")
    assert ab(tmp_path, *flags) == 0
    assert [run[:2] for run in fake_runs.trained] == [("a", "0"), ("b", "0"), ("b", "1"), ("a", "1"), ("a", "1")]
    assert "4 runs, 3 of them made before." in capsys.readouterr().out
    assert ab(tmp_path, *flags[:-1], "3") == 0, "more pairs add to it"
    assert [run[:2] for run in fake_runs.trained[5:]] == [("a", "2"), ("b", "2")]
    assert json.loads((tmp_path / "ab.json").read_text())["comparison"]["pairs"] == 3


def test_a_run_that_is_still_going_on_is_left_alone(tmp_path, fake_runs, refused):  # noqa: F811
    mark_folder(tmp_path, "comparison")
    mark_folder(tmp_path / "pair-1" / "a", "run")
    left = RunLock(tmp_path / "pair-1" / "a")
    message = refused("--mode", "ab", *BANDIT, "--a", "", "--run-directory", tmp_path)
    assert "is in use" in message
    left.release()


def test_another_comparison_is_not_mixed_into_one(tmp_path, fake_runs, refused):  # noqa: F811
    assert ab(tmp_path, "--b", "--num-epochs 2", "--pairs", "1") == 0
    command = ("--mode", "ab", *BANDIT, "--run-directory", tmp_path, "--pairs", 1)
    assert "is of other settings" in refused(*command, "--b", "--num-epochs 3")
    assert "is of other settings" in refused(*command, "--b", "--num-epochs 2", "--seed", 1)
    (tmp_path / "ab.json").write_text("{")
    assert "is damaged" in refused(*command, "--b", "--num-epochs 2")
    assert len(fake_runs.trained) == 2


def test_a_failing_side_is_named_with_its_sentence(tmp_path, fake_runs, refused):  # noqa: F811
    fake_runs.fail_at = 2
    message = refused("--mode", "ab", *BANDIT, "--run-directory", tmp_path, "--b", "--num-epochs 2")
    log = tmp_path / "pair-1" / "b.log"
    assert message == f"Side B failed in pair 1: The disk is full. All of it: {log}."
    assert log.exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], '--mode ab needs --a "FLAGS" or --b "FLAGS"'),
        (["--a", "--gama 0.9"], "--a: Unknown argument --gama; did you mean --gamma?"),
        (["--a", "--gamma 2"], "--a: --gamma: '2' should be less than or equal to 1."),
        (["--b", "--gamma"], "--b: Argument --gamma: expected one argument."),
        (["--b", "fast"], "--b: Unknown argument fast"),
        (["--b", "--gamma '0.9"], '--b: "--gamma \'0.9" cannot be split into flags: no closing quotation.'),
        (["--b", "--seed 4"], "--b: --seed is the same for both sides; give it outside of the quotes."),
        (["--b", "--run-directory x"], "--b: --run-directory is the same for both sides"),
        (["--b", "--training-episodes 1"], "--mode ab needs --training-episodes 2 or more"),
        (["--b", "--hyperparameters none.py"], "--b: There is no hyperparameters file none.py."),
        (["--b", "--simulator nowhere.py:Nothing"], "There is no simulator file nowhere.py."),
        (["--a", "", "--pairs", "0"], "--pairs: 0 should be 1 or more."),
        (["--a", "", "--pairs", "x"], "Argument --pairs: invalid int value: 'x'."),
        (["--a"], "Argument --a: expected one argument."),
        (["--a", "--b", ""], "Argument --a: expected one argument."),
        (["--a", "", "--resume"], "--resume does not go with --mode ab."),
        (["--a", "", "--gamma", "2"], "--gamma: '2' should be"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(flags, message, tmp_path, fake_runs, refused):  # noqa: F811
    assert refused("--mode", "ab", *BANDIT, "--run-directory", tmp_path / "ab", *flags).startswith(message)
    assert not fake_runs.trained
    assert not (tmp_path / "ab" / "ab.json").exists()


def test_flags_of_ab_go_with_no_other_mode(refused, tmp_path):  # noqa: F811
    assert refused("--mode", "train", "--b", "").startswith("--b does not go with --mode train.")
    assert refused("--mode", "evaluate", "--pairs", "3").startswith("--pairs does not go with --mode evaluate.")
    assert "needs --run-directory" in refused("--mode", "ab", "--a", "")


def test_a_directory_with_a_run_is_not_touched(tmp_path, fake_runs, refused):  # noqa: F811
    (tmp_path / "checkpoints" / "last").mkdir(parents=True)
    (tmp_path / "checkpoints" / "last" / "checkpoint.json").write_text("{}")
    message = refused("--mode", "ab", *BANDIT, "--run-directory", tmp_path, "--a", "")
    assert "already holds a run" in message
    assert not (tmp_path / "ab.json").exists()


def test_a_side_can_have_a_file_and_options_of_its_own(tmp_path):
    (tmp_path / "fast.py").write_text("NUM_EPOCHS = 2\nSEED = 5\n")
    common = {"gamma": "0.9", "use_tf32": True, "simulator_options": {"x": 1, "y": "a b"}}
    side = read_side("b", f"--hyperparameters {tmp_path}/fast.py --no-use-tf32 --simulator-option x=true", None, common)
    assert side.config.num_epochs == 2
    assert side.config.simulator_options == {"x": True, "y": "a b"}
    arguments = side.arguments("train", tmp_path / "run", seed="3")
    parser = Parser(allow_abbrev=False)
    parser.add_argument("--mode")
    parser.add_argument("--hyperparameters")
    add_flags(parser)
    assert vars(parser.parse_known_flags(arguments)) == {
        **{"mode": "train", "hyperparameters": f"{tmp_path}/fast.py", "gamma": "0.9", "use_tf32": False},
        **{"simulator_options": {"x": True, "y": "a b"}, "training_episodes": "3", "seed": "3"},
        **{"grow_rollouts": False},
        "run_directory": str(tmp_path / "run"),
    }


def test_the_documented_comparison(tmp_path, fake_runs, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "how-to" / "compare-two-settings.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^longstride (--mode ab .*)$", text, re.MULTILINE)
    assert main(shlex.split(command)) == 0
    values = json.loads((tmp_path / "runs" / "ab" / "ab.json").read_text())
    different = {name for name, value in values["a"]["values"].items() if value != values["b"]["values"][name]}
    assert different == {"use_mixed_precision", "auto_batch_size"}
    assert [len(values["runs"]), values["b"]["values"]["auto_batch_size"]] == [5, True]


def test_flags_are_read_as_what_they_were_made_from():
    options = {
        **{"gamma": "0.9", "initial_log_std": "-1e-3", "event_log": "a b.csv", "time_budget": ""},
        **{"use_tf32": False, "auto_batch_size": True},
        "simulator_options": {"n": 5, "text": "5", "odd": "a=b c", "none": None, "on": True},
    }
    parser = Parser(allow_abbrev=False)
    add_flags(parser)
    assert vars(parser.parse_known_flags(flags_of(options))) == options


@pytest.mark.slow
@pytest.mark.slow
def test_equal_settings_learn_the_same_to_the_bit_in_fresh_processes(tmp_path, refused):  # noqa: F811
    common = (
        "--mode",
        "ab",
        *SMALL,
        "--pairs",
        "1",
        "--training-episodes",
        "2",
        "--run-directory",
        str(tmp_path / "ab"),
    )
    both = "--gamma 0.9 --simulation-threads 1"
    assert main([*common, "--a", both, "--b", f"{both} --update-threads 1"]) == 0
    found = json.loads((tmp_path / "ab" / "ab.json").read_text())
    assert found["comparison"]["played_the_same"]
    assert found["runs"][0]["a"]["outcome"] == found["runs"][0]["b"]["outcome"]
    assert found["comparison"]["outcome"]["difference"]["value"] == 0.0
    assert found["machine"]["physical_cores"] >= 1
    for run in (found["runs"][0][side]["seconds"] for side in "ab"):
        assert run["iteration"] > run["update"] > 0
        assert run["outside_iterations"] > run["iteration"], "starting Python alone takes longer"
    config = json.loads((tmp_path / "ab" / "pair-1" / "b" / "config.json").read_text())
    assert config["values"]["update_threads"] == 1
    assert (tmp_path / "ab" / "pair-1" / "a" / "checkpoints").is_dir()
    shutil.rmtree(tmp_path / "ab")
    message = refused(*common, "--a", "", "--b", "--precision fp16")
    assert message.startswith("--b: "), message
    assert not (tmp_path / "ab" / "pair-1").exists(), "nothing has run"
