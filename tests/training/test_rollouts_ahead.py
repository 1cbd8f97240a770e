"""Runs whose next rollout is played while the update runs: the same for the same seed, and after a resume."""

import io

import pytest
from rich.console import Console

pytest.importorskip("pydantic")

from longstride.config import Config
from longstride.errors import UserError
from longstride.settings import Settings
from longstride.training.assembly.run import build_run
from longstride.training.run_directory.metrics_log import MetricsLog, read_metrics

CONFIG = {
    "simulator": "oracles.toy_simulators:Shop",
    "training_episodes": 5,
    "num_envs": 4,
    "rollout_steps": 50,
    "rollout_lag": 1,
    "actor_hidden_size": 16,
    "critic_hidden_size": 16,
    "num_hidden_layers": 2,
    "batch_size": 32,
    "num_epochs": 2,
    "learning_rate_actor": 3e-3,
    "device": "cpu",
    "seed": 4,
}

GROWING = {"simulator": "oracles.toy_simulators:Bandit", "activation": "tanh", "num_envs": 0, "rollout_steps": 0}
"""Of a simulator whose rollouts grow by default; the network of the other tests with it."""


def new_run(directory, resume=False, **changes):
    config = Config(**{**CONFIG, "run_directory": str(directory), **changes})
    return build_run(Settings(config), resume, lambda text: None)


def train(run, stop_after=None):
    console = Console(file=io.StringIO())
    return run.train(console, lambda: stop_after is not None and run.trainer.iteration >= stop_after)


def figures(directory):
    """Return what does not depend on the clock."""
    names = "trajectory_sha256", "return", "approx_kl", "policy_loss", "value_loss", "initial_ratio_error"
    return [{name: record[name] for name in names} for record in read_metrics(directory)]


@pytest.fixture(scope="module", autouse=True)
def no_tensorboard():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetricsLog, "_open_board", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs") / "whole"
    assert train(new_run(directory, simulation_threads=1)) is True
    return directory


def test_a_resumed_run_equals_the_uninterrupted_one(whole, tmp_path):
    assert train(new_run(tmp_path / "parts", simulation_threads=2), stop_after=2) is False
    assert train(new_run(tmp_path / "parts", resume=True)) is True
    assert figures(tmp_path / "parts") == figures(whole)


def test_the_policy_that_played_is_one_update_behind(whole, tmp_path):
    assert train(new_run(tmp_path / "in_step", rollout_lag=0)) is True
    ahead, in_step = figures(whole), figures(tmp_path / "in_step")
    assert ahead[0] == in_step[0]
    assert ahead[1]["trajectory_sha256"] != in_step[1]["trajectory_sha256"]
    assert all(record["initial_ratio_error"] < 1e-4 for record in in_step), "the policy that learns has played"
    assert all(record["initial_ratio_error"] > 1e-3 for record in ahead[1:]), "the one before it has"
    assert [record["hosts"]["staleness"] for record in read_metrics(whole)] == [0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (GROWING, "ROLLOUT_LAG plays the next rollout before its size"),
        ({"rollout_hosts": "somewhere"}, "ROLLOUT_HOSTS is 'somewhere'; write auto, HOST:PORT"),
        ({"rollout_hosts": "local:0"}, "write local:2 for two players"),
        ({"collect_on": "torch"}, "COLLECT_ON"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, changes, sentence):
    with pytest.raises(UserError, match=sentence):
        new_run(tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()
