"""Runs with POLICY_NETWORK = "transformer": resume to the bit, replay, evaluation, refusals; and they learn."""

import json

import numpy as np
import pytest
import torch
from helpers.memory_rollouts import memory_updater
from helpers.transformer_models import transformer_spec
from oracles.echo import Echo
from oracles.toy_simulators import Shop
from training.test_memory_training import learned
from training.test_trainer import CONFIG, assert_same_state, figures, no_tensorboard, train  # noqa: F401

from longstride import load_policy
from longstride.cli import main
from longstride.config import Config
from longstride.errors import UserError
from longstride.learning.policy_health import policy_health
from longstride.policies.networks import ActorCritic, initialise
from longstride.policies.spec import CHUNK
from longstride.settings import Settings
from longstride.training.assembly.run import build_run
from longstride.training.run_directory.checkpoint import load_checkpoint
from longstride.training.run_directory.metrics_log import MetricsLog, read_metrics

TRANSFORMER = {
    **{"preset": "large_transformer", "policy_network": "transformer", "num_hidden_layers": 2, "batch_size": 300},
    **{"actor_hidden_size": 16, "critic_hidden_size": 24, "attention_heads": 2, "feed_forward_factor": 2},
    **{"context_length": 5, "activation": "tanh", "rollout_steps": 150, "training_episodes": 3, "num_envs": 2},
}
"""The large transformer at a reduced size; rollouts of two chunks end in the middle of an episode."""


def new_run(directory, resume=False, **flags):
    config = Config(**{**CONFIG, "run_directory": str(directory), **flags})
    return build_run(Settings(config, dict.fromkeys(flags, "flag")), resume, lambda text: None)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the directory of a run of three iterations."""
    directory = tmp_path_factory.mktemp("transformer") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetricsLog, "_open_board", lambda *_: None)
        assert train(new_run(directory, **TRANSFORMER, simulation_threads=1)) is True
    return directory


def test_a_resumed_run_equals_the_uninterrupted_one_to_the_bit(run, tmp_path):
    """It is interrupted in the middle of episodes, with the rings of actor and critic in its checkpoint."""
    parts = tmp_path / "parts"
    assert train(new_run(parts, **TRANSFORMER, simulation_threads=2), 2) is False
    tensors, metadata = load_checkpoint(parts)
    assert tensors["critic_states"].shape == (2, 2 * 2 * 5 * 24 + 1)
    assert tensors["critic_states"].any()
    assert not all(instance["over"] for instance in metadata["rollout"])
    train(new_run(parts, **TRANSFORMER, resume=True))
    assert_same_state(run, parts)
    assert figures(run) == figures(parts)


def test_every_update_finds_the_probabilities_of_its_rollout(run):
    records = read_metrics(run)
    assert len(records) == 3
    for record in records:
        assert record["initial_ratio_error"] < 1e-5
        assert record["skipped_steps"] == 0
        assert record["batch_size"] == 2 * CHUNK
        assert 0.0 <= record["dead_units"] < 1.0


def test_checkpointed_activations_change_no_bit(run, tmp_path):
    train(new_run(tmp_path / "run", **TRANSFORMER, gradient_checkpointing=True))
    assert_same_state(run, tmp_path / "run")


def test_it_is_replayed_to_the_same_hash(run, capsys):
    flags = ["--mode", "replay", "--run-directory", str(run), "--iteration", "3", "--trust-simulator"]
    assert main(flags) == 0
    assert "Iteration 3: the same 300 steps as in the run" in capsys.readouterr().out


def test_it_is_evaluated(run, tmp_path):
    flags = ["--mode", "evaluate", "--checkpoint", str(run), "--run-directory", str(tmp_path), "--trust-simulator"]
    assert main([*flags, "--evaluation-episodes", "3", "--policy", "order_up"]) == 0
    policies = json.loads((tmp_path / "evaluation.json").read_text())["policies"]
    assert {"trained", "trained_sampled", "order_up"} <= policies.keys()


def test_the_policy_of_a_run_is_loaded_with_its_memory(run):
    policy, observation = load_policy(str(run)), np.array([2.0, 0.3, 0.0, -0.5], np.float32)
    features = np.zeros((4, 2), np.float32)
    for _ in range(2):
        assert not policy._one.states.any()
        for _ in range(3):
            policy.act(observation, None, features)
        assert policy._one.states[0, -1] == 3
        policy.reset()


REFUSED = {
    "penalty": ({"kl_coefficient": 0.1}, "POLICY_NETWORK is 'transformer', which learns from many steps together"),
    "kernels": ({"update_execution": "numba"}, "multilayer perceptrons, not for transformer"),
    "heads": (
        {"attention_heads": 3},
        "ACTOR_HIDDEN_SIZE is 16, but a transformer with ATTENTION_HEADS = 3 needs a multiple of 6, an even part for "
        "each head; change one of them.",
    ),
    "heads of the critic": ({"critic_hidden_size": 30}, "CRITIC_HIDDEN_SIZE is 30, but a transformer with"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_work_is_refused(kind, tmp_path):
    changes, sentence = REFUSED[kind]
    with pytest.raises(UserError) as error:
        new_run(tmp_path / "run", **{**TRANSFORMER, **changes})
    assert sentence in str(error.value)


def test_a_resume_with_another_context_is_refused(run):
    """The parameters would fit; what the episodes in the checkpoint remember would not."""
    with pytest.raises(UserError, match="state of an unfinished episode"):
        new_run(run, **{**TRANSFORMER, "context_length": 6}, resume=True)


def test_figures_of_the_policys_health():
    model = ActorCritic(transformer_spec(Shop.observation_size, Shop.action_space, activation="relu"))
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    observations = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    masks = np.ones((len(observations), model.spec.action_space.outputs), np.bool_)
    assert policy_health(model, observations, masks).dead_units < 0.2
    with torch.no_grad():
        for number in (3, 7):
            model.layers("actor")[number][1].fill_(-100.0)
    assert policy_health(model, observations, masks).dead_units == pytest.approx(64 / 80)


@pytest.mark.slow
def test_it_learns_what_only_a_memory_can_know():
    """19 of 20 steps can be right; without memory half of them are, by chance."""
    spec = transformer_spec(2, Echo.action_space, (16, 16), 1, "relu", attention=(4, 2, 2))
    assert learned(spec, 18) > 0.9


def test_minibatches_without_a_remainder_of_context():
    """Context is computed with each chunk, and is no sample."""
    updater = memory_updater(ActorCritic(transformer_spec()), batch_size=8 * CHUNK)
    assert updater._largest == 8
