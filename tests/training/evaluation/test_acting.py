"""The better of likeliest and drawn actions: found by an evaluation, said, kept with the run, and taken by default."""

import json

import numpy as np
import pytest

pytest.importorskip("pydantic")

from longstride import Discrete, Simulator, load_policy
from longstride.cli import main
from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import PolicySpec
from longstride.training.evaluation.acting import acting_sentence, compare_draws, keep_verdict
from longstride.training.evaluation.trained_policy import TrainedPolicy
from longstride.training.run_directory.acting_file import draws_by_default
from longstride.training.run_directory.directory import RunDirectory

SPEC = PolicySpec(1, Discrete(2), (4,), (4,), "relu", MLP)


class Alternate(Simulator):
    """Pays for an action other than the one before: the likeliest action of a policy without memory never pays."""

    observation_size, action_space, max_steps = 1, Discrete(2), 50
    state_dtype = np.dtype([("last", np.int64)])

    def reset(state, parameters, rng):
        state.last = 0

    def observe(state, parameters, observation):
        observation[0] = 0.0

    def step(state, parameters, action, rng):
        reward = 1.0 if action != state.last else 0.0
        state.last = action
        return reward, False


class Same(Alternate):
    """Pays for the first action: draws lose."""

    def step(state, parameters, action, rng):
        return 1.0 if action == 0 else 0.0, False


def indifferent():
    """Return a policy that gives all actions the same probability; the likeliest one is the first."""
    return TrainedPolicy(np.zeros(SPEC.layout.actor_size, np.float32), SPEC)


@pytest.mark.parametrize(
    ("simulator", "word", "sentence"),
    [
        (Alternate(), "better", "Drawing its actions is better than taking the most likely ones: 25"),
        (Same(), "worse", "Drawing its actions is worse than taking the most likely ones: 2"),
    ],
)
def test_the_better_way_is_found_and_kept_for_this_policy_alone(simulator, word, sentence, tmp_path):
    policy = indifferent()
    verdict = compare_draws(simulator, policy, 0, 1)
    assert verdict.word == word
    assert acting_sentence(verdict).startswith(sentence)
    keep_verdict(RunDirectory(tmp_path), verdict, policy.actor_params)
    assert draws_by_default(tmp_path, policy.actor_params) == (word == "better")
    assert not draws_by_default(tmp_path, policy.actor_params + 1)


@pytest.fixture
def alternate():
    """Return the flags of a short training on a simulator that only draws solve, with the network of ``SPEC``."""
    network = ["--actor-hidden-size", "4", "--critic-hidden-size", "4", "--num-hidden-layers", "1"]
    flags = ["--simulator", f"{__name__}:Alternate", "--training-episodes", "1", "--num-envs", "4", *network]
    return [*flags, "--rollout-steps", "100", "--no-report"]


def test_a_run_says_so_and_its_policy_draws(tmp_path, alternate, monkeypatch, capsys):
    monkeypatch.setattr("longstride.commands.train.command.SHORT_RUN", 0.0)
    assert main(["train", *alternate, "--run-directory", str(tmp_path / "run")]) == 0
    assert "Drawing its actions is better than taking the most likely ones" in " ".join(capsys.readouterr().out.split())
    assert load_policy(tmp_path / "run").draws is True


def test_evaluate_decides_how_the_loaded_policy_acts(tmp_path, alternate, capsys):
    run = tmp_path / "run"
    assert main(["train", *alternate, "--run-directory", str(run)]) == 0
    assert load_policy(run).draws is False
    assert main(["evaluate", "--checkpoint", str(run), "--evaluation-episodes", "8", "--no-report"]) == 0
    assert "Drawing its actions is better than taking the most likely ones" in capsys.readouterr().out
    policy = load_policy(run)
    assert policy.draws is True
    assert {policy.act(np.zeros(1, np.float32)) for _ in range(50)} == {0, 1}
    assert len({policy.act(np.zeros(1, np.float32), greedy=True) for _ in range(50)}) == 1
    assert json.loads((run / "acting.json").read_text())["verdict"] == "better"
