"""The public API end to end: train, evaluate, load_policy, and what is refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from oracles import toy_simulators
from oracles.toy_simulators import Shop, ShopParameters

pytest.importorskip("pydantic")

import longstride
from longstride import Hyperparameters, TrainingRun, UserError, evaluate, load_policy, train
from longstride.cli import main
from longstride.seeding import stream
from longstride.simulators.observe import build_observe_state, new_guarded
from longstride.simulators.simulator import compile_functions, new_state
from longstride.training.run_directory.checkpoint import seal, unseal

SOURCE = Path(longstride.__file__).parents[1]
SMALL = {
    **{"actor_hidden_size": 16, "critic_hidden_size": 16, "num_hidden_layers": 2, "batch_size": 64},
    **{"device": "cpu", "num_envs": 4},
}


def small(**changes):
    return Hyperparameters(**{**SMALL, "training_episodes": 2, **changes})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two iterations of the shop, from an object."""
    return train(Shop(), small(), run_directory=tmp_path_factory.mktemp("api") / "shop", quiet=True)


@pytest.fixture(scope="module")
def table(finished):
    return evaluate(finished, quiet=True)


def test_a_run_leaves_a_run_directory_and_its_metrics(finished):
    assert finished.completed
    assert [record["steps"] > 0 for record in finished.metrics] == [True, True]
    lines = (finished.directory / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == finished.metrics
    config = json.loads((finished.directory / "config.json").read_text())
    assert config["values"]["simulator"] == "oracles.toy_simulators:Shop"
    assert config["sources"]["batch_size"] == "flag"
    assert config["sources"]["ppo_clip_param"] == "default"
    assert repr(finished) == f"TrainingRun(directory={finished.directory!r}, completed=True)"


def test_the_table_is_that_of_the_command_line(finished, table, capsys):
    assert list(table.rows) == [
        "trained",
        "trained_sampled",
        "untrained",
        "order_nothing",
        "order_up",
        "order_at_random",
        "upper_bound",
    ]
    kinds = ["policy", "policy", "policy", "heuristic", "heuristic", "heuristic", "bound"]
    assert [row["kind"] for row in table.rows.values()] == kinds
    assert (table.best_heuristic, table.main_metric, table.episodes) == ("order_up", "cash", 30)
    assert main(["--mode", "evaluate", "--checkpoint", str(finished.directory)]) == 0
    assert json.loads((finished.directory / "evaluation.json").read_text()) == table.as_json()


def test_differences_are_paired_with_the_best_heuristic(table):
    cash = {name: np.array([record["cash"] for record in records]) for name, records in table.records.items()}
    for name, row in table.rows.items():
        if name == "order_up":
            assert row["difference"] is None
            continue
        difference = cash[name] - cash["order_up"]
        half = 2.045230 * difference.std(ddof=1) / np.sqrt(30)  # t of 29 degrees of freedom
        numbers = [row["difference"][key] for key in ("mean", "low", "high")]
        mean = difference.mean()
        assert numbers == pytest.approx([mean, mean - half, mean + half], rel=1e-5)


def test_the_table_as_text_and_as_html(table):
    text = str(table)
    header = next(line for line in text.splitlines() if "policy" in line)
    assert "cash" in header
    assert "days" in header
    assert "against order_up" in header
    assert any("the best heuristic, order_up: " in line for line in text.splitlines())
    assert repr(table) == text
    html = table._repr_html_()
    assert html.count("<tr>") == 8
    assert "<caption>Mean and 95 % interval over 30 episodes</caption>" in html
    assert "<b>order_up</b></td>" in html


def test_data_frames(finished, table):
    pytest.importorskip("pandas")
    frame = table.to_pandas()
    assert frame.index.tolist() == list(table.rows)
    assert frame.loc["trained", "cash_low"] == table.rows["trained"]["metrics"]["cash"]["low"]
    assert frame.loc["trained", "difference"] == table.rows["trained"]["difference"]["mean"]
    assert np.isnan(frame.loc["order_up", "difference"])
    metrics = finished.to_pandas()
    assert metrics["metrics/cash"].tolist() == [record["metrics"]["cash"] for record in finished.metrics]


def test_data_frames_without_pandas(finished, table, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for frame_of, otherwise in ((finished.to_pandas, "run.metrics"), (table.to_pandas, "table.rows")):
        with pytest.raises(UserError, match=f"pandas is not installed; pip install pandas adds it. {otherwise} has"):
            frame_of()


@pytest.mark.parametrize("name", ["trained", "trained_sampled"])
def test_a_loaded_policy_plays_the_evaluation_to_the_bit(finished, table, name):
    shop, functions = Shop(), compile_functions(Shop())
    observe_state = build_observe_state(shop, functions)
    observation, mask = np.zeros(4, np.float32), np.zeros(4, np.bool_)
    features, guarded = np.zeros((4, 2), np.float32), new_guarded(4)
    policy = load_policy(finished.directory)
    for episode in range(5):
        state, rng = new_state(shop)[0], stream(0, "evaluation", episode)
        policy.reset(stream(0, "evaluation policy", episode))
        functions.reset(state, shop.parameters, rng)
        total, over, step = 0.0, False, 0
        while not over:
            observe_state(state, shop.parameters, guarded, observation, mask, features)
            action = policy.act(observation, mask, features, greedy=name == "trained")
            reward, terminated = functions.step(state, shop.parameters, action, rng)
            total, step = total + reward, step + 1
            over = terminated or functions.truncated(state, shop.parameters) or step == shop.max_steps
        assert total == table.records[name][episode]["return"]


def test_a_policy_needs_neither_its_simulator_nor_torch(finished, tmp_path):
    arrays = np.random.default_rng(0).normal(size=(20, 4)), np.ones((20, 4), bool), np.ones((20, 4, 2))
    np.savez(tmp_path / "arrays.npz", *arrays)
    code = (
        "import sys, numpy; from longstride import load_policy; policy = load_policy(sys.argv[1]); "
        "arrays = numpy.load('arrays.npz'); print(policy.act(*(arrays[name] for name in arrays)).tolist()); "
        "print(sorted({'torch', 'pydantic', 'rich', 'oracles'} & set(sys.modules)), policy.spec.actor_hidden); "
        "import oracles"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", code, str(finished.directory)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    expected = load_policy(finished.directory).act(*arrays).tolist()
    assert done.stdout == f"{expected}\n[] (16, 16)\n"
    assert "ModuleNotFoundError: No module named 'oracles'" in done.stderr, "the simulator's source is not there"


def test_a_run_whose_simulator_has_gone_is_evaluated_with_an_object(finished, tmp_path):
    shutil.copytree(finished.directory, tmp_path / "run")
    newest = max((tmp_path / "run" / "checkpoints" / "last").glob("*.json"))
    source = {"simulator": f"{tmp_path}/shop.py:Shop", "options": {}}
    newest.write_bytes(seal({**unseal(newest.read_bytes()), "source": source}))
    with pytest.raises(UserError, match=r"There is no simulator file .*shop.py\. Or pass the simulator: evaluate\("):
        evaluate(tmp_path / "run", quiet=True)
    table = evaluate(tmp_path / "run", Shop(), episodes=3, policies=["order_up"], quiet=True)
    assert list(table.rows) == ["trained", "trained_sampled", "untrained", "order_up", "upper_bound"]


def interrupt_after(lines, file):
    """Send Ctrl-C once a file has so many lines."""

    def wait():
        while not file.exists() or file.read_text().count("\n") < lines:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()


def test_an_interrupt_ends_the_run_after_the_iteration_and_resume_continues_it(tmp_path, capsys):
    before = signal.getsignal(signal.SIGINT)
    interrupt_after(1, tmp_path / "metrics.jsonl")
    run = train(Shop(), small(training_episodes=100_000), run_directory=tmp_path)
    done = len(run.metrics)
    assert 1 <= done < 100_000
    assert not run.completed
    assert signal.getsignal(signal.SIGINT) is before
    output = capsys.readouterr().out
    assert f"Stopped after iteration {done}, saved in {tmp_path}; resume=True continues the run." in output
    with pytest.raises(UserError, match="already holds a run"):
        train(Shop(), small(), run_directory=tmp_path, quiet=True)
    again = train(Shop(), small(training_episodes=done + 2), run_directory=tmp_path, resume=True)
    assert len(again.metrics) == done + 2
    assert again.completed
    assert f"Trained {done + 2} iterations; everything is in {tmp_path}." in capsys.readouterr().out


def test_a_resumed_run_keeps_its_settings(tmp_path, capsys):
    sizes = train(Shop(), small(training_episodes=1), run_directory=tmp_path, quiet=True).hyperparameters
    for episodes, simulator in ((2, Shop()), (3, "oracles.toy_simulators:Shop")):
        run = train(simulator, Hyperparameters(training_episodes=episodes), run_directory=tmp_path, resume=True)
        assert len(run.metrics) == episodes
        assert run.hyperparameters.actor_hidden_size == sizes.actor_hidden_size == 16
        said = f"Other settings from here on: TRAINING_EPISODES {episodes} by flag, {episodes - 1} in the run."
        assert said in capsys.readouterr().out


def test_quiet_prints_nothing(finished, capfd):
    train(Shop(), small(training_episodes=3), run_directory=finished.directory, resume=True, quiet=True)
    evaluate(finished, episodes=2, quiet=True)
    assert capfd.readouterr() == ("", "")


class Priced(Shop):
    """A shop whose price is an argument."""

    def __init__(self, price=1.5):
        self.parameters = ShopParameters(price=price, holding=0.1, days=30)


def test_another_object_of_the_class_does_not_take_the_place_of_the_one_trained_on(tmp_path):
    run = train(Priced(2.5), small(training_episodes=1), run_directory=tmp_path / "priced", quiet=True)
    sentence = "trained from Python on a Priced with other parameters than this one; pass that simulator"
    with pytest.raises(UserError, match=sentence):
        evaluate(run.directory, quiet=True)
    with pytest.raises(UserError, match=sentence):
        train(Priced(), small(), run_directory=run.directory, resume=True, quiet=True)
    by_run, by_object = evaluate(run, quiet=True, episodes=2), evaluate(run.directory, Priced(2.5), 2, quiet=True)
    assert by_run.as_json() == by_object.as_json()
    other = evaluate(run, Priced(1.0), episodes=2, quiet=True)  # asked for: how the policy does at other prices
    assert other.as_json() != by_run.as_json()


def test_a_class_that_has_no_name_of_its_own_goes_by_its_object(tmp_path):
    class Corner(Shop):
        """A shop inside of a function."""

    run = train(Corner(), small(training_episodes=1), run_directory=tmp_path, quiet=True)
    assert evaluate(run, episodes=2, policies=[], quiet=True).best_heuristic is None
    with pytest.raises(UserError, match=r"has no Corner.* Or pass the simulator: evaluate\('"):
        evaluate(str(run.directory), quiet=True)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"gama": 0.9}, "gama is unknown; did you mean gamma?"),
        ({"training_episodes": 0}, "training_episodes: 0 should be greater than or equal to 1."),
        ({"seed": True}, "seed: True is not an integer."),
        ({"device": "tpu"}, "device: 'tpu' should be 'auto', 'cpu' or 'cuda'."),
    ],
)
def test_wrong_hyperparameters_get_one_sentence(values, sentence, capsys):
    with pytest.raises(UserError) as error:
        Hyperparameters(**values)
    assert type(error.value) is UserError
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("simulator", "hyperparameters", "sentence"),
    [
        (3, None, "simulator is 3; pass a Simulator, a Gymnasium environment, a class or function"),
        ("cartpol", None, "did you mean cartpole?"),
        (Shop(), {"gamma": 0.9}, "hyperparameters must be Hyperparameters(...), not dict."),
        (Shop(), Hyperparameters(simulator="cartpole"), "but the hyperparameters name cartpole; leave out one."),
        (Shop(), Hyperparameters(simulator_options={"price": 2}), "pass them to the constructor."),
        ("NoSuchThing-v7", None, "Gymnasium has no environment NoSuchThing-v7"),
    ],
)
def test_wrong_arguments_of_train_get_one_sentence(simulator, hyperparameters, sentence, tmp_path):
    with pytest.raises(UserError) as error:
        train(simulator, hyperparameters, run_directory=tmp_path / "run")
    assert sentence in str(error.value)
    assert not (tmp_path / "run").exists()


def test_wrong_arguments_of_evaluate_and_load_policy_get_one_sentence(finished, tmp_path):
    for call, sentence in (
        (
            lambda: evaluate(finished, policies=["order_ups"]),
            "The simulator has no heuristic order_ups; did you mean order_up?",
        ),
        (lambda: evaluate(finished, episodes=1), "evaluation_episodes: 1 should be greater than or equal to 2."),
        (
            lambda: evaluate(finished, toy_simulators.Bandit()),
            "a different simulator: observation_size is 4 there and 5 here.",
        ),
        (lambda: evaluate(tmp_path), "There is no checkpoint in"),
        (lambda: load_policy(tmp_path), "There is no checkpoint in"),
    ):
        with pytest.raises(UserError) as error:
            call()
        assert sentence in str(error.value)


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(finished, tmp_path):
    shutil.copytree(finished.directory, tmp_path / "run")
    newest = max((tmp_path / "run" / "checkpoints" / "last").glob("*.json"))
    newest.write_text(newest.read_text()[:-9])
    with pytest.warns(UserWarning, match="is damaged") as caught:
        load_policy(tmp_path / "run")
    assert Path(caught[0].filename) == Path(__file__)


def test_names_of_the_package(finished):
    for name in longstride.__all__:
        assert getattr(longstride, name) is not None
    assert set(dir(longstride)) == set(longstride.__all__)
    assert isinstance(finished, TrainingRun)
    with pytest.raises(AttributeError, match="has no attribute 'Trainer'"):
        _ = longstride.Trainer
    with pytest.raises(ImportError):
        from longstride import Trainer  # noqa: F401
