"""Runs of the toys through build_run: resume to the bit, best checkpoint, what a run leaves behind."""

import io
import json
import time

import numpy as np
import pytest
import torch
from rich.console import Console

pytest.importorskip("pydantic")

from helpers.slow_cases import mostly_slow

from longstride.config import Config
from longstride.errors import UserError
from longstride.policies.networks import restore_model
from longstride.settings import Settings
from longstride.training.assembly.run import build_run
from longstride.training.run_directory import checkpoint_writer
from longstride.training.run_directory.checkpoint import load_checkpoint
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.metrics_log import MetricsLog, read_metrics

CONFIG = {
    "simulator": "oracles.toy_simulators:Shop",
    "training_episodes": 6,
    "num_envs": 2,
    "actor_hidden_size": 16,
    "critic_hidden_size": 16,
    "num_hidden_layers": 2,
    "batch_size": 32,
    "num_epochs": 2,
    "learning_rate_actor": 3e-3,
    "device": "cpu",
    "seed": 4,
}


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch):
    """Its import takes seconds and these tests are about the loop."""
    monkeypatch.setattr(MetricsLog, "_open_board", lambda *_: None)


def new_run(directory, resume=False, **changes):
    config = Config(**{**CONFIG, "run_directory": str(directory), **changes})
    return build_run(Settings(config), resume, lambda text: None)


def train(run, stop_after=None):
    console = Console(file=io.StringIO())
    return run.train(console, lambda: stop_after is not None and run.trainer.iteration >= stop_after)


def figures(directory):
    """Return the metrics lines without what the clock decides."""
    return [
        {k: v for k, v in r.items() if "seconds" not in k and "per_second" not in k} for r in read_metrics(directory)
    ]


def assert_same_state(a, b):
    first, second = load_checkpoint(a), load_checkpoint(b)
    assert first[0].keys() == second[0].keys()
    for name, tensor in first[0].items():
        assert torch.equal(tensor, second[0][name]), name
    assert (first[1]["iteration"], first[1]["best"]) == (second[1]["iteration"], second[1]["best"])


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """A run of 6 iterations with two environment instances."""
    directory = tmp_path_factory.mktemp("runs") / "uninterrupted"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetricsLog, "_open_board", lambda *_: None)
        assert train(new_run(directory, simulation_threads=1, update_threads=1)) is True
    return directory


@pytest.mark.parametrize("stop_after", [1, 3])
def test_a_resumed_run_equals_the_uninterrupted_one_to_the_bit(uninterrupted, tmp_path, stop_after):
    directory = tmp_path / "resumed"
    assert train(new_run(directory, update_threads=1), stop_after=stop_after) is False
    assert load_checkpoint(directory)[1]["iteration"] == stop_after
    resumed = new_run(directory, resume=True, simulation_threads=2, update_threads=2)
    assert resumed.trainer.iteration == stop_after
    assert train(resumed) is True
    assert_same_state(uninterrupted, directory)
    assert figures(uninterrupted) == figures(directory)
    assert [r["iteration"] for r in read_metrics(directory)] == [1, 2, 3, 4, 5, 6]


def test_the_comparison_is_of_runs_that_changed_something(uninterrupted):
    tensors, facts = load_checkpoint(uninterrupted)
    fresh = new_run(uninterrupted.parent / "fresh").trainer.model
    assert not torch.equal(tensors["model.actor.0.weight"], fresh.tensors["actor.0.weight"])
    assert any(name.startswith("optimizer.") for name in tensors)
    assert tensors["statistics.count"][0] > 100
    assert facts["iteration"] == 6


def test_another_seed_is_another_run(uninterrupted, tmp_path):
    train(new_run(tmp_path / "other", seed=5, training_episodes=1))
    assert figures(tmp_path / "other")[0]["return"] != figures(uninterrupted)[0]["return"]


def test_a_run_that_died_before_its_checkpoint_drops_the_lines_it_repeats(tmp_path):
    directory = tmp_path / "run"
    train(new_run(directory, training_episodes=2))
    with (directory / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 3, "return": 99999.0}\n{"iteration": 4, "ret')
    train(new_run(directory, resume=True, training_episodes=3))
    assert [r["iteration"] for r in read_metrics(directory)] == [1, 2, 3]
    assert all(r["return"] < 99999.0 for r in read_metrics(directory))


def damage(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


@pytest.mark.parametrize(("damaged", "kind"), [(1, ".json"), (1, ".safetensors"), (2, ".safetensors")])
def test_a_damaged_checkpoint_is_passed_over_to_the_bit(uninterrupted, tmp_path, damaged, kind):
    """The run goes on from the one before, drops the metrics that came after it, and ends as if nothing had been."""
    directory = tmp_path / "run"
    train(new_run(directory), stop_after=4)
    last = directory / "checkpoints" / "last"
    for file in sorted(last.glob(f"*{kind}"))[-damaged:]:
        damage(file)
    said = []
    config = Config(**{**CONFIG, "run_directory": str(directory)})
    resumed = build_run(Settings(config), True, said.append)
    sentences = [line for line in said if "is damaged" in line]
    assert len(sentences) == damaged
    for iteration, sentence in zip((4, 3), sentences, strict=False):
        assert f"iteration-0000000{iteration}.json is damaged" in sentence
        assert sentence.endswith(f"that of iteration {4 - damaged} is used.")
    assert f"Resuming after iteration {4 - damaged} of 6." in said
    assert json.loads((directory / "config.json").read_text())["passed_over"] == sentences
    train(resumed)
    assert_same_state(uninterrupted, directory)
    assert figures(uninterrupted) == figures(directory)
    assert sorted(p.stem for p in last.glob("*.json")) == [f"iteration-0000000{n}" for n in (4, 5, 6)]


def test_so_many_checkpoints_are_kept_as_the_setting_says(tmp_path):
    train(new_run(tmp_path / "run", training_episodes=4, checkpoints_kept=2))
    found = {p.name for p in (tmp_path / "run").rglob("iteration-*.json")}
    assert {"iteration-00000003.json", "iteration-00000004.json"} <= found
    assert len(list((tmp_path / "run" / "checkpoints" / "last").iterdir())) == 4
    assert len(list((tmp_path / "run" / "checkpoints" / "best").iterdir())) == 2


def test_one_long_checkpoint_changes_nothing(tmp_path, monkeypatch):
    """A disk may be busy for a moment."""
    now = [0.0]
    monkeypatch.setattr(checkpoint_writer.time, "perf_counter", lambda: now[-1])
    seconds, due = iter((0.1, 30.0, 0.1, 30.0, 30.0)), []
    monkeypatch.setattr(checkpoint_writer, "save_checkpoint", lambda *_: now.append(now[-1] + next(seconds)))
    writer = checkpoint_writer.CheckpointWriter(RunDirectory(tmp_path))
    for _ in range(5):
        writer.save("last", {}, {"iteration": 1 + writer.begun})
        writer.wait()
        due.append(writer.is_due())
    assert due == [True, True, True, True, False]
    now.append(now[-1] + 269.0)
    assert not writer.is_due()
    now.append(now[-1] + 2.0)
    assert writer.is_due()


def test_metrics_are_never_two_iterations_ahead_of_what_is_saved(tmp_path, monkeypatch):
    """On a disk that is slower than an iteration: a killed run resumes from the last iteration or the one before."""
    directory, ahead = tmp_path / "run", []
    write, save = MetricsLog.write, checkpoint_writer.save_checkpoint

    def slowly(*arguments):
        time.sleep(0.1)
        save(*arguments)

    def looking(log, record):
        names = [path.stem for path in (directory / "checkpoints" / "last").glob("*.json")]
        ahead.append(record["iteration"] - max((int(name.split("-")[1]) for name in names), default=0))
        write(log, record)

    monkeypatch.setattr(checkpoint_writer, "save_checkpoint", slowly)
    monkeypatch.setattr(MetricsLog, "write", looking)
    train(new_run(directory))
    assert ahead == [1] * 6


@pytest.mark.parametrize("stop_after", [None, 4])
def test_long_checkpoints_are_written_seldom_and_where_a_run_ends(uninterrupted, tmp_path, monkeypatch, stop_after):
    """A run that was stopped between two of them goes on to the bit."""
    directory, written, said = tmp_path / "run", [], []
    save = checkpoint_writer.save_checkpoint

    def noting(folder, tensors, metadata, kept):
        if folder.name == "last":
            written.append(metadata["iteration"])
        save(folder, tensors, metadata, kept)

    monkeypatch.setattr(checkpoint_writer, "_SHORT", 1e-9)  # each is long
    monkeypatch.setattr(checkpoint_writer, "_SHARE", 1e-9)
    monkeypatch.setattr(checkpoint_writer, "save_checkpoint", noting)
    run = new_run(directory)
    monkeypatch.setattr(run.trainer.checkpoints.retry, "tell", said.append)
    train(run, stop_after=stop_after)
    assert written in ([1, stop_after or 6], [1, 2, stop_after or 6])  # the best one may be the second
    assert len(said) == 1 and said[0].startswith("A checkpoint takes ")
    if stop_after:
        train(new_run(directory, resume=True))
        assert written[-1] == 6
    assert_same_state(uninterrupted, directory)
    assert figures(uninterrupted) == figures(directory)


def test_a_run_that_was_killed_between_two_checkpoints_repeats_what_came_after_the_first(
    uninterrupted, tmp_path, monkeypatch
):
    directory = tmp_path / "run"
    monkeypatch.setattr(checkpoint_writer, "_SHORT", 1e-9)
    monkeypatch.setattr(checkpoint_writer, "_SHARE", 1e-9)
    run = new_run(directory)
    save = run.trainer.checkpoints.save

    def killed_at_the_fourth(which, tensors, metadata):
        if metadata["iteration"] < 4:
            save(which, tensors, metadata)

    monkeypatch.setattr(run.trainer.checkpoints, "save", killed_at_the_fourth)
    train(run, stop_after=4)
    last = directory / "checkpoints" / "last"
    assert max(path.stem for path in last.glob("*.json")) < "iteration-00000003"
    assert len(read_metrics(directory)) == 4
    train(new_run(directory, resume=True))
    assert_same_state(uninterrupted, directory)
    assert figures(uninterrupted) == figures(directory)


def scales_at_each_collection(run, iterations):
    """Train; return (instances, scales of the observations, number of observations) of each collection."""
    seen, collect = [], run.trainer.collector.collect

    def watched(actor_params, first_episode, count):
        scales = run.trainer.model.tensors["observation_scale"].clone()
        played, seconds = collect(actor_params, first_episode, count)
        seen.append((count, scales, sum(len(each.trajectory.observations) for each in played)))
        return played, seconds

    run.trainer.collector.collect = watched
    train(run, stop_after=iterations)
    return seen


@pytest.mark.parametrize("steps", [0, 64])
def test_the_first_rollout_has_scales_that_one_instance_played_before(steps, tmp_path):
    run = new_run(tmp_path / "run", rollout_steps=steps)
    (first, none, _), (second, scales, _), (third, *_) = scales_at_each_collection(run, 2)
    assert (first, second, third) == (1, 2, 2)
    assert (none == 1).all()
    assert (scales != 1).any()
    numbers = [record["simulated_episodes"] for record in read_metrics(tmp_path / "run")]
    assert steps or numbers == [2, 2]
    assert len(scales_at_each_collection(new_run(tmp_path / "run", resume=True, rollout_steps=steps), 3)) == 1


def test_without_normalisation_nothing_is_played_before(tmp_path):
    run = new_run(tmp_path / "run", normalise_observations=False, gamma=0.99)
    assert [count for count, *_ in scales_at_each_collection(run, 1)] == [2]


def test_the_records_of_a_run(uninterrupted):
    records = read_metrics(uninterrupted)
    for record in records:
        assert record["initial_ratio_error"] < 1e-3
        assert record["model_transfers"] == 0
        assert record["precision"] == "fp32"
        assert record["steps_per_second"] == pytest.approx(record["steps"] / record["simulation_seconds"])
        assert record["statistics_seconds"] > 0.0 and record["checkpoint_seconds"] > 0.0
        if record["iteration_seconds"] is not None:  # the parts of an iteration are within it, and do not overlap
            parts = "simulation", "transfer", "update", "statistics", "checkpoint"
            assert sum(record[f"{part}_seconds"] for part in parts) < record["iteration_seconds"]
        # Cash begins at 1.5 and earns the rewards.
        assert record["return"] == pytest.approx(record["metrics"]["cash"] - 1.5)
    rates = [record["learning_rate"] for record in records]
    assert rates == pytest.approx([3e-3 * (1 - i / 6) for i in range(6)])


def test_the_best_checkpoint_holds_the_weights_that_played_best(uninterrupted):
    records = read_metrics(uninterrupted)
    best = int(np.argmax([r["metrics"]["cash"] for r in records]))
    tensors, facts = load_checkpoint(uninterrupted / "checkpoints" / "best")
    assert facts["best"] == records[best]["metrics"]["cash"]
    assert facts["iteration"] == records[best]["iteration"] - 1, "before the update that followed them"
    assert facts["best"] == load_checkpoint(uninterrupted)[1]["best"]
    assert "model.actor.0.weight" in tensors


def test_statistics_of_observations_are_those_of_all_episodes(tmp_path):
    run = new_run(tmp_path / "run", training_episodes=1)
    *_, before = scales_at_each_collection(run, 1)[0]
    steps = read_metrics(tmp_path / "run")[0]["steps"]
    statistics = run.trainer.scales.statistics
    after_the_last = "the observation after the last decision of each episode counts too"
    assert statistics.count[0] == before + steps + 2, after_the_last
    assert statistics.indicator.tolist() == [False, False, True, False]
    mean = run.trainer.model.tensors["observation_mean"]
    assert float(mean[0]) == pytest.approx(statistics.mean[0], rel=1e-6)
    assert float(mean[2]) == 0.0


def test_weights_that_are_no_longer_finite_are_not_saved(tmp_path):
    run = new_run(tmp_path / "run", training_episodes=2)
    assert train(run, stop_after=1) is False
    real = run.trainer.updater.update

    def poisoned(*arguments):
        report = real(*arguments)
        run.trainer.model.flat[-1] = torch.nan
        return report

    run.trainer.updater.update = poisoned
    with pytest.raises(UserError, match=r"Iteration 2: the parameters are no longer finite.*--resume"):
        train(run)
    tensors, facts = load_checkpoint(tmp_path / "run")
    assert facts["iteration"] == 1
    assert all(torch.isfinite(t).all() for name, t in tensors.items() if name.startswith("model."))


def test_a_checkpoint_of_other_shapes_is_refused(uninterrupted):
    model = new_run(uninterrupted.parent / "shapes").trainer.model
    tensors, _ = load_checkpoint(uninterrupted)
    with pytest.raises(UserError, match=r"actor\.0\.weight has shape \[4, 99\], expected \[4, 16\]"):
        restore_model(model, {**tensors, "model.actor.0.weight": torch.zeros(4, 99)})
    with pytest.raises(UserError, match=r"critic\.0\.bias is missing"):
        restore_model(model, {name: t for name, t in tensors.items() if name != "model.critic.0.bias"})


def test_what_a_run_directory_holds(uninterrupted):
    config = json.loads((uninterrupted / "config.json").read_text())
    assert config["values"]["training_episodes"] == 6
    plan = json.loads((uninterrupted / "plan.json").read_text())
    assert plan["device"] == "cpu"
    assert plan["batch_size"] == 32
    assert plan["reasons"]["device"] and plan["machine"]["usable_cores"] > 0
    assert {p.name for p in (uninterrupted / "checkpoints").iterdir()} == {"last", "best"}


ROLLOUTS = {"rollout_steps": 25, "num_envs": 3, "training_episodes": 4, "update_threads": 1}
EVERY_SCHEDULE = {
    "normalise_rewards": True,
    "clip_range_schedule": "linear",
    "entropy_schedule": "linear",
    "entropy_coefficient": 0.1,
    "entropy_coefficient_final": 0.02,
}


def test_a_resumed_run_goes_on_with_unfinished_episodes_to_the_bit(tmp_path):
    """Episodes of the shop take up to 30 decisions, so most of them go over the end of a rollout.

    With rewards normalised over them and everything that can have a schedule.
    """
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert train(new_run(whole, **ROLLOUTS, **EVERY_SCHEDULE, simulation_threads=1)) is True
    assert train(new_run(parts, **ROLLOUTS, **EVERY_SCHEDULE), stop_after=1) is False
    tensors, facts = load_checkpoint(parts)
    assert any(not copy["over"] and copy["age"] > 0 for copy in facts["rollout"])
    assert [c != 0 for c in tensors["rewards.carried"]] == [not copy["over"] for copy in facts["rollout"]]
    assert tensors["rewards.divisor"] != 1.0
    assert train(new_run(parts, **ROLLOUTS, **EVERY_SCHEDULE, resume=True, simulation_threads=2)) is True
    assert_same_state(whole, parts)
    assert figures(whole) == figures(parts)
    assert load_checkpoint(whole)[1]["rollout"] == load_checkpoint(parts)[1]["rollout"]
    assert [r["steps"] for r in read_metrics(whole)] == [75] * 4
    assert [r["clip_range"] for r in read_metrics(whole)] == pytest.approx([0.2, 0.15, 0.1, 0.05])
    assert [r["entropy_coefficient"] for r in read_metrics(whole)] == pytest.approx([0.1, 0.08, 0.06, 0.04])
    assert sum(r["simulated_episodes"] for r in read_metrics(whole)) >= 6


KINDS = {  # several choices, numbers, bounded numbers, and a large record; the other runs here are of one choice
    **{f"oracles.toy_simulators:{kind}": {} for kind in ("Choices", "Tracker", "Squashed")},
    "process": {"num_envs": 1, "rollout_steps": 0, "num_epochs": 1, "batch_size": 8192},
}


@pytest.mark.parametrize("simulator", mostly_slow(KINDS, "oracles.toy_simulators:Choices"))
def test_every_kind_of_simulator_resumes_to_the_bit(simulator, tmp_path):
    """Two iterations and two more are four; with rewards normalised, in rollouts that cut episodes."""
    how = {"simulator": simulator, "rollout_steps": 70, "normalise_rewards": True, "training_episodes": 4}
    how |= KINDS[simulator]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert train(new_run(whole, **how, simulation_threads=1)) is True
    assert train(new_run(parts, **how, simulation_threads=2), stop_after=2) is False
    assert train(new_run(parts, **how, simulation_threads=1, resume=True)) is True
    assert_same_state(whole, parts)
    assert figures(whole) == figures(parts)


def test_a_resume_says_which_settings_differ(tmp_path):
    said = []
    train(new_run(tmp_path / "run"), stop_after=1)
    changes = {"learning_rate_actor": 2e-3, "training_episodes": 4, "simulation_threads": 2}
    build_run(Settings(Config(**{**CONFIG, "run_directory": str(tmp_path / "run"), **changes})), True, said.append)
    assert (
        "Other settings from here on: TRAINING_EPISODES 4 by flag, 6 in the run; LEARNING_RATE_ACTOR 0.002 by flag, "
        "0.003 in the run." in said
    )
    assert (
        "Other settings, which change nothing in what is learned: SIMULATION_THREADS 2 by flag, 0 in the run." in said
    )
    train(new_run(tmp_path / "other"), stop_after=1)
    said.clear()
    build_run(Settings(Config(**{**CONFIG, "run_directory": str(tmp_path / "other")})), True, said.append)
    assert not any("Other settings" in line for line in said)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"num_envs": 2},
            "has 3 environment instances, each in an unfinished episode, not 2; .*NUM_ENVS = 3",
        ),
        (
            {"rollout_steps": 0},
            "collects rollouts of ROLLOUT_STEPS steps; resume with GROW_ROLLOUTS, .* and ROLLOUT_STEPS of its config",
        ),
    ],
)
def test_resume_that_would_drop_episodes_is_refused(tmp_path, changes, sentence):
    train(new_run(tmp_path / "run", **ROLLOUTS), stop_after=1)
    with pytest.raises(UserError, match=sentence):
        new_run(tmp_path / "run", **{**ROLLOUTS, **changes}, resume=True)


def test_resume_of_whole_episodes_as_rollouts_is_refused(uninterrupted):
    with pytest.raises(
        UserError, match=r"collects whole episodes .* resume with GROW_ROLLOUTS, .* and ROLLOUT_STEPS of its config"
    ):
        new_run(uninterrupted, rollout_steps=25, resume=True)


def test_a_rollout_in_which_no_episode_ends_has_no_return(tmp_path):
    """An episode of the choices takes 200 decisions: it ends in the third rollout of 80."""
    changes = {**ROLLOUTS, "simulator": "oracles.toy_simulators:Choices", "rollout_steps": 80}
    run = new_run(tmp_path / "run", **changes)
    train(run)
    records = read_metrics(tmp_path / "run")
    assert [r["return"] is None for r in records] == [True, True, False, True]
    assert [r["simulated_episodes"] for r in records] == [0, 0, 3, 0]
    assert run.trainer.best_tracker.best.value == records[2]["return"]
