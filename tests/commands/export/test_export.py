"""--mode export end to end: the files and their programs, the comparison, and what is refused."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from helpers.documentation import blocks
from helpers.exported_policies import exported, model_of, save_run
from oracles import toy_simulators

pytest.importorskip("pydantic")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from helpers.slow_cases import mostly_slow

from longstride.cli import main
from longstride.commands.export import command
from longstride.commands.export.forms import c_compiler, play_torch
from longstride.commands.export.steps import Steps
from longstride.policies.export.c_source import CFiles
from longstride.policies.make_spec import spec_for
from longstride.policies.networks import ActorCritic
from longstride.simulators.loading import from_source
from longstride.training.run_directory.acting_file import keep_acting
from longstride.training.run_directory.directory import RunDirectory

ALL = ["README.md", "policy.c", "policy.h", "policy.json", "policy.onnx", "policy.safetensors"]


def run_of(directory, name):
    """Write a run of a toy's policy."""
    kind = {"shop": "Shop", "choices": "Choices", "squashed": "Squashed"}[name]
    description = getattr(toy_simulators, kind)().description()
    return save_run(directory, model_of(name), {"simulator": description["simulator"], "options": {}}, description)


def export(run, *flags):
    return main(["--mode", "export", "--checkpoint", str(run), *map(str, flags)])


def names_in(folder):
    """Return the names in an export, without the marker of the folder."""
    return sorted(path.name for path in folder.iterdir() if path.name != ".longstride.json")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Return the run of a policy with masks and features."""
    return run_of(tmp_path_factory.mktemp("export") / "run", "shop")


def test_all_forms_are_written_and_compute_the_same_on_recorded_steps(shop, capsys):
    assert export(shop, "--simulator", "oracles.toy_simulators:Shop") == 0
    out = capsys.readouterr().out
    assert "512 recorded steps of Shop (" in out
    assert "All of them compute the same" in out
    assert "no effect" not in out, "--simulator runs what the steps are recorded from"
    assert names_in(shop / "export") == ALL
    contract = json.loads((shop / "export" / "policy.json").read_text())
    assert contract["files"] == [name for name in ALL if name != "README.md"]
    assert contract["iteration"] == 7
    found = contract["parity"]["largest_difference"]
    assert set(found) == {"Numba", "ONNX Runtime", *(["C"] if c_compiler() else [])}
    assert all(0.0 <= difference < 1e-5 for difference in found.values())
    assert any(difference > 0.0 for difference in found.values()), "nobody compares a form with itself"


@pytest.mark.skipif(c_compiler() is None, reason="no C compiler")
def test_a_file_that_computes_something_else_is_found_out(shop, tmp_path, capsys, monkeypatch):
    """One output bias is changed by a thousandth."""
    real = command.c_files

    def wrong(*arguments):
        source, header = real(*arguments)
        head, name, rest = source.partition("policy_actor_2_bias[4] = {\n    ")
        first, comma, rest = rest.partition(",")
        return CFiles(f"{head}{name}{float(first[:-1]) + 0.001:.9g}f{comma}{rest}", header)

    monkeypatch.setattr(command, "c_files", wrong)
    assert export(shop, "--output", tmp_path / "out", "--format", "c") == 1
    assert "The policy does not compute the same everywhere: C differ" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "policy.json").read_text())["parity"]["largest_difference"]["C"] > 5e-4


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (
            "echo 'policy.c:1: no such language' >&2; exit 1",
            "policy.c: policy.c:1: no such language; set CC to another",
        ),
        ('while [ "$1" != -o ]; do shift; done; echo nothing > "$2"', "cannot be loaded:"),
    ],
)
def test_a_compiler_that_is_of_no_use(shop, tmp_path, capsys, monkeypatch, script, sentence):
    compiler = tmp_path / "mycc"
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    assert export(shop, "--output", tmp_path / "out", "--format", "c") == 2
    assert sentence in capsys.readouterr().err
    assert json.loads((tmp_path / "out" / "policy.json").read_text())["inputs"][0]["name"] == "observation"
    monkeypatch.setenv("CC", "none-of-that-name")
    assert export(shop, "--output", tmp_path / "out", "--format", "c") == 0
    assert "policy.c is not compared: there is no C compiler here" in capsys.readouterr().out


def test_only_the_formats_that_are_named_and_none_of_before(shop, tmp_path, capsys):
    assert export(shop, "--output", tmp_path / "out", "--format", "safetensors", "c") == 0
    assert export(shop, "--output", tmp_path / "out", "--format", "safetensors") == 0
    assert names_in(tmp_path / "out") == ["README.md", "policy.json", "policy.safetensors"]
    assert "policy.c" not in (tmp_path / "out" / "README.md").read_text()


def programs_of(folder):
    """Return the commands of the programs in a folder's README, whose text is written beside the files."""
    text = (folder / "README.md").read_text()
    (folder / "main.c").write_text(blocks(text, "c")[0])
    commands = []
    for name, code in zip(("by_onnx.py", "by_numpy.py"), blocks(text, "python"), strict=True):
        (folder / name).write_text(code)
        commands.append([sys.executable, name])
    if c_compiler():
        command = blocks(text, "sh")[0].split()
        subprocess.run([c_compiler(), *command[1:], "-Wall", "-Wextra", "-Werror", "-pedantic"], cwd=folder, check=True)
        commands.append(["./main"])
    return commands


@pytest.mark.parametrize("name", mostly_slow(["shop", "squashed", "remembering choices", "attending"], "shop"))
def test_the_programs_of_the_readme_act_as_the_policy(name, tmp_path, monkeypatch):
    """One observation after another, in an episode, without mask and with features of 0."""
    spec, params, _ = exported(name)
    run = save_run(tmp_path / "run", model_of(name), {"simulator": "gone:Gone"}, {"simulator": "gone:Gone"})
    monkeypatch.setattr(command, "play_compiled", play_torch)  # compiling it would take longest
    assert export(run) == 0
    observations = np.random.default_rng(3).normal(0.0, 2.0, (12, spec.observation_size)).astype(np.float32)
    masks = np.ones((12, sum(spec.action_space.choices)), np.bool_)
    features = np.zeros((*masks.shape, spec.action_features), np.float32)
    expected = play_torch(spec, params, Steps(observations, masks, features, np.arange(12) == 0))[1]
    for words in programs_of(run / "export"):
        np.testing.assert_allclose(played(words, observations, run / "export"), expected, atol=1e-5, err_msg=str(words))


def played(words, observations, folder):
    """Return the actions that a program prints for observations, float64[T, n]."""
    text = "\n".join(" ".join(map(repr, row.tolist())) for row in observations)
    done = subprocess.run(words, input=text, cwd=folder, capture_output=True, text=True)
    assert (words, done.returncode, done.stderr) == (words, 0, "")
    return np.array([line.split() for line in done.stdout.splitlines()], np.float64)


@pytest.mark.parametrize("name", mostly_slow(["shop", "squashed"], "shop"))
def test_an_export_draws_if_an_evaluation_has_shown_draws_to_be_better(name, tmp_path, capsys, monkeypatch):
    """The files say so, and the programs of the README draw from the same distribution."""
    spec, params, _ = exported(name)
    run = save_run(tmp_path / "run", model_of(name), {"simulator": "gone:Gone"}, {"simulator": "gone:Gone"})
    monkeypatch.setattr(command, "play_compiled", play_torch)
    assert export(run) == 0
    assert "Take the most likely actions: no evaluation has shown draws to be better" in capsys.readouterr().out
    assert "#define POLICY_DRAWS 0 " in (run / "export" / "policy.h").read_text()
    keep_acting(RunDirectory(run), True, {}, params)
    assert export(run) == 0
    sentence = "Draw the actions: an evaluation has shown draws to be better for this policy"
    out = " ".join(capsys.readouterr().out.split())
    assert sentence in out and "policy.onnx returns the most likely action alone; the program in README.md draws" in out
    assert "#define POLICY_DRAWS 1 " in (run / "export" / "policy.h").read_text()
    assert sentence in (run / "export" / "README.md").read_text()
    assert json.loads((run / "export" / "policy.json").read_text())["acting"].startswith(sentence)
    observations = np.zeros((4_000, spec.observation_size), np.float32)
    found = [played(words, observations, run / "export") for words in programs_of(run / "export")]
    assert all(len(np.unique(actions[:, 0])) > 1 for actions in found)
    for actions in found[1:]:
        np.testing.assert_allclose(actions.mean(axis=0), found[0].mean(axis=0), atol=0.15)
        np.testing.assert_allclose(actions.std(axis=0), found[0].std(axis=0), atol=0.15)


def test_without_its_simulator_steps_are_random(tmp_path, capsys):
    run = save_run(tmp_path / "run", model_of("choices"), {"simulator": "gone:Gone"}, {"simulator": "gone:Gone"})
    assert export(run, "--format", "safetensors") == 0
    out = capsys.readouterr().out
    assert (
        "The run's simulator is not available, so there are no names and no recorded steps: the run's simulator "
        "gone:Gone" in out
    )
    assert "512 random steps with the mean and deviation of the run's" in out


def test_an_environment_of_gymnasium(tmp_path, capsys):
    pytest.importorskip("gymnasium")
    source = {"simulator": "gymnasium:CartPole-v1", "options": {}}
    simulator = from_source(source).simulator
    model = ActorCritic(spec_for(simulator, (8,), (8,), "tanh"))
    with torch.no_grad():
        model.flat.copy_(torch.randn(model.flat.shape, generator=torch.Generator().manual_seed(0)))
    run = save_run(tmp_path / "run", model, source, simulator.description())
    assert export(run, "--format", "c") == 0
    assert "512 recorded steps of GymnasiumSimulator (" in capsys.readouterr().out


def test_without_the_extra_everything_else_is_written(shop, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    sentence = "There is no policy.onnx, because onnxscript is not installed; pip install 'longstride[onnx]' adds"
    assert export(shop, "--output", tmp_path / "out") == 0
    assert sentence in capsys.readouterr().out
    assert names_in(tmp_path / "out") == [name for name in ALL if name != "policy.onnx"]
    assert export(shop, "--output", tmp_path / "out", "--format", "onnx", "c") == 2
    assert f"error: {sentence}" in capsys.readouterr().err
    assert (tmp_path / "out" / "policy.c").is_file()


def test_files_of_others_are_left_alone(shop, tmp_path, capsys):
    (tmp_path / "README.md").write_text("mine")
    assert export(shop, "--output", tmp_path) == 2
    assert "holds README.md, but no .longstride.json, so it is not the folder of an export" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    assert export(shop, "--output", tmp_path / "README.md") == 2
    assert "README.md is a file; --output needs a folder." in capsys.readouterr().err


def damaged(directory, shop):
    shutil.copytree(shop, directory)
    for path in (directory / "checkpoints" / "last").glob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:100])
    return directory


def test_bad_input_is_a_sentence(shop, tmp_path, capsys):
    broken = damaged(tmp_path / "broken", shop)
    bad = torch.full((3,), np.nan)
    model = ActorCritic(model_of("choices").spec)
    with torch.no_grad():
        model.tensors["actor.0.bias"][:3] = bad
    exploded = save_run(tmp_path / "exploded", model, {"simulator": "gone:Gone"}, {"simulator": "gone:Gone"})
    for arguments, sentence in (
        ([], "--mode export needs --checkpoint DIR"),
        (["--checkpoint", str(tmp_path / "nowhere")], "There is no checkpoint in"),
        (["--checkpoint", str(broken)], "is damaged"),
        (["--checkpoint", str(exploded)], "are not finite; name an earlier checkpoint."),
        (["--checkpoint", str(shop), "--simulator", "cartpole"], "belongs to a different simulator"),
        (["--checkpoint", str(shop), "--resume"], "--resume does not go with --mode export"),
        (["--checkpoint", str(shop), "--output", "/proc/none"], "Cannot write"),
        (["--checkpoint", str(shop), "--format", "tflite"], "Argument --format: invalid choice: 'tflite'"),
    ):
        assert main(["--mode", "export", *arguments]) == 2
        printed = capsys.readouterr()
        assert sentence in printed.err
        assert "Traceback" not in printed.out + printed.err


def test_output_belongs_to_the_export(capsys):
    assert main(["--mode", "evaluate", "--policy", "fifo", "--output", "x"]) == 2
    assert "--output does not go with --mode evaluate" in capsys.readouterr().err


def test_an_export_says_that_its_policy_is_a_mean(tmp_path):
    gone = {"simulator": "gone:Gone"}
    for facts in ({}, {"mean_of_late_policies": True}):
        run = save_run(tmp_path / f"run{len(facts)}", model_of("choices"), gone, gone, **facts)
        assert export(run) == 0
        contract = json.loads((run / "export" / "policy.json").read_text())
        assert contract.get("mean_of_late_policies") == facts.get("mean_of_late_policies")
        title = (run / "export" / "README.md").read_text()
        assert ("the mean of the late policies up to iteration 7, a policy" in title) == bool(facts)
