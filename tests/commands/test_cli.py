"""The command line end to end: what a run leaves, what is refused and how, Ctrl-C."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.slow_cases import mostly_slow
from helpers.toy_runs import BANDIT_NETWORK, KINDS
from oracles import toy_simulators

pytest.importorskip("pydantic")

from longstride.cli import MODES, installed, main
from longstride.commands.train.mode import TRAIN
from longstride.errors import UserError, this_command
from longstride.simulators.source_files import source_sha256
from longstride.simulators.spaces import description
from longstride.terminal import console_of_output
from longstride.training.run_directory.checkpoint import load_checkpoint, seal, unseal
from longstride.version import __version__

ROOT = Path(__file__).resolve().parents[2]
TOYS = Path(toy_simulators.__file__)
SMALL = [
    *("--simulator", f"{TOYS}:Bandit", *BANDIT_NETWORK),
    *("--batch-size", "64", "--device", "cpu", "--num-envs", "1"),
]
KEYS = {
    *(
        "iteration",
        "steps",
        "return",
        "simulation_seconds",
        "transfer_seconds",
        "update_seconds",
        "statistics_seconds",
        "checkpoint_seconds",
        "iteration_seconds",
    ),
    *(
        "model_transfers",
        "batch_size",
        "precision",
        "initial_ratio_error",
        "approx_kl",
        "clip_fraction",
        "entropy",
        "policy_loss",
    ),
    *("value_loss", "explained_variance", "learning_rate", "steps_per_second", "metrics"),
}


SIGHUP = getattr(signal, "SIGHUP", None)  # Windows has none


def train_arguments(directory, episodes=2, *more):
    run = ("--run-directory", str(directory), "--training-episodes", str(episodes))
    return ["--mode", "train", *SMALL, *run, *more]


@pytest.mark.parametrize(("columns", "width"), [("90", 90), ("", 200), ("0", 200), ("wide", 200)])
def test_lines_of_a_pipe_are_as_wide_as_columns_says(columns, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert console_of_output().width == width


@pytest.fixture
def refused(capsys):
    """Return a function that runs a command which must fail and returns its one sentence."""

    def run(*arguments, default_file=None):
        capsys.readouterr()
        code = main([str(a) for a in arguments], default_file)
        error = capsys.readouterr().err
        assert code == 2
        assert error.startswith("error: ")
        assert error.count("\n") == 1, error
        assert "Traceback" not in error
        return error.removeprefix("error: ").rstrip("\n")

    return run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two episodes of a simulator from a file, through main."""
    directory = tmp_path_factory.mktemp("runs") / "bandit"
    assert main(train_arguments(directory)) == 0
    return directory


def test_a_finished_run_holds_what_it_should(finished):
    lines = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [1, 2]
    for line in lines:
        assert line.keys() >= KEYS
        assert line["steps"] == 256
        assert line["model_transfers"] == 0
        assert line["initial_ratio_error"] < 1e-3
        assert line["batch_size"] == 64
    config = json.loads((finished / "config.json").read_text())
    assert config["values"]["actor_hidden_size"] == 16
    assert config["sources"]["actor_hidden_size"] == "flag"
    assert config["sources"]["gamma"] == "default"
    assert json.loads((finished / "plan.json").read_text())["precision"] == "fp32"
    for which in ("last", "best"):
        assert load_checkpoint(finished / "checkpoints" / which)[1]["iteration"] in (0, 1, 2)
    assert load_checkpoint(finished)[1]["iteration"] == 2
    assert not (finished / "run.lock").exists()


def test_evaluation_of_a_run(finished, tmp_path, capsys):
    code = main(["--mode", "evaluate", "--checkpoint", str(finished), "--evaluation-episodes", "3"])
    assert code == 0
    content = json.loads((finished / "evaluation.json").read_text())
    assert content["episodes"] == 3
    assert set(content["policies"]) == {"trained", "trained_sampled", "untrained", "right"}
    assert content["policies"]["right"]["return"] == {"mean": 256.0, "low": 256.0, "high": 256.0}
    assert set(content["policies"]["trained"]["return"]) == {"mean", "low", "high"}
    out = capsys.readouterr().out
    assert "trained" in out
    assert "paired" in out
    best = finished / "checkpoints" / "best"
    arguments = ["--mode", "evaluate", "--checkpoint", str(best), "--evaluation-episodes", "2", "--policy", "right"]
    assert main([*arguments, "--run-directory", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "evaluation.json").read_text())["episodes"] == 2


def test_evaluation_of_heuristics_alone(tmp_path):
    arguments = ["--mode", "evaluate", "--policy", "right", "--evaluation-episodes", "2", *SMALL]
    assert main([*arguments, "--run-directory", str(tmp_path)]) == 0
    assert set(json.loads((tmp_path / "evaluation.json").read_text())["policies"]) == {"right"}


AS_THE_TOYS = {name.capitalize(): ("--activation", KINDS[name][1]) for name in ("choices", "tracker", "squashed")}
"""The networks of other tests, which share their compiled loops."""


@pytest.mark.parametrize("kind", AS_THE_TOYS)
def test_other_action_spaces_from_training_to_evaluation(kind, tmp_path, refused, capsys):
    run, name = tmp_path / "run", f"oracles.toy_simulators:{kind}"
    arguments = train_arguments(run, 2, "--simulator", name, "--initial-log-std", "-0.5", *AS_THE_TOYS[kind])
    assert main(arguments) == 0
    space = getattr(toy_simulators, kind).action_space
    assert space.in_words in capsys.readouterr().out
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert all(line["initial_ratio_error"] < 1e-3 for line in lines)
    assert main([*train_arguments(run, 3, "--simulator", name, *AS_THE_TOYS[kind]), "--resume"]) == 0
    evaluation = ["--mode", "evaluate", "--checkpoint", str(run), "--evaluation-episodes", "2", "--policy", "right"]
    assert main(evaluation) == 0
    policies = json.loads((run / "evaluation.json").read_text())["policies"]
    assert policies["trained"]["return"]["mean"] < policies["right"]["return"]["mean"]
    other = tmp_path / "toy_simulators.py"
    other.write_text(TOYS.read_text().replace("[3, 2, 4])", "[3, 4, 2])").replace("[1.5, 1.0]", "[1.5, 2.0]"))
    if kind != "Tracker":
        named = ("--mode", "evaluate", "--checkpoint", run, "--simulator", f"{other}:{kind}")
        assert "is another file; if you trust it, add --trust-simulator." in refused(*named)
        sentence = refused(*named, "--trust-simulator")
        assert "belongs to a different simulator: actions is" in sentence
        assert description(space) in sentence


# Bad flags and hyperparameters files


def test_an_unknown_flag_names_the_nearest(refused):
    assert refused("--gama", "0.9") == "Unknown argument --gama; did you mean --gamma?"
    assert "did you mean --num-epochs?" in refused("--num-epoch=3")
    assert refused("train", "now").startswith("Unknown argument now")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--gamma", "high"], "--gamma: 'high' should be a valid number"),
        (["--num-epochs", "2.5"], "--num-epochs: '2.5' should be a valid integer"),
        (["--gamma", "1.5"], "--gamma: '1.5' should be less than or equal to 1"),
        (["--gamma", "-1"], "should be greater than or equal to 0"),
        (["--gamma", "nan"], "--gamma: 'nan' should be"),
        (["--seed", "-1"], "--seed: '-1' should be greater than or equal to 0"),
        (["--batch-size", "65537"], "should be less than or equal to 65536"),
        (["--activation", "gelu"], "--activation: 'gelu' should be 'relu' or 'tanh'"),
        (["--gamma"], "expected one argument"),
        (["--mode", "fly"], "invalid choice: 'fly'"),
        (["--mode", "train", "--policy", "fifo"], "--policy does not go with --mode train"),
        (["--mode", "evaluate", "--resume"], "--resume does not go with --mode evaluate"),
    ],
)
def test_a_bad_value_is_named_with_its_range(refused, arguments, part):
    assert part in refused(*arguments)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("GAMA = 0.9", "GAMA is unknown; did you mean GAMMA?"),
        ("XYZZY = 1", "XYZZY is unknown"),
        ("GAMMA = 2.0", "GAMMA: 2.0 should be less than or equal to 1"),
        ("NUM_EPOCHS = True", "NUM_EPOCHS: True is not an integer"),
        ("USE_TF32 = 1", "USE_TF32: 1 is not True or False"),
        ("SIMULATOR = 3", "SIMULATOR: 3 should be a valid string"),
        ("SIMULATOR_OPTIONS = 'x=3'", "SIMULATOR_OPTIONS: 'x=3' should be a valid dictionary"),
        ("SIMULATOR_OPTIONS = {'x': {1}}", "SIMULATOR_OPTIONS: {1} should be a valid JSON value"),
        ("SIMULATOR_OPTIONS = True", "SIMULATOR_OPTIONS: True is not a dictionary"),
        ("GAMMA = [", "does not run as Python: SyntaxError"),
        ("GAMMA = 1 / 0", "does not run as Python: ZeroDivisionError"),
    ],
)
def test_a_bad_hyperparameters_file(refused, tmp_path, content, part):
    file = tmp_path / "mine.py"
    file.write_text(content)
    sentence = refused("--hyperparameters", file)
    assert part in sentence
    assert "mine.py" in sentence


def test_a_missing_hyperparameters_file(refused, tmp_path):
    assert refused("--hyperparameters", tmp_path / "no.py") == f"There is no hyperparameters file {tmp_path / 'no.py'}."


def test_flags_beat_the_file_and_the_file_beats_defaults(tmp_path, refused):
    from longstride.settings import load_settings

    file = tmp_path / "mine.py"
    file.write_text("GAMMA = 0.5\nNUM_EPOCHS = 7\nlowercase = 3\n_PRIVATE = 4\n")
    settings = load_settings(file, {"gamma": "0.25"})
    config, sources = settings.config, settings.sources
    assert (config.gamma, config.num_epochs, config.seed) == (0.25, 7, 0)
    assert (sources["gamma"], sources["num_epochs"], sources["seed"]) == ("flag", "file", "default")


# Bad simulators, scenarios, logs


def test_a_missing_scenario_names_the_nearest(refused, tmp_path):
    sentence = refused("--scenario", "loan_dsk", "--run-directory", tmp_path / "r")
    assert sentence.startswith("There is no scenario loan_dsk")
    assert sentence.endswith("did you mean loan_desk?")


def test_missing_files(refused, tmp_path):
    assert "no.csv" in refused("--event-log", tmp_path / "no.csv", "--run-directory", tmp_path / "r")
    assert "no.json" in refused("--scenario", tmp_path / "no.json", "--run-directory", tmp_path / "r")
    assert "There is no simulator file" in refused("--simulator", f"{tmp_path / 'no.py'}:Shop")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (
            "Shop",
            "is neither built in nor module:Class nor file.py:Class; built in are process, acrobot, base_stock, ",
        ),
        ("CartPol", "did you mean cartpole?"),
        (f"{TOYS}:Bandi", "did you mean Bandit?"),
        (f"{TOYS}:ShopParameters", "is neither a class of longstride.Simulator or gymnasium.Env nor a function"),
        ("no_such_module:Shop", "Cannot import the simulator's module no_such_module"),
    ],
)
def test_a_simulator_that_is_not_there(refused, name, part):
    assert part in refused("--simulator", name)


BROKEN = """
import numpy as np
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete


class Broken(Simulator):
    observation_size = 1
    action_space = Discrete(2)
    max_steps = 300
    state_dtype = np.dtype([("count", np.int64)])

    def reset(state, parameters, rng):
        state.count = 0

    def observe(state, parameters, observation):
        observation[0] = state.count

    def step(state, parameters, action, rng):
        state.count += 1
        return REWARD, False
"""


def broken(tmp_path, reward):
    path = tmp_path / "broken_simulator.py"
    path.write_text(BROKEN.replace("REWARD", reward))
    return f"{path}:Broken"


FAULTY = """
    # parameters[0]: 1 and 2 fail at step 250, 3 observes large numbers
    def __init__(self, fault=0):
        self.parameters = np.array([fault])

    def observe(state, parameters, observation):
        observation[0] = state.count + (1e7 if parameters[0] == 3 else 0.0)
"""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """Return a function that names, with its option, a simulator with a fault: one file, whose kernels all share."""
    path = tmp_path_factory.mktemp("faulty") / "broken_simulator.py"
    late = "np.nan if parameters[0] == 1 else 1.0 / (250 - state.count) if parameters[0] == 2 else 1.0"
    path.write_text(BROKEN.replace("REWARD", f"({late}) if state.count == 250 else 1.0") + FAULTY)
    return lambda fault: ["--simulator", f"{path}:Broken", "--simulator-option", f"fault={fault}"]


def test_a_simulator_that_breaks_the_contract_early_is_found_by_the_check(refused, tmp_path):
    sentence = refused("--simulator", broken(tmp_path, "float('nan')"), "--run-directory", tmp_path / "r")
    assert sentence.startswith("Broken, ")
    assert "step 0: step returned the reward nan; return a finite number (line 19 of " in sentence


def test_a_simulator_that_breaks_the_contract_late_is_found_while_playing(refused, faulty, tmp_path):
    sentence = refused(*train_arguments(tmp_path / "a run", 2, *faulty(1)))
    assert sentence.startswith(
        "Broken, episode 0, step 249: step returned the reward nan; return a finite number (line "
    )
    command = f"{this_command()} --mode replay --run-directory '{tmp_path / 'a run'}' --iteration 1"
    assert sentence.endswith(f"play it again: {command}")


def test_a_simulator_that_numba_cannot_compile_is_a_sentence(refused, tmp_path):
    name = broken(tmp_path, "1.0 if str(dict(a=state.count)) else 0.0")
    more = ["--simulator", name, "--run-directory", tmp_path / "r", "--device", "cpu"]
    assert "Broken" in refused("--mode", "train", *more)


def test_a_simulator_whose_own_code_raises_late_is_a_sentence(refused, faulty, tmp_path):
    sentence = refused(*train_arguments(tmp_path / "r", 2, *faulty(2)))
    assert sentence.startswith("Broken.step failed in episode 0, step 249: ") and "by zero" in sentence


def test_a_heuristic_that_does_not_compile_is_named_with_its_line(refused, tmp_path):
    name = broken(tmp_path, "1.0")
    with (tmp_path / "broken_simulator.py").open("a") as file:
        file.write("\n    def pick(state, parameters, mask, rng):\n        return rng.choice(2)\n")
        file.write("\n    heuristics = {'pick': pick}\n")
    assert refused("--mode", "evaluate", "--simulator", name, "--policy", "pick") == (
        f"Numba cannot compile Broken.heuristics['pick'] (line 24 of {tmp_path / 'broken_simulator.py'}: "
        "return rng.choice(2)): rng.choice does not exist in compiled code; use rng.random, rng.integers, rng.normal, "
        "rng.exponential, rng.poisson or another that Numba lists."
    )


def test_hints_are_printed(faulty, tmp_path, capsys):
    assert main(train_arguments(tmp_path / "r", 1, *faulty(3))) == 0
    assert "\nHint: Broken.observe wrote 1e+07 at 0; " in "\n" + capsys.readouterr().out


def test_a_simulator_file_may_be_called_like_a_module_of_the_library(tmp_path, monkeypatch):
    import queue

    from longstride.simulators.loading import load_simulator

    monkeypatch.setitem(sys.modules, "queue", queue)
    path = tmp_path / "queue.py"
    path.write_text(BROKEN.replace("REWARD", "1.0"))
    load_simulator(f"{path}:Broken")
    assert sys.modules["queue"] is queue


def test_a_simulator_file_imports_what_lies_beside_it(tmp_path):
    from longstride.simulators.loading import load_simulator

    (tmp_path / "rewards_beside_it.py").write_text("REWARD = 1.0\n")
    (tmp_path / "beside.py").write_text("from rewards_beside_it import REWARD\n" + BROKEN.replace("REWARD", "1.0"))
    load_simulator(f"{tmp_path / 'beside.py'}:Broken")
    (tmp_path / "inside.py").write_text("from .rewards_beside_it import REWARD\n")
    with pytest.raises(
        UserError, match=r"A file of a package is named as PACKAGE\.inside:CLASS, from the folder above"
    ):
        load_simulator(f"{tmp_path / 'inside.py'}:Broken")


def test_an_environment_of_a_module_in_the_present_folder_is_found(tmp_path, monkeypatch):
    pytest.importorskip("gymnasium")
    from longstride.simulators.loading import load_simulator

    program = "import gymnasium\nfrom gymnasium.envs.classic_control import CartPoleEnv\n"
    (tmp_path / "poles_here.py").write_text(program + "gymnasium.register('PoleHere-v0', CartPoleEnv)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    loaded = load_simulator("gymnasium:poles_here:PoleHere-v0")
    assert loaded.simulator.observation_size == 4


# Options of a simulator's class

CLUB = """from oracles.toy_simulators import Bandit


class Club(Bandit):
    def __init__(self, length: int = 256, *, label="plain") -> None:
        if length > 1000:
            raise ValueError("length is at most 1000.")
        if not isinstance(label, str):
            raise TypeError("label is\\na text")
        self.max_steps = length
"""
OPTION = "--simulator-option"


@pytest.fixture(scope="module")
def club(tmp_path_factory):
    """Return the name of a simulator that takes options, and a run of it with two of them."""
    folder = tmp_path_factory.mktemp("club")
    (folder / "club.py").write_text(CLUB)
    name = f"{folder / 'club.py'}:Club"
    options = ["--simulator", name, OPTION, "length=64", OPTION, "label=a=b, c"]
    assert main(train_arguments(folder / "run", 1, *options)) == 0
    return name, folder / "run"


def lengths(run, capsys, *more):
    """Return the return that the heuristic gets in an evaluation of a run: one a step."""
    capsys.readouterr()
    assert main(["--mode", "evaluate", "--checkpoint", str(run), "--evaluation-episodes", "2", *more]) == 0
    return json.loads((run / "evaluation.json").read_text())["policies"]["right"]["return"]["mean"]


def test_options_are_recorded_with_the_run(club):
    name, run = club
    config = json.loads((run / "config.json").read_text())
    assert config["values"]["simulator_options"] == {"length": 64, "label": "a=b, c"}
    assert config["sources"]["simulator_options"] == "flag"
    facts = load_checkpoint(run)[1]
    digest = facts["source"].pop("source_sha256")
    assert Path(facts["source"].pop("source_file")).name == "club.py"
    assert facts["source"] == {"simulator": name, "options": {"length": 64, "label": "a=b, c"}}
    assert digest == source_sha256(name)


def test_an_evaluation_builds_the_simulator_with_the_options_of_the_run_or_changes_them(club, capsys):
    _, run = club
    assert lengths(run, capsys) == 64.0
    assert lengths(run, capsys, OPTION, "length=32") == 32.0
    assert lengths(run, capsys, "--simulator", club[0]) == 256.0


def test_resume_with_other_options_is_refused(refused, club):
    name, run = club
    arguments = train_arguments(run, 2, "--resume", "--simulator", name)
    assert refused(*arguments, OPTION, "length=64").startswith(
        f'The run in {run} began with the simulator options {{"length": 64, "label": "a=b, c"}}, not {{"length": 64}};'
    )
    assert main([*arguments, OPTION, "label=a=b, c", OPTION, "length=64"]) == 0
    assert main(["--mode", "train", "--resume", "--run-directory", str(run)]) == 0, "the run has its own"


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("lenght=3", "{} has no option lenght (there are length, label); did you mean length?"),
        ("x=3", "{} has no option x (there are length, label)."),
        ("length=2000", "{} cannot be built with length=2000: ValueError: length is at most 1000."),
        ("label=3", "{} cannot be built with label=3: TypeError: label is a text."),
        ("length=many", "{} cannot be built with length=many: TypeError: '>' not supported"),
        ("length=0", "Club.max_steps must be a positive integer, not 0."),
        ("length=2.5", "Club.max_steps must be a positive integer, not 2.5."),
        ("length", "Argument --simulator-option/--simulator-options: 'length' is not NAME=VALUE."),
        ("=3", "Argument --simulator-option/--simulator-options: '=3' is not NAME=VALUE."),
    ],
)
def test_a_bad_option_is_a_sentence(refused, club, tmp_path, option, sentence):
    arguments = train_arguments(tmp_path / "r", 1, "--simulator", club[0], OPTION, option)
    assert refused(*arguments).startswith(sentence.format(club[0]))
    assert not (tmp_path / "r").exists()


def test_options_where_there_are_none(refused, finished):
    assert refused(*train_arguments("r", 1, OPTION, "x=3")) == f"{TOYS}:Bandit has no option x; it takes none."
    process = refused("--mode", "train", OPTION, "x=3")
    assert process.startswith("process has no option x (there are scenario, event_log, ")
    assert "no option x" in refused("--mode", "evaluate", "--checkpoint", finished, OPTION, "x=3")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("3", 3), ("2.5", 2.5), ("true", True), ("null", None), ('"3"', "3"), ("True", "True"), ("", "")),
        *(("[1]", "[1]"), ('{"a": 1}', '{"a": 1}'), ("NaN", "NaN"), ("1e999", "1e999"), ("a=b", "a=b")),
    ],
)
def test_the_value_of_an_option_is_a_json_scalar_or_text(text, value):
    import argparse

    from longstride.setting_flags import add_flags
    from longstride.settings import load_settings

    parser = argparse.ArgumentParser()
    add_flags(parser)
    flags = vars(parser.parse_args([OPTION, "x=1", OPTION, f"x={text}", OPTION, "y=1"]))
    config = load_settings(None, flags).config
    assert config.simulator_options == {"x": value, "y": 1}
    assert type(config.simulator_options["x"]) is type(value)


def test_a_classic_problem_trains_by_its_name_and_is_evaluated(tmp_path, capsys):
    run = str(tmp_path / "run")
    arguments = train_arguments(
        run, 1, "--simulator", "cartpole", OPTION, "max_steps=30", OPTION, "sutton_barto_reward=true"
    )
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "Evaluate the policy: " in out and "heuristics" not in out  # it has none
    assert main(["--mode", "evaluate", "--checkpoint", run, "--evaluation-episodes", "2"]) == 0
    returns = json.loads((tmp_path / "run" / "evaluation.json").read_text())["policies"]["trained"]["return"]
    assert -1.0 <= returns["mean"] <= 0.0


# Run directories and checkpoints


def test_a_directory_that_holds_a_run_is_not_overwritten(refused, finished):
    before = (finished / "metrics.jsonl").read_bytes()
    assert refused(*train_arguments(finished)) == (
        f"{finished} already holds a run; add --resume to continue it, or name another --run-directory."
    )
    assert (finished / "metrics.jsonl").read_bytes() == before


def test_resume_needs_a_run(refused, tmp_path):
    assert "--resume needs --run-directory" in refused("--mode", "train", *SMALL, "--resume")
    assert "There is no checkpoint in" in refused(*train_arguments(tmp_path / "empty", 2, "--resume"))
    assert not (tmp_path / "empty").exists()


def test_a_run_directory_that_is_a_file(refused, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file" in refused(*train_arguments(tmp_path / "file"))


def test_resume_with_other_shapes_is_refused(refused, finished):
    before = (finished / "config.json").read_bytes()
    sentence = refused(*train_arguments(finished, 3, "--resume", "--actor-hidden-size", "32"))
    assert sentence == (
        "ACTOR_HIDDEN_SIZE is 32 now and 16 in the run: the network of a run cannot change; leave that out, or train a "
        "new run in another --run-directory."
    )
    assert (finished / "config.json").read_bytes() == before


def test_resume_takes_the_settings_of_the_run(finished, tmp_path, capsys):
    run, file = tmp_path / "a run", tmp_path / "mine.py"
    shutil.copytree(finished, run)
    file.write_text("NUM_EPOCHS = 7\nBATCH_SIZE = 512\n")
    flags = ["--training-episodes", "3", "--learning-rate-actor", "0.0001"]
    capsys.readouterr()
    assert main(["--resume", "--run-directory", str(run), *flags], file) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        "The run keeps its own settings; hyperparameters.py differs (a flag wins): NUM_EPOCHS 7 there, 3 in the run."
        in lines
    )
    assert (
        "Other settings from here on: TRAINING_EPISODES 3 by flag, 2 in the run; LEARNING_RATE_ACTOR 0.0001 by flag, "
        "0.0003 in the run." in lines
    )
    before, after = (json.loads((path / "config.json").read_text()) for path in (finished, run))
    changed = {name for name, value in after["values"].items() if before["values"][name] != value}
    assert changed == {"training_episodes", "learning_rate_actor", "run_directory"}
    assert after["sources"] == before["sources"] | {"learning_rate_actor": "flag"}
    assert main(["--resume", "--run-directory", str(run)]) == 0
    assert "Nothing is left to train: name a larger --training-episodes to train on." in capsys.readouterr().out


@pytest.mark.parametrize(("kind", "different"), [("SmallBandit", "observation_size"), ("Shop", "simulator")])
def test_resume_with_another_simulator_is_refused(refused, finished, kind, different):
    sentence = refused(*train_arguments(finished, 3, "--resume", "--simulator", f"{TOYS}:{kind}"))
    assert "was trained on a different simulator" in sentence
    assert different in sentence


def test_evaluate_needs_something_to_evaluate(refused, tmp_path):
    assert "--mode evaluate needs --checkpoint DIR" in refused("--mode", "evaluate")
    assert "There is no checkpoint in" in refused("--mode", "evaluate", "--checkpoint", tmp_path)


def test_an_unknown_heuristic_names_the_nearest(refused, finished):
    assert refused("--mode", "evaluate", *SMALL, "--policy", "rigt") == (
        "The simulator has no heuristic rigt; did you mean right?"
    )
    assert "there are right" in refused("--mode", "evaluate", "--checkpoint", finished, "--policy", "xyzzy")


def test_evaluating_a_checkpoint_on_another_simulator_is_refused(refused, finished):
    sentence = refused("--mode", "evaluate", "--checkpoint", finished, "--simulator", f"{TOYS}:SmallBandit")
    assert "belongs to a different simulator" in sentence


def test_a_damaged_checkpoint_is_a_sentence(refused, finished, tmp_path):
    (tmp_path / "iteration-00000001.json").write_text('{"format": "other"}')
    assert "is damaged (it was cut or changed)" in refused("--mode", "evaluate", "--checkpoint", tmp_path)


def test_an_evaluation_passes_over_a_damaged_checkpoint_and_says_so(finished, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    newest = max((run / "checkpoints" / "last").glob("*.json"))
    newest.write_bytes(newest.read_bytes()[:-1])
    capsys.readouterr()
    assert main(["--mode", "evaluate", "--checkpoint", str(run), "--evaluation-episodes", "2"]) == 0
    said = f"The checkpoint {newest} is damaged (it was cut or changed); that of iteration 1 is used."
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("name", ["checkpoint.json", "episode-00000002.json"])
@pytest.mark.parametrize("more", [(), ("--resume",)])
def test_a_run_of_an_earlier_version_is_neither_overwritten_nor_resumed(refused, tmp_path, more, name):
    run = tmp_path / "run"
    last = run / "checkpoints" / "last"
    last.mkdir(parents=True)
    (last / name).write_text('{"format": "longstride-checkpoint/2"}')
    sentence = refused(*train_arguments(run, 3, *more))
    earlier = f"The run in {run} is of an earlier version of Longstride: train again, or use that one."
    assert sentence == earlier if more else "already holds a run" in sentence
    assert refused("--mode", "evaluate", "--checkpoint", run) == earlier
    assert sorted(path.name for path in run.rglob("*")) == sorted([name, "checkpoints", "last"])


def test_an_empty_list_of_policies_is_a_sentence(refused):
    assert "--policy" in refused("--mode", "evaluate", *SMALL, "--policy", ",")


def test_a_run_that_failed_in_its_first_episode_can_be_started_again(faulty, tmp_path, capsys):
    directory = tmp_path / "run"
    assert main(train_arguments(directory, 1, *faulty(1))) == 2
    assert not (directory / "checkpoints" / "last").exists()
    mended = faulty(0)
    codes = {main(train_arguments(directory, 1, *mended)), main(train_arguments(directory, 1, *mended, "--resume"))}
    assert 0 in codes


# Real processes


def script(*arguments):
    return [sys.executable, str(ROOT / "scripts" / "train.py"), *arguments]


def wait_for(path, seconds=90):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and path.stat().st_size:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} did not appear in {seconds} s")


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize("number", mostly_slow([signal.SIGINT, signal.SIGTERM, SIGHUP], signal.SIGINT))
def test_a_signal_saves_says_how_to_go_on_and_the_run_can_be_finished(tmp_path, number):
    directory = tmp_path / "a run"
    process = subprocess.Popen(
        script(*train_arguments(directory, 100_000)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    try:
        wait_for(directory / "metrics.jsonl")
        process.send_signal(number)
        out, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert error == ""
    assert "Stopping after this iteration. Press Ctrl-C again to stop at once." in out
    (command,) = re.findall(r"^Stopped after iteration \d+ of 100000, saved\. Resume with: (.*)$", out, re.MULTILINE)
    records = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    checkpoint = load_checkpoint(directory)[1]
    assert checkpoint["iteration"] == records[-1]["iteration"] < 100_000
    total = checkpoint["iteration"] + 1
    done = subprocess.run(f"{command} --training-episodes {total}", shell=True, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, "the command works as it is printed"
    assert len((directory / "metrics.jsonl").read_text().splitlines()) == total


def test_the_real_command_fails_with_one_line(tmp_path):
    done = subprocess.run(script("--learning-rate", "1"), capture_output=True, text=True, cwd=tmp_path, timeout=90)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(r"error: Unknown argument --learning-rate; did you mean --learning-rate-\w+\?\n", done.stderr)


@pytest.mark.parametrize("words", [["train", "--help"], ["--mode", "train", "--help"], ["--help", "--mode=train"]])
def test_help_of_a_mode_lists_its_flags_and_the_settings_that_it_reads(words, capsys):
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert all("--" + name.replace("_", "-") in text for name in TRAIN.settings)
    assert "--service-connections" not in text
    assert "--resume" in text and "--serve " not in text and "--trials" not in text


def test_help_without_a_mode_lists_the_modes(capsys):
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(any(line.split()[:1] == [mode.name] for line in lines) for mode in MODES)


def test_a_mode_may_be_the_first_word(refused, tmp_path):
    assert main(["plan", "--simulator", "cartpole", "--run-directory", str(tmp_path)]) == 0
    assert "plan and --mode train are two modes" in refused("plan", "--mode", "train")
    assert "There is no mode trian; did you mean train?" in refused("trian")
    assert "--serve does not go with --mode plan. It goes with recommend." in refused("plan", "--serve", "0")


def test_a_checkpoint_without_its_facts_is_a_sentence(refused, finished, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(finished / "checkpoints" / "last", copy)
    path = copy / "iteration-00000002.json"
    facts = unseal(path.read_bytes())
    del facts["source"]
    path.write_bytes(seal(facts))
    assert "is damaged: it lacks source" in refused("--mode", "evaluate", "--checkpoint", copy)


def test_metrics_that_raise_are_a_sentence(refused, tmp_path):
    text = (
        "import numpy as np\nfrom oracles.toy_simulators import Bandit\n\n\nclass Raising(Bandit):\n"
        "    metrics_dtype = np.dtype([('x', np.float64)])\n"
        "    def episode_metrics(state, parameters, metrics):\n"
        "        metrics.x = [][1]\n"
    )
    (tmp_path / "raising.py").write_text(text)
    more = ["--simulator", f"{tmp_path / 'raising.py'}:Raising"]
    assert "Raising, episode 0: IndexError" in refused(*train_arguments(tmp_path / "r", 1, *more))


def test_the_command_alone_and_its_version(monkeypatch, capsys):
    """In a terminal's 60 lines; what is printed works when typed."""
    monkeypatch.setattr(sys, "argv", ["longstride"])
    assert installed() == 0
    text = capsys.readouterr().out
    assert all(f"  {mode.name} " in text for mode in MODES)
    assert len(text.splitlines()) < 60
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"longstride {__version__}\n"


def test_flags_have_meaning_and_default_and_modes_show_only_their_own(capsys):
    for mode in MODES:
        with pytest.raises(SystemExit):
            main([mode.name, "--help"])
        shown = capsys.readouterr().out
        assert ("--gamma" in shown) == ("gamma" in mode.settings), mode.name
        flags = re.findall(r"^  (?:-h, )?--\S.*\n(?:      +.*\n)*", shown, flags=re.MULTILINE)
        assert flags
        for flag in flags:
            assert re.search(r"\s{2,}\S+ \S+", flag.strip()), f"{mode.name}: {flag} has no meaning"


def test_a_setting_without_effect_and_a_former_name_are_said(tmp_path, capsys):
    directory = tmp_path / "line"
    flags = [flag if flag != "--num-envs" else "--episodes-per-update" for flag in train_arguments(directory, 1)]
    assert main([*flags, "--update-execution", "compiled"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "--episodes-per-update is now called --num-envs.",
        "--update-execution: compiled is now called numba.",
    ]
    values = json.loads((directory / "config.json").read_text())["values"]
    assert (values["num_envs"], values["update_execution"]) == (1, "numba")
    evaluate = [
        "evaluate",
        "--checkpoint",
        str(directory),
        "--evaluation-episodes",
        "2",
        "--no-report",
        "--gamma",
        "0.9",
    ]
    assert main(evaluate) == 0
    assert capsys.readouterr().err == "--gamma has no effect in --mode evaluate.\n"


def test_a_shell_completes_modes_and_flags(capsys):
    pytest.importorskip("shtab")
    assert main(["--print-completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert "--evaluation-episodes" in script
    assert shutil.which("bash") is None or subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0
