"""Runs with POLICY_NETWORK = "pointer": resume to the bit, replay, other numbers of actions, refusals."""

import json

import numpy as np
import pytest
import torch
from helpers.toy_runs import SEED
from oracles.listed_shop import ListedShop
from training.test_trainer import assert_same_state, figures, new_run, no_tensorboard, train  # noqa: F401

from longstride import load_policy
from longstride.cli import main
from longstride.errors import UserError
from longstride.seeding import stream
from longstride.simulators.check import check_simulator
from longstride.simulators.simulator import new_state
from longstride.simulators.validate import require_complete
from longstride.training.run_directory.checkpoint import load_checkpoint
from longstride.training.run_directory.metrics_log import MetricsLog, read_metrics

POINTER = {
    **{"simulator": "oracles.listed_shop:ListedShop", "policy_network": "pointer", "rollout_steps": 70},
    **{"training_episodes": 4, "batch_size": 64, "num_hidden_layers": 1},
}
"""Rollouts of 70 steps, in the middle of an episode of at most 30 days."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the directory of a run of four iterations."""
    directory = tmp_path_factory.mktemp("lists") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetricsLog, "_open_board", lambda *_: None)
        assert train(new_run(directory, **POINTER, simulation_threads=1)) is True
    return directory


def test_a_resumed_run_equals_the_uninterrupted_one_to_the_bit(run, tmp_path):
    """With the scales of the descriptions, and with memory for lists that begins anew."""
    parts = tmp_path / "parts"
    assert train(new_run(parts, **POINTER, simulation_threads=2), 2) is False
    tensors, metadata = load_checkpoint(parts)
    assert tensors["descriptions.count"].item() > 100.0
    assert not all(instance["over"] for instance in metadata["rollout"])
    train(new_run(parts, **POINTER, resume=True))
    assert_same_state(run, parts)
    assert figures(run) == figures(parts)


def test_every_update_finds_the_probabilities_of_its_rollout(run):
    tensors, _ = load_checkpoint(run)
    assert (tensors["model.action_scale"] != 1.0).any()
    for record in read_metrics(run):
        assert record["initial_ratio_error"] < 1e-5
        assert record["skipped_steps"] == 0


def test_a_policy_that_tries_nothing_has_no_floor_under_its_entropy(tmp_path):
    run = new_run(tmp_path / "run", **POINTER, entropy_target=1.0)
    with torch.no_grad():
        for name in ("actor.score", "actor.feature_weights"):
            run.trainer.model.tensors[name].add_(1e3)
    train(run)
    record = read_metrics(tmp_path / "run")[0]
    assert 2.0 * record["entropy_share"] < record["entropy_target"]
    assert record["logit_factor"] == 1.0


def test_it_is_replayed_to_the_same_hash(run, capsys):
    assert main(["--mode", "replay", "--trust-simulator", "--run-directory", str(run), "--iteration", "4"]) == 0
    assert "Iteration 4: the same 140 steps as in the run" in capsys.readouterr().out


def evaluated(run, tmp_path, *flags):
    """Evaluate a run on three episodes; return what evaluation.json says of the policies."""
    arguments = [
        "--mode",
        "evaluate",
        "--trust-simulator",
        "--checkpoint",
        str(run),
        "--run-directory",
        str(tmp_path),
        *flags,
    ]
    assert main([*arguments, "--evaluation-episodes", "3", "--policy", "order_up"]) == 0
    return json.loads((tmp_path / "evaluation.json").read_text())["policies"]


def returns_of(policy, shop, episodes):
    """Play the evaluation's episodes as plain Python; return their returns."""
    returns = []
    for number in range(episodes):
        rng, state, total, over = stream(SEED, "evaluation", number), new_state(shop)[0], 0.0, False
        ListedShop.reset(state, shop.parameters, rng)
        n = shop.action_space.n
        while not over:
            summary, ids, rows = np.zeros(3, np.float32), np.zeros(n, np.int32), np.zeros((n, 3), np.float32)
            ListedShop.summarise(state, shop.parameters, summary)
            count = ListedShop.describe_actions(state, shop.parameters, ids, rows)
            action = ids[policy.act(summary, features=rows[:count])]
            reward, terminated = ListedShop.step(state, shop.parameters, int(action), rng)
            total, over = total + reward, terminated or ListedShop.truncated(state, shop.parameters)
        returns.append(total)
    return returns


def test_the_same_checkpoint_plays_with_other_numbers_of_actions(run, tmp_path):
    """The evaluation plays what the loaded policy does in a plain loop; the larger van has two more actions."""
    policies = evaluated(run, tmp_path, "--seed", str(SEED), "--simulator-option", "van=5")
    expected = returns_of(load_policy(run), ListedShop(5), 3)
    assert policies["trained"]["return"]["mean"] == pytest.approx(np.mean(expected), rel=1e-9)
    assert {"trained_sampled", "order_up"} <= policies.keys()


def test_groups_of_rollouts_are_learned_from(tmp_path):
    changes = {"algorithm": "grpo", "group_size": 2, "training_episodes": 1}
    train(new_run(tmp_path / "run", **{**POINTER, **changes}))
    [record] = read_metrics(tmp_path / "run")
    assert record["initial_ratio_error"] < 1e-5


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"simulator": "oracles.toy_simulators:Shop"}, "Shop has no describe_actions; set it to 'mlp'"),
        ({"kl_coefficient": 0.1}, "scores lists of actions, but KL_COEFFICIENT"),
        ({"update_execution": "torch_compile"}, "lists of actions differ in length"),
        ({"update_execution": "numba"}, "compiled kernels are for multilayer perceptrons"),
    ],
)
def test_what_it_cannot_do_is_said(changes, sentence, tmp_path):
    with pytest.raises(UserError, match=sentence):
        new_run(tmp_path / "run", **{**POINTER, **changes})


class Half(ListedShop):
    """Lacks the size of its summary."""

    summary_size = 0


class Misses(ListedShop):
    """Does not describe all that is allowed."""

    def describe_actions(state, parameters, ids, descriptions):
        """Describe the first action alone."""
        ids[0] = 0
        descriptions[0, :] = 1.0
        return 1


def test_simulators_are_checked():
    with pytest.raises(UserError, match="belong together"):
        require_complete(Half())
    with pytest.raises(UserError, match="describe_actions did not list each action"):
        check_simulator(Misses())
    check_simulator(ListedShop())
