"""Training and evaluating in Gymnasium environments, from the command line."""

import json

import pytest

pytest.importorskip("pydantic")
pytest.importorskip("gymnasium")

from oracles.toy_environments import first_of

from longstride.cli import main
from longstride.seeding import stream
from longstride.simulators.gym.open_environment import seed_of
from longstride.training.run_directory.checkpoint import load_checkpoint
from longstride.training.run_directory.metrics_log import MetricsLog, read_metrics

SMALL = [
    *("--actor-hidden-size", "16", "--critic-hidden-size", "16", "--num-hidden-layers", "1", "--batch-size", "64"),
    *(
        "--device",
        "cpu",
        "--num-envs",
        "2",
        "--rollout-steps",
        "100",
        "--learning-rate-schedule",
        "constant",
    ),
]


@pytest.fixture(autouse=True, scope="module")
def no_tensorboard():
    """Its import takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetricsLog, "_open_board", lambda *_: None)
        yield


def train(directory, name, episodes, *more):
    run = ("--run-directory", str(directory), "--training-episodes", str(episodes), "--simulator", f"gymnasium:{name}")
    return main(["--mode", "train", *SMALL, *run, *more])


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs") / "cartpole"
    assert train(directory, "CartPole-v1", 2, "--simulator-option", "max_episode_steps=30") == 0
    return directory


def test_a_run_of_an_environment(cartpole):
    records = read_metrics(cartpole)
    assert [r["steps"] for r in records] == [200, 200]
    for record in records:
        assert record["simulated_episodes"] > 5
        assert record["return"] == record["metrics"]["length"], "the cart earns 1 a step"
        assert 5 < record["return"] <= 30
        assert record["initial_ratio_error"] < 1e-3


def test_resume_begins_new_episodes(cartpole, tmp_path):
    before = load_checkpoint(cartpole)[1]["rollout"]
    assert train(cartpole, "CartPole-v1", 3, "--simulator-option", "max_episode_steps=30", "--resume") == 0
    after = load_checkpoint(cartpole)[1]["rollout"]
    assert [r["iteration"] for r in read_metrics(cartpole)] == [1, 2, 3]
    assert all(b["number"] > a["number"] for a, b in zip(before, after, strict=True))


def test_resume_with_other_copies_is_refused(cartpole, capsys):
    same = ("CartPole-v1", 9, "--simulator-option", "max_episode_steps=30", "--resume")
    assert train(cartpole, *same, "--num-envs", "3") == 2
    assert capsys.readouterr().err == (
        f"error: The run in {cartpole} has 2 environment instances, each in an unfinished episode, not 3; resume with "
        "NUM_ENVS = 2.\n"
    )


def test_evaluation_of_an_environment(cartpole, tmp_path):
    directory = tmp_path / "evaluation"
    arguments = ("--checkpoint", str(cartpole), "--evaluation-episodes", "3", "--run-directory", str(directory))
    assert main(["--mode", "evaluate", *arguments]) == 0
    policies = json.loads((directory / "evaluation.json").read_text())["policies"]
    assert list(policies) == ["trained", "trained_sampled", "untrained", "random"]
    for metrics in policies.values():
        assert metrics["return"]["mean"] == metrics["length"]["mean"] <= 30


def test_episodes_of_an_evaluation_have_their_own_seeds(tmp_path, monkeypatch):
    """The walk earns 1 + 2 + 3; its mask leaves the random heuristic two actions at even steps."""
    seen = []
    monkeypatch.setattr("oracles.toy_environments.Walk._look", recording(seen))
    name = ("--simulator", "gymnasium:LongstrideWalk-v0", "--simulator-option", "cut=3", "--policy", "random")
    arguments = ("--evaluation-episodes", "4", "--seed", "5", "--run-directory", str(tmp_path))
    assert main(["--mode", "evaluate", *name, *arguments]) == 0
    result = json.loads((tmp_path / "evaluation.json").read_text())["policies"]["random"]
    assert result["return"] == {"mean": 6.0, "low": 6.0, "high": 6.0}
    assert seen == [first_of(seed_of(stream(5, "evaluation", episode))) for episode in range(4)]


@pytest.mark.parametrize(
    ("longest", "together", "shortest"), [(50, 1_000, 10), (1_000, 100, 10), (1_000, 100, 50), (1_000, 20, 50)]
)
def test_an_environment_that_never_ends_is_stopped_and_it_says_so(
    longest, together, shortest, tmp_path, monkeypatch, capsys
):
    """The walk ends after 1,000 steps and has no time limit; it earns 1 + ... + 50 up to the stop."""
    monkeypatch.setattr("longstride.simulators.gym.adapter.LONGEST_EPISODE", longest)
    monkeypatch.setattr("longstride.simulators.gym.adapter._LONGEST_EVALUATION", together)
    monkeypatch.setattr("longstride.simulators.gym.adapter._SHORTEST_LIMIT", shortest)
    name = ("--simulator", "gymnasium:LongstrideWalk-v0", "--policy", "random", "--evaluation-episodes", "2")
    assert main(["--mode", "evaluate", *name, "--run-directory", str(tmp_path)]) == 0
    result = json.loads((tmp_path / "evaluation.json").read_text())["policies"]["random"]
    assert (result["return"]["mean"], result["length"]["mean"]) == (1275.0, 50.0)
    assert (
        "2 of 2 episodes of random were stopped after 50 steps and count up to there: "
        "gymnasium:LongstrideWalk-v0 has no time limit (--simulator-option max_episode_steps=N sets one)."
    ) in capsys.readouterr().out


def test_a_time_limit_is_kept_however_many_steps_all_episodes_take(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("longstride.simulators.gym.adapter._LONGEST_EVALUATION", 20)
    monkeypatch.setattr("longstride.simulators.gym.adapter._SHORTEST_LIMIT", 10)
    name = ("--simulator", "gymnasium:LongstrideWalk-v0", "--policy", "random", "--evaluation-episodes", "2")
    limit = ("--simulator-option", "max_episode_steps=60")
    assert main(["--mode", "evaluate", *name, *limit, "--run-directory", str(tmp_path)]) == 0
    result = json.loads((tmp_path / "evaluation.json").read_text())["policies"]["random"]
    assert result["length"]["mean"] == 60.0
    assert "stopped after" not in capsys.readouterr().out


def test_every_environment_is_closed_after_a_training_an_evaluation_and_an_error(tmp_path, monkeypatch, capsys):
    closed = []
    monkeypatch.setattr("oracles.toy_environments.Walk.close", lambda env: closed.append(len(env.received)))
    run = tmp_path / "run"
    assert train(run, "LongstrideWalk-v0", 1, "--simulator-option", "cut=20") == 0
    assert closed == [0, 200, 100], "one for its spaces, and two instances of which the first has warmed up"
    closed.clear()
    assert main(["--mode", "evaluate", "--checkpoint", str(run), "--evaluation-episodes", "2", "--no-report"]) == 0
    assert closed == [0, 4 * 2 * 20]
    closed.clear()
    assert train(tmp_path / "other", "LongstrideWalk-v0", 1, "--simulator-option", "fault=raise") == 2
    assert "ValueError: the legs broke (line" in capsys.readouterr().err
    assert closed == [0, 4]


def recording(seen):
    from oracles.toy_environments import Walk

    look = Walk._look

    def recorded(self):
        if self.count == 0:
            seen.append(self.first)
        return look(self)

    return recorded


@pytest.mark.parametrize("mode", [("--mode", "train"), ("--mode", "evaluate", "--policy", "random")])
def test_an_unknown_environment_is_one_sentence(mode, tmp_path, capsys):
    name = ("--simulator", "gymnasium:CartPol-v1", "--run-directory", str(tmp_path / "run"))
    assert main([*mode, *name]) == 2
    assert capsys.readouterr().err == (
        "error: Gymnasium has no environment CartPol-v1; did you mean gymnasium:CartPole-v1?\n"
    )


def test_it_learns_to_balance(tmp_path):
    """A random policy earns about 22; 16 rollouts of 2,048 decisions must bring 150."""
    more = ("--rollout-steps", "0", "--num-epochs", "10", "--num-envs", "1", "--batch-size", "256")
    sizes = ("--actor-hidden-size", "64", "--critic-hidden-size", "64", "--num-hidden-layers", "2")
    assert train(tmp_path / "run", "CartPole-v1", 16, *more, *sizes) == 0
    records = read_metrics(tmp_path / "run")
    assert [r["steps"] for r in records] == [2048] * 16
    assert records[0]["return"] < 40
    assert records[-1]["return"] > 150
