"""Several processes that train one policy: two parts are one whole; resume with other numbers; a lost rank."""

import json
import sys

import numpy as np
import pytest
import torch

pytest.importorskip("pydantic")

from helpers.rank_processes import free_port, in_processes
from helpers.rank_scenarios import CASES, RESUMED, SIZES, STOPS, scenarios, train_case

from longstride.training.run_directory.checkpoint import load_checkpoint
from longstride.training.run_directory.metrics_log import read_metrics

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks processes")

UNWANTED = "torch.utils.tensorboard", "matplotlib"
"""Modules whose import takes seconds."""

ROUNDING = 2e-5
"""Largest difference of a parameter or a report after a step. Gradients are added up in another order in float32, and
Adam divides by their size: a gradient near 0 may change a step by a share of the learning rate, here 3e-3."""


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """Folder of the runs of several ranks, and what each process has found."""
    folder = tmp_path_factory.mktemp("ranks")
    found = in_processes(scenarios, 3, folder, [free_port() for _ in range(4)])
    assert all(isinstance(each, dict) for each in found), found
    return folder, found


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return a function that trains a case by one process, once, and returns its directory and steps."""
    folder, trained = tmp_path_factory.mktemp("alone"), {}

    def train(name):
        if name not in trained:
            with pytest.MonkeyPatch.context() as patch:
                for module in set(UNWANTED) - set(sys.modules):  # what is there already may be halfway in use
                    patch.setitem(sys.modules, module, None)
                steps = train_case(folder / name, stop_after=STOPS.get(name), **CASES[name])
            trained[name] = folder / name, steps
        return trained[name]

    return train


def hashes(directory):
    return [record["trajectory_sha256"] for record in read_metrics(directory)]


@pytest.mark.parametrize("name", CASES)
def test_parts_are_the_whole(name, launched, alone):
    """The same samples in the same minibatches: after every step all ranks and one process hold the same parameters."""
    folder, found = launched
    whole, expected = alone(name)
    parts = [each[name] for each in found[: SIZES[name]]]
    for steps in parts[1:]:
        assert np.array_equal(steps, parts[0])  # among the ranks to the bit
    assert len(expected) == len(parts[0]) > 5
    assert np.abs(expected[-1] - expected[0]).max() > 100 * ROUNDING
    first = len(expected) // len(read_metrics(whole))  # later rollouts may differ by an action
    for mine, step in zip(parts[0][:first], expected[:first], strict=True):
        np.testing.assert_allclose(mine, step, rtol=1e-3, atol=ROUNDING)
    assert hashes(folder / name)[0] == hashes(whole)[0]
    assert {record["ranks"] for record in read_metrics(folder / name)} == {SIZES[name]}


@pytest.mark.parametrize("name", CASES)
def test_statistics_are_those_of_one_process_to_the_bit(name, launched, alone):
    """As long as the rollouts are the same: with these seeds rounding changes no action in the cases named here."""
    (folder, _), (whole, _) = launched, alone(name)
    mine, expected = load_checkpoint(folder / name), load_checkpoint(whole)
    assert mine[0].keys() == expected[0].keys()
    assert mine[0]["statistics.count"] == expected[0]["statistics.count"] > 100
    for column in ("mean", "squares", "indicator"):
        assert torch.equal(mine[0][f"statistics.{column}"], expected[0][f"statistics.{column}"])
    for record, other in zip(read_metrics(folder / name), read_metrics(whole), strict=True):
        for figure in (
            "steps",
            "simulated_episodes",
            "epochs",
            "optimizer_steps",
            "batch_size",
            "mean_reward",
            "return",
        ):
            assert record[figure] == other[figure], figure
    names = ("number", "age", "total", "rng")
    places = [[[of[n] for n in names] for of in facts["rollout"]] for _, facts in (mine, expected)]
    assert places[0] == places[1]


def test_the_epochs_end_together(launched):
    folder, _ = launched
    assert 1 <= read_metrics(folder / "stopped")[-1]["epochs"] < 4


def test_rollouts_grow_alike(launched, alone):
    (folder, _), (whole, _) = launched, alone("growing")
    mine, expected = (
        [[r[n] for n in ("steps", "next_rollout_steps", "learning_rate_factor")] for r in read_metrics(where)]
        for where in (folder / "growing", whole)
    )
    assert mine == expected
    noise = [[r["gradient_noise"] for r in read_metrics(where)] for where in (folder / "growing", whole)]
    assert noise[0][0] == pytest.approx(noise[1][0], rel=1e-5)


def test_the_first_rank_evaluates_for_all(launched, alone):
    (folder, _), (whole, _) = launched, alone("episodes")
    mine, expected = (read_metrics(where)[-1]["evaluation"]["metrics"] for where in (folder / "episodes", whole))
    assert mine == expected


def test_a_run_goes_on_with_another_number_of_ranks(launched, tmp_path, monkeypatch):
    """By two, by one, by three: the trajectories are those of one process, memories and sums of rewards included."""
    for name in set(UNWANTED) - set(sys.modules):
        monkeypatch.setitem(sys.modules, name, None)
    folder, _ = launched
    train_case(tmp_path / "whole", **RESUMED)
    mine, expected = read_metrics(folder / "resumed"), read_metrics(tmp_path / "whole")
    assert [record["ranks"] for record in mine] == [2, 2, 1, 1, 3, 3]
    for record, other in zip(mine, expected, strict=True):
        for figure in ("steps", "simulated_episodes", "mean_reward", "optimizer_steps"):
            assert record[figure] == other[figure], figure
    (tensors, facts), (others, other_facts) = (
        load_checkpoint(where) for where in (folder / "resumed", tmp_path / "whole")
    )
    assert facts["rollout"] == other_facts["rollout"]
    for name in ("critic_states", "rewards.carried", "rewards.divisor", "model.actor.0.weight"):
        torch.testing.assert_close(tensors[name], others[name], rtol=1e-3, atol=1e-4)


def test_a_rank_that_fails_ends_the_others_with_a_sentence(launched):
    _, found = launched
    *others, (kind, sentence, alone, _) = [each["lost"] for each in found]
    assert (kind, sentence, alone) == ("UserError", "The simulator broke its contract.", True)
    for rank, (kind, sentence, alone, seconds) in enumerate(others):
        assert (kind, alone) == ("RankLostError", True)
        assert sentence.startswith(f"This process (rank {rank} of 3) cannot go on, because ")
        assert sentence.endswith("Nothing was learned yet; start again.")
        assert seconds < 60
    assert any("rank 2 has stopped with an error" in sentence for _, sentence, *_ in others)


def test_the_plan_of_all_ranks_is_for_the_largest_part(launched):
    folder, _ = launched
    plan = json.loads((folder / "episodes" / "plan.json").read_text())
    assert plan["parallel_episodes"] == 2
    reason = "the largest part of 4 that a process has (NUM_ENVS is 4)"
    assert plan["reasons"]["parallel_episodes"] == reason
