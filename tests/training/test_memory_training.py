"""Runs with POLICY_NETWORK = "mingru": resume to the bit, replay, evaluation, groups, refusals; and they learn."""

import json

import numpy as np
import pytest
import torch
from helpers.memory_models import memory_spec
from helpers.memory_rollouts import memory_update, memory_updater, shop_model
from helpers.specs import mlp_spec
from helpers.toy_runs import SEED, actor_weights
from oracles.echo import Echo
from oracles.toy_simulators import Shop
from training.test_trainer import assert_same_state, figures, new_run, no_tensorboard, train  # noqa: F401

from longstride import load_policy
from longstride.cli import main
from longstride.errors import UserError
from longstride.learning.policy_health import policy_health
from longstride.policies.loaded_policy import LoadedPolicy
from longstride.policies.networks import ActorCritic, initialise
from longstride.policies.spec import CHUNK
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.fixed_length_collector import FixedLengthCollector
from longstride.seeding import stream
from longstride.simulators.simulator import new_state
from longstride.training.evaluation.compiled import CompiledPlayer
from longstride.training.run_directory.checkpoint import load_checkpoint
from longstride.training.run_directory.metrics_log import MetricsLog, read_metrics

MINGRU = {
    **{"policy_network": "mingru", "rollout_steps": 70, "training_episodes": 4, "batch_size": 300},
    **{"activation": "tanh", "num_envs": 2},
}
"""Rollouts of 70 steps, in the middle of an episode of at most 30 days; the network of the other tests."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the directory of a run of four iterations."""
    directory = tmp_path_factory.mktemp("memory") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetricsLog, "_open_board", lambda *_: None)
        assert train(new_run(directory, **MINGRU, simulation_threads=1)) is True
    return directory


def test_a_resumed_run_equals_the_uninterrupted_one_to_the_bit(run, tmp_path):
    """It is interrupted in the middle of episodes, with the memories of actor and critic in its checkpoint."""
    parts = tmp_path / "parts"
    assert train(new_run(parts, **MINGRU, simulation_threads=2), 2) is False
    tensors, metadata = load_checkpoint(parts)
    assert tensors["critic_states"].shape == (2, 2 * 16)
    assert tensors["critic_states"].any()
    assert not all(instance["over"] for instance in metadata["rollout"])
    train(new_run(parts, **MINGRU, resume=True))
    assert_same_state(run, parts)
    assert figures(run) == figures(parts)
    assert [record["trajectory_sha256"] for record in read_metrics(run)] == [
        record["trajectory_sha256"] for record in read_metrics(parts)
    ]


def test_every_update_finds_the_probabilities_of_its_rollout(run):
    records = read_metrics(run)
    assert len(records) == 4
    for record in records:
        assert record["initial_ratio_error"] < 1e-5
        assert record["skipped_steps"] == 0
        assert (record["batch_size"], record["optimizer_steps"]) == (CHUNK, 4)
        assert 0.0 <= record["dead_units"] < 1.0


def test_it_is_replayed_to_the_same_hash(run, capsys):
    for iteration in (1, 4):
        flags = ["--mode", "replay", "--run-directory", str(run), "--iteration", str(iteration), "--trust-simulator"]
        assert main(flags) == 0
        assert f"Iteration {iteration}: the same 140 steps as in the run" in capsys.readouterr().out


def test_it_is_evaluated(run, tmp_path):
    flags = ["--mode", "evaluate", "--checkpoint", str(run), "--run-directory", str(tmp_path), "--trust-simulator"]
    assert main([*flags, "--evaluation-episodes", "3", "--policy", "order_up"]) == 0
    policies = json.loads((tmp_path / "evaluation.json").read_text())["policies"]
    assert {"trained", "trained_sampled", "order_up"} <= policies.keys()


def returns_of(policy, episodes, greedy):
    """Play the evaluation's episodes of the shop as plain Python; return their returns."""
    returns = []
    for number in range(episodes):
        rng, state, total = stream(SEED, "evaluation", number), new_state(Shop())[0], 0.0
        policy.reset(stream(SEED, "evaluation policy", number))
        Shop.reset(state, Shop.parameters, rng)
        over = False
        while not over:
            observation, mask = np.zeros(4, np.float32), np.ones(4, np.bool_)
            features = np.zeros((4, 2), np.float32)
            Shop.observe(state, Shop.parameters, observation)
            Shop.action_mask(state, Shop.parameters, mask)
            Shop.action_features(state, Shop.parameters, mask, features)
            action = policy.act(observation, mask, features, greedy)
            reward, terminated = Shop.step(state, Shop.parameters, action, rng)
            total += reward
            over = terminated or Shop.truncated(state, Shop.parameters)
        returns.append(total)
    return returns


@pytest.mark.parametrize("name", ["trained", "trained_sampled"])
def test_a_loaded_policy_does_in_each_episode_what_that_of_an_evaluation_does(name):
    model = shop_model()
    records, _ = CompiledPlayer(Shop(), model.spec, 2).play(name, actor_weights(model), 5, SEED)
    policy = LoadedPolicy(model.spec, actor_weights(model))
    expected = returns_of(policy, 5, greedy=name == "trained")
    assert [record["return"] for record in records] == pytest.approx(expected, rel=1e-12)


def test_the_policy_of_a_run_is_loaded_with_its_memory(run):
    policy, observation = load_policy(str(run)), np.array([2.0, 0.3, 0.0, -0.5], np.float32)
    features = np.zeros((4, 2), np.float32)
    assert policy.spec.family.name == "mingru"
    for _ in range(2):
        assert not policy._one.states.any()
        policy.act(observation, None, features)
        assert policy._one.states.any()
        policy.reset()


def test_environments_are_trained_and_evaluated(tmp_path):
    """Each begins another episode when the run is resumed; the first evaluation forgets before the second."""
    pytest.importorskip("gymnasium")
    flags = {"simulator": "gymnasium:CartPole-v1", "rollout_steps": 200, "training_episodes": 2}
    train(new_run(tmp_path / "run", **{**MINGRU, **flags}), 1)
    train(new_run(tmp_path / "run", **{**MINGRU, **flags}, resume=True))
    records = read_metrics(tmp_path / "run")
    assert [record["initial_ratio_error"] < 1e-5 for record in records] == [True, True]
    arguments = ["--checkpoint", str(tmp_path / "run"), "--run-directory", str(tmp_path / "evaluation")]
    assert main(["--mode", "evaluate", *arguments, "--evaluation-episodes", "3"]) == 0


def test_groups_of_rollouts_are_compared(tmp_path):
    changes = {"algorithm": "grpo", "group_size": 2, "num_envs": 4}
    train(new_run(tmp_path / "run", **{**MINGRU, **changes, "training_episodes": 2}))
    for record in read_metrics(tmp_path / "run"):
        assert record["initial_ratio_error"] < 1e-5
        assert record["compared_groups"] > 0
        assert record["explained_variance"] is None
        assert abs(record["policy_loss"]) > 0.0


REFUSED = {
    "penalty": (
        {"kl_coefficient": 0.1},
        "POLICY_NETWORK is 'mingru', which learns from many steps together, but KL_COEFFICIENT compares single "
        "decisions with the first policy; set it to 0.",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_asks_about_single_decisions_is_refused(kind, tmp_path, capsys):
    changes, sentence = REFUSED[kind]
    with pytest.raises(UserError) as error:
        new_run(tmp_path / "run", **{**MINGRU, **changes})
    assert str(error.value) == sentence
    flags = [word for name, value in changes.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    arguments = ["--policy-network", "mingru", "--simulator", "cartpole", "--run-directory", str(tmp_path / "other")]
    assert main(["--mode", "train", *arguments, *flags]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_an_unknown_network_is_a_sentence(tmp_path, capsys):
    assert main(["--mode", "train", "--policy-network", "lstm", "--run-directory", str(tmp_path)]) == 2
    said = "error: --policy-network: 'lstm' should be 'mlp', 'mingru', 'transformer' or 'pointer'.\n"
    assert capsys.readouterr().err == said


def test_compiled_kernels_are_refused_with_a_reason(tmp_path):
    with pytest.raises(UserError, match="compiled kernels are for multilayer perceptrons, not for mingru"):
        new_run(tmp_path / "run", **MINGRU, update_execution="numba")


def test_a_resume_with_another_network_is_refused(run):
    with pytest.raises(UserError, match="The checkpoint does not fit"):
        new_run(run, **{**MINGRU, "policy_network": "mlp"}, resume=True)


def test_figures_of_the_policys_health():
    """Of units that give the same number for all observations, and of outputs that do not depend on them."""
    model = shop_model()
    observations = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    health = policy_health(model, observations, np.ones((50, 4), np.bool_))
    assert (health.dead_units, health.observation_effect) == (0.0, None)
    with torch.no_grad():
        model.layers("actor")[0][0].zero_()
    assert policy_health(model, observations, np.ones((50, 4), np.bool_)).dead_units == 1.0


def test_captured_steps_have_no_more_than_a_few_slots_of_padding():
    """64 chunks in minibatches of at most 8: the ninth to the thirty-second slot would be computed for nothing."""
    updater = memory_updater(shop_model(), batch_size=8 * CHUNK, executions=("eager", "graph"))
    assert updater.runner.slots(8) == 8


def learned(spec, iterations):
    """Return the reward a step of the last iterations of an echo's policy."""
    model = ActorCritic(spec)
    initialise(model, "orthogonal", torch.Generator().manual_seed(0))
    rates = {"learning_rate_actor": 1e-2, "learning_rate_critic": 1e-2, "entropy_coefficient": 0.0}
    updater = memory_updater(model, **rates, epochs=4, batch_size=512, microbatch=512)
    collector, rewards = FixedLengthCollector(Echo(), spec, RolloutPlan(SEED, 8, CHUNK)), []
    for number in range(iterations):
        rollout, _ = collector.collect(actor_weights(model), 0, 8)
        rewards.append(np.mean([each.trajectory.rewards for each in rollout]))
        memory_update(updater, rollout, number)
    return np.mean(rewards[-3:])


@pytest.mark.slow
def test_it_learns_what_only_a_memory_can_know():
    """19 of 20 steps can be right; without memory half of them are, by chance."""
    space, iterations = Echo.action_space, 18
    assert learned(memory_spec(2, space, (16,), (16,)), iterations) > 0.9
    assert 0.4 < learned(mlp_spec((2, 16, 16, 2), (2, 16, 16, 1), "tanh", space), iterations) < 0.55
