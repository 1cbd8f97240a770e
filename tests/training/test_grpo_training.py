"""Runs with ALGORITHM = "grpo" through build_run: resume to the bit, replay, groups, what is counted and refused."""

import io

import pytest
from helpers.group_runs import GROUP, copied
from helpers.slow_cases import mostly_slow
from rich.console import Console
from training.test_rollout_growth import no_display
from training.test_trainer import assert_same_state, figures, new_run, no_tensorboard, train  # noqa: F401

from longstride.cli import main
from longstride.errors import UserError
from longstride.training.rollout_growth import GrowthLimits, next_size
from longstride.training.run_directory.checkpoint import load_checkpoint
from longstride.training.run_directory.metrics_log import read_metrics

SHOP = {"simulator": "helpers.short_shop:ShortShop", "algorithm": "grpo", "group_size": GROUP, "horizon": 20}
ROLLOUTS = {"rollout_steps": 30, "training_episodes": 4, "kl_coefficient": 0.1}
GROWING = {"num_envs": 0, "training_episodes": 40, "batch_size": 2048, "num_epochs": 1}

KINDS = {
    "groups": {**SHOP, **ROLLOUTS, "num_envs": 2 * GROUP},
    "growing groups": {**SHOP, **GROWING},
}
STOPS = {"groups": (2, 4), "growing groups": (1, 2)}
"""Iterations after which a run is interrupted, and after which it ends here; growing runs would go on for long."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Directories of runs by their kind, each trained where a test asks for it first."""
    trained = {}

    def run(kind):
        if kind not in trained:
            trained[kind] = tmp_path_factory.mktemp("grpo") / "run"
            with pytest.MonkeyPatch.context() as patch:
                no_display(patch)
                train(new_run(trained[kind], **KINDS[kind], simulation_threads=1, update_threads=1), STOPS[kind][1])
        return trained[kind]

    return run


@pytest.mark.parametrize("kind", mostly_slow(KINDS, "growing groups"))
def test_a_resumed_run_equals_the_uninterrupted_one_to_the_bit(runs, kind, tmp_path):
    whole, parts = runs(kind), tmp_path / "parts"
    assert train(new_run(parts, **KINDS[kind], simulation_threads=2), STOPS[kind][0]) is False
    train(new_run(parts, **KINDS[kind], resume=True), STOPS[kind][1])
    assert_same_state(whole, parts)
    assert figures(whole) == figures(parts)
    (_, first), (_, second) = load_checkpoint(whole), load_checkpoint(parts)
    assert (first["rollout"], first["growth"]) == (second["rollout"], second["growth"])
    assert len(read_metrics(whole)) == STOPS[kind][1]


@pytest.mark.parametrize("kind", KINDS)
def test_every_iteration_learns_from_groups(runs, kind):
    records = read_metrics(runs(kind))
    for record in records:
        assert 0 <= record["identical_groups"] < record["compared_groups"]
        assert record["initial_ratio_error"] < 1e-3
        assert abs(record["policy_loss"]) > 0.0
        assert record["explained_variance"] is None
    tensors, _ = load_checkpoint(runs(kind))
    learned = {"model.critic.0.weight": False, "model.actor.0.weight": True}
    fresh = new_run(runs(kind).parent / f"fresh {len(list(runs(kind).parent.iterdir()))}", **KINDS[kind])
    for name, moved in learned.items():
        assert bool((tensors[name] != fresh.trainer.model.tensors[name.removeprefix("model.")]).any()) == moved
    fresh.lock.release()


def test_rollouts_follow_the_noise_of_groups(runs):
    """Up to 1/160 of the run."""
    first, second = read_metrics(runs("growing groups"))
    size, _ = next_size(8192, first["noise_scale"], GrowthLimits(32, 8192, 12_500, 2_000_000))
    assert first["next_rollout_steps"] == size
    assert first["gradient_noise"] > 0.0
    assert [record["steps"] for record in (first, second)] == [8192, size]


def test_groups_are_replayed_to_the_same_hash(runs, capsys):
    for iteration in (1, 4):
        flags = ["--mode", "replay", "--run-directory", str(runs("groups")), "--iteration", str(iteration)]
        assert main([*flags, "--trust-simulator"]) == 0
        assert f"Iteration {iteration}: the same 240 steps as in the run" in capsys.readouterr().out


def trajectories_of(run):
    """Return the trajectories of each collection of a run that is trained."""
    collect, seen = run.trainer.collector.collect, []

    def noting(*arguments):
        instances, seconds = collect(*arguments)
        seen.append([copied(each).trajectory for each in instances])
        return instances, seconds

    run.trainer.collector.collect = noting
    run.train(Console(file=io.StringIO()), lambda: False)
    return seen


def test_whole_episodes_share_the_luck_of_their_group(tmp_path):
    changes = {"num_envs": 2 * GROUP, "grow_rollouts": False, "training_episodes": 2}
    _, *iterations = trajectories_of(new_run(tmp_path / "run", **SHOP, **changes))
    assert len(iterations) == 2
    luck = []
    for episodes in iterations:
        for begin in (0, GROUP):
            members = episodes[begin : begin + GROUP]
            shortest = min(t.steps for t in members)
            assert len({t.observations[0].tobytes() for t in members}) == 1
            assert len({t.observations[1:shortest, 3].tobytes() for t in members}) == 1
            assert len({t.actions.tobytes() for t in members}) > 1
            luck.append(members[0].elapsed[:3].tobytes())
    assert len(set(luck)) == 4, "each group of each iteration has its own"


def test_a_number_of_episodes_that_is_not_whole_groups_is_refused(tmp_path):
    sentence = r"^NUM_ENVS is 6, which is not a multiple of GROUP_SIZE 4; change one of them\.$"
    with pytest.raises(UserError, match=sentence):
        new_run(tmp_path / "run", **{**KINDS["groups"], "num_envs": 6})


def test_an_environment_of_gymnasium_is_refused(tmp_path):
    pytest.importorskip("gymnasium")
    changes = {"simulator": "gymnasium:CartPole-v1", "algorithm": "grpo", "group_size": 2}
    with pytest.raises(UserError, match=r"a Gymnasium environment does not let be set; use ALGORITHM = 'ppo'"):
        new_run(tmp_path / "run", **changes)


@pytest.mark.parametrize(("size", "instances"), [(4, 32), (5, 35)])
def test_without_a_number_of_episodes_there_are_whole_groups(tmp_path, size, instances):
    run = new_run(tmp_path / "run", **{**KINDS["growing groups"], "group_size": size})
    assert run.trainer.settings.instances == instances
    run.lock.release()
    run = new_run(tmp_path / "one", **{**KINDS["groups"], "num_envs": 0, "group_size": size})
    assert run.trainer.settings.instances == size
    run.lock.release()


def test_carried_rewards_are_those_of_the_episode_that_continues(tmp_path):
    train(new_run(tmp_path / "run", **{**KINDS["groups"], "rollout_steps": 25}, normalise_rewards=True), stop_after=1)
    tensors, _ = load_checkpoint(tmp_path / "run")
    carried = tensors["rewards.carried"].numpy().reshape(-1, GROUP)
    assert carried.any()
    assert (carried == carried[:, :1]).all()


def test_growing_groups_of_32_measure_their_noise(tmp_path):
    train(new_run(tmp_path / "run", **{**KINDS["growing groups"], "group_size": 32}), stop_after=1)
    assert "gradient_noise" in read_metrics(tmp_path / "run")[0]
