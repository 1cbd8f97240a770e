"""A run directory of somebody else, sealed as a run seals it: no mode and no function runs what it names."""

import json
import sys

import numpy as np
import pytest
from helpers.exported_policies import model_of, save_run
from oracles.toy_simulators import Shop

pytest.importorskip("pydantic")
pytest.importorskip("gymnasium")

from longstride import Hyperparameters, evaluate, load_policy, load_recommender, train
from longstride.cli import main
from longstride.config import Config
from longstride.errors import UserError

EVIL = """
from pathlib import Path

Path({mark!r}).write_text("it ran")
from oracles.toy_simulators import Shop
"""
NAMES = ("{run}/evil.py:Shop", "evil_module:Shop", "evil_package.sub:Shop", "gymnasium:evil_module:Shop-v0", "adapter")
MODES = (
    ("report", "--run-directory"),
    ("evaluate", "--checkpoint"),
    ("recommend", "--run-directory", "--state", "state.json"),
    ("export", "--checkpoint", "--format", "safetensors"),
    ("whatif", "--checkpoint", "--change", "arrivals +10 %"),
    ("replay", "--run-directory", "--iteration", "1"),
    ("train", "--run-directory", "--resume"),
    ("doctor", "--run-directory"),
    ("track", "--run-directory", "--to", "wandb"),
)
RECORD = {
    **{"iteration": 1, "steps": 10, "simulated_episodes": 1, "return": 1.0, "mean_reward": 0.1, "metrics": {}},
    **{"simulation_seconds": 0.5, "update_seconds": 1.5, "learning_rate": 3e-4, "trajectory_sha256": "0" * 64},
}


def source_of(name, run):
    if name == "adapter":  # a class of the package that builds whatever environment its options name
        options = {"name": "evil_module:Shop-v0", "options": {}}
        return {"simulator": "longstride.simulators.gym.adapter:GymnasiumSimulator", "options": options}
    return {"simulator": name.format(run=run), "options": {}}


def write_run(run, source, **settings):
    """Write a run directory that a training could have left, whose simulator is whatever ``source`` says."""
    save_run(run, model_of("shop"), source, {"simulator": source["simulator"]})
    values = Config(simulator=source["simulator"], simulator_options=source["options"], **settings).model_dump()
    content = {"values": values, "sources": dict.fromkeys(values, "flag")}
    (run / "config.json").write_text(json.dumps(content))
    (run / "metrics.jsonl").write_text(json.dumps(RECORD) + "\n")


@pytest.fixture(params=NAMES)
def foreign(request, tmp_path, monkeypatch):
    """Return a foreign run and the file that its code writes if it runs; the working folder has that code, too."""
    run, mark = tmp_path / "run", tmp_path / "mark"
    write_run(run, source_of(request.param, run))
    (tmp_path / "evil_package").mkdir()
    for path in (run / "evil.py", tmp_path / "evil_module.py", tmp_path / "evil_package" / "__init__.py"):
        path.write_text(EVIL.format(mark=str(mark)))
    (tmp_path / "state.json").write_text("{}")
    for name in ("evil_module", "evil_package", "evil_package.sub"):  # what was imported before would not run again
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("LONGSTRIDE_STATE", str(tmp_path / "state"))
    return run, mark


def test_no_mode_runs_what_a_foreign_run_names(foreign, capsys):
    run, mark = foreign
    asks = []
    for mode, flag, *more in MODES:
        code = main(["--mode", mode, flag, str(run), *more])
        printed = capsys.readouterr()
        assert not mark.exists(), (mode, printed)
        assert "Traceback" not in printed.out + printed.err
        if code == 2 and ("--trust-simulator" in printed.err or "Cannot import" in printed.err):
            asks.append(mode)
    assert asks == ["evaluate", "replay", "train", "doctor"]


def test_no_function_runs_what_a_foreign_run_names(foreign):
    run, mark = foreign
    load_policy(run)
    with pytest.raises(UserError, match="is for processes"):
        load_recommender(run)
    with pytest.raises(UserError, match=r"trust_simulator=True|Cannot import"):
        evaluate(run, quiet=True)
    assert not mark.exists()


def test_it_runs_with_the_flag_and_the_evil_file_is_named_before(tmp_path, monkeypatch, capsys):
    run, mark = tmp_path / "run", tmp_path / "mark"
    write_run(run, source_of(NAMES[0], run))
    (run / "evil.py").write_text(EVIL.format(mark=str(mark)))
    command = ["--mode", "evaluate", "--checkpoint", str(run), "--evaluation-episodes", "2"]
    assert main(command) == 2
    sentence = f"The checkpoint in {run} has no digest of {run}/evil.py to compare with"
    unnamed = f"The run in {run} would run {run}/evil.py, which you have not named; if you trust it, "
    assert capsys.readouterr().err.startswith(f"error: {unnamed}add --trust-simulator.")
    assert main([*command, "--simulator", f"{run}/evil.py:Shop"]) == 2
    assert sentence in capsys.readouterr().err
    assert not mark.exists()
    main([*command, "--trust-simulator"])
    assert mark.exists()


SMALL = Hyperparameters(
    training_episodes=1, actor_hidden_size=16, critic_hidden_size=16, num_hidden_layers=2, device="cpu", batch_size=64
)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Return a folder with a simulator in two files and a run of it; nothing is remembered of it."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "beside_mine.py").write_text("from oracles.toy_simulators import Shop\n")
    (folder / "mine.py").write_text("from beside_mine import Shop\n\n\nclass Mine(Shop):\n    pass\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGSTRIDE_STATE", "off")
        train(f"{folder / 'mine.py'}:Mine", SMALL, run_directory=folder / "run", quiet=True, report=False)
    return folder


def play(folder, *more):
    command = ["--mode", "evaluate", "--checkpoint", str(folder / "run"), "--evaluation-episodes", "2", "--no-report"]
    return main([*command, "--policy", "order_up", *more])


def test_a_simulator_that_the_user_names_runs_while_it_is_unchanged(own, monkeypatch, capsys):
    monkeypatch.setenv("LONGSTRIDE_STATE", "off")
    name = f"{own / 'mine.py'}:Mine"
    assert play(own) == 2
    assert f"name it with --simulator {name} or add --trust-simulator." in capsys.readouterr().err
    assert play(own, "--simulator", name) == 0
    for file in ("mine.py", "beside_mine.py"):  # what it imports counts
        text = (own / file).read_text()
        (own / file).write_text(text + "# changed\n")
        capsys.readouterr()
        assert play(own, "--simulator", name) == 2
        changed = f"{own / 'mine.py'} or a module that it imports has changed since the run in {own / 'run'} was"
        assert changed in capsys.readouterr().err
        assert play(own, "--simulator", name, "--trust-simulator") == 0
        (own / file).write_text(text)


def test_a_run_of_ones_own_needs_no_flag(own, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("LONGSTRIDE_STATE", str(tmp_path))
    name, run = f"{own / 'mine.py'}:Mine", str(own / "run")
    settings = Hyperparameters(training_episodes=2)
    train(name, settings, run_directory=run, resume=True, quiet=True, report=False)
    assert (tmp_path / "simulators.json").stat().st_mode & 0o077 == 0o044
    assert play(own) == 0
    assert main(["--mode", "replay", "--run-directory", run, "--iteration", "1"]) == 0
    assert main(["--mode", "train", "--resume", "--run-directory", run, "--training-episodes", "3"]) == 0
    text = (own / "beside_mine.py").read_text()
    (own / "beside_mine.py").write_text(text + "# of another user\n")
    capsys.readouterr()
    assert play(own) == 2
    assert "has changed since you trained on it; if you trust it, add --trust-simulator." in capsys.readouterr().err
    (own / "beside_mine.py").write_text(text)


def test_from_another_folder_the_file_of_the_training_is_taken(own, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("LONGSTRIDE_STATE", str(tmp_path))
    monkeypatch.chdir(own)
    train("mine.py:Mine", SMALL, run_directory=own / "elsewhere" / "run", quiet=True, report=False)
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.py").write_text((own / "mine.py").read_text() + "# another one\n")
    monkeypatch.chdir(other)
    capsys.readouterr()
    assert play(own / "elsewhere") == 0
    here = f"{own / 'mine.py'}, which the run was trained on; {other / 'mine.py'} is another file."
    assert f"The simulator is that of {here}" in capsys.readouterr().out
    assert play(own / "elsewhere", "--simulator", "mine.py:Mine") == 2
    assert f"trained on {own / 'mine.py'}, and {other / 'mine.py'} is another file" in capsys.readouterr().err
    assert play(own / "elsewhere", "--simulator", "mine.py:Mine", "--trust-simulator") == 0
    changed = f"The run was trained on {own / 'mine.py'}; what follows is of {other / 'mine.py'}"
    assert changed in capsys.readouterr().out
    content = json.loads((own / "elsewhere" / "run" / "evaluation.json").read_text())
    assert content["messages"][0].startswith(changed)
    run = str(own / "elsewhere" / "run")
    assert main(["--mode", "train", "--resume", "--run-directory", run, "--training-episodes", "2", "--no-report"]) == 0
    assert here in capsys.readouterr().out


def test_a_class_of_a_program_is_evaluated_by_that_program(own, monkeypatch, capsys):
    class Mine(Shop):
        pass

    Mine.__module__, Mine.__qualname__ = "__main__", "Mine"
    run = own / "program" / "run"
    train(Mine(), SMALL, run_directory=run, quiet=True, report=False)
    for more in ((), ("--trust-simulator",)):
        assert play(own / "program", *more) == 2
        error = capsys.readouterr().err
        assert f"The simulator Mine of the run in {run} was defined in a program or a notebook" in error
        assert f"longstride.evaluate({str(run)!r}, simulator)" in error
    assert evaluate(run, Mine(), episodes=np.int64(2), policies=[], quiet=True).episodes == 2


def test_an_evaluation_of_fewer_episodes_keeps_that_of_more(own, monkeypatch, capsys):
    name, run = f"{own / 'mine.py'}:Mine", own / "run"
    assert play(own, "--simulator", name, "--trust-simulator", "--evaluation-episodes", "3") == 0
    capsys.readouterr()
    assert play(own, "--simulator", name, "--trust-simulator") == 0
    line = f"The evaluation of 3 episodes that was there is now {run / 'evaluation-3-episodes.json'}."
    assert line in capsys.readouterr().out
    files = [run / "evaluation-3-episodes.json", run / "evaluation.json"]
    assert [json.loads(file.read_text())["episodes"] for file in files] == [3, 2]


def test_a_report_shows_units_and_names_that_the_checkpoint_has(own, monkeypatch, capsys):
    assert main(["--mode", "report", "--run-directory", str(own / "run")]) == 0
    page = (own / "run" / "report.html").read_text()
    assert "is not run for this page, so its figures are missing." in page


def test_a_cluster_that_only_the_run_names_is_not_joined(tmp_path, capsys):
    write_run(tmp_path / "run", {"simulator": "cartpole", "options": {}}, rollout_hosts="203.0.113.9:6379")
    assert main(["--mode", "train", "--resume", "--run-directory", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert "collected on the Ray cluster 203.0.113.9:6379, whose processes may run code here" in error
