"""Runs that meet failing memory and exploding numbers: what they record, say, save and give up with."""

import io
import shlex

import numpy as np
import pytest
import torch
from rich.console import Console

pytest.importorskip("pydantic")

from commands.test_cli import train_arguments
from training.test_trainer import ROLLOUTS, assert_same_state, figures, new_run, train

from longstride.cli import main
from longstride.errors import SimulatorError, UserError, this_command
from longstride.learning.steps.torch_step import TorchStepper
from longstride.training.failures import divergence_error, memory_error
from longstride.training.run_directory.checkpoint import load_checkpoint, seal, unseal
from longstride.training.run_directory.metrics_log import MetricsLog, read_metrics

ASKED = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB"


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch):
    """Its import takes seconds and these tests are about the loop."""
    monkeypatch.setattr(MetricsLog, "_open_board", lambda *_: None)


def said_by(run):
    """Train to the end; return what was printed."""
    console = Console(file=io.StringIO(), width=500)
    run.train(console, lambda: False)
    return console.file.getvalue().splitlines()


def failing_loss(error, *calls):
    """Return a loss that raises at some of its calls, counted from 1."""
    real, count = TorchStepper.loss, [0]

    def loss(self, samples, weights, tensors=None):
        count[0] += 1
        if count[0] in calls:
            raise error
        return real(self, samples, weights, tensors)

    return loss


def test_a_run_goes_on_with_the_smaller_microbatch_and_says_so_once(tmp_path, monkeypatch):
    run = new_run(tmp_path / "run", training_episodes=3, update_threads=1, update_execution="eager")  # its plan counts
    monkeypatch.setattr(TorchStepper, "loss", failing_loss(torch.OutOfMemoryError(ASKED), 1))
    lines = said_by(run)
    first, *later = read_metrics(tmp_path / "run")
    (event,) = first["out_of_memory"]
    assert set(event) == {"phase", "bytes_asked", "bytes_free", "microbatch_before", "microbatch_after"}
    assert (event["phase"], event["bytes_asked"]) == ("gradients", 2 * 2**30)
    assert event["microbatch_after"] == max(-(-event["microbatch_before"] // 2), 16)
    assert [record["out_of_memory"] for record in later] == [[], []]
    (line,) = [line for line in lines if "out of memory" in line]
    assert line.startswith("Iteration 1: out of memory (gradients: requested 2,147.5 MB, ")
    assert f"the microbatch is now {event['microbatch_after']} instead of {event['microbatch_before']}" in line


def test_a_resumed_run_keeps_the_smaller_microbatch_to_the_bit(tmp_path, monkeypatch):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for directory, stop in ((whole, None), (parts, 1)):
        run = new_run(directory, training_episodes=3, update_threads=1, update_execution="eager")
        monkeypatch.setattr(TorchStepper, "loss", failing_loss(torch.OutOfMemoryError(ASKED), 1))
        train(run, stop_after=stop)
        monkeypatch.undo()
        monkeypatch.setattr(MetricsLog, "_open_board", lambda *_: None)
    resumed = new_run(parts, resume=True, training_episodes=3, update_threads=1, update_execution="eager")
    assert resumed.trainer.updater.microbatch < resumed.trainer.updater.stepper.settings.microbatch
    train(resumed)
    for a, b in zip(figures(whole), figures(parts), strict=True):
        for event in a["out_of_memory"] + b["out_of_memory"]:
            event.pop("bytes_free")
        assert a == b
    assert_same_state(whole, parts)
    other = new_run(parts, resume=True, training_episodes=3, update_threads=1, update_execution="eager", batch_size=16)
    assert other.trainer.updater.microbatch == 16, "another plan begins afresh"


def test_a_run_that_fits_in_no_piece_ends_with_a_sentence_and_its_checkpoint(tmp_path, monkeypatch, capsys):
    assert main(train_arguments(tmp_path / "run", 1, "--update-execution", "eager")) == 0
    before = (tmp_path / "run/checkpoints/last/iteration-00000001.json").read_bytes()
    monkeypatch.setattr(TorchStepper, "loss", failing_loss(torch.OutOfMemoryError(ASKED), *range(1, 100)))
    capsys.readouterr()
    assert main(train_arguments(tmp_path / "run", 3, "--resume", "--update-execution", "eager")) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "Traceback" not in error
    assert error.startswith(
        "error: Iteration 2: out of memory, and smaller microbatches did not help (CUDA out of memory"
    )
    assert "Lower, in this order, BATCH_SIZE, then the network" in error
    command = error.rpartition("The checkpoint of iteration 1 is untouched. Resume with: ")[2].rstrip()
    assert command == f"{this_command()} --mode train --resume --run-directory {tmp_path / 'run'} --batch-size 32"
    assert (tmp_path / "run/checkpoints/last/iteration-00000001.json").read_bytes() == before
    monkeypatch.undo()
    monkeypatch.setattr(MetricsLog, "_open_board", lambda *_: None)
    arguments = shlex.split(command.removeprefix(this_command()))
    assert main(arguments) == 0, "the command that the sentence names works"
    assert load_checkpoint(tmp_path / "run")[1]["iteration"] == 3


@pytest.mark.parametrize(
    ("sizes", "names", "flags"),
    [
        ((64, 0, 1), "BATCH_SIZE, then", "--batch-size 32"),
        ((64, 100, 1), "BATCH_SIZE, ROLLOUT_STEPS, then", "--batch-size 32 --rollout-steps 50"),
        (
            (8192, 100, 6),
            "BATCH_SIZE, ROLLOUT_STEPS, NUM_ENVS, then",
            "--batch-size 4096 --rollout-steps 50 --num-envs 3",
        ),
    ],
)
def test_the_advice_names_the_settings_in_their_order(sizes, names, flags):
    sizes = dict(zip(("batch-size", "rollout-steps", "num-envs"), sizes, strict=True))
    text = str(memory_error(MemoryError(), 0, 0, "longstride --mode train", sizes, gpu=True))
    assert f"(MemoryError). Lower, in this order, {names} the network" in text
    command = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True longstride --mode train"
    assert text.endswith(f"Nothing was learned yet. Begin with: {command} {flags}")


def poison_log_probs(run, *episodes):
    """Make one sample of some rounds impossible under the policy that played."""
    collect, rounds = run.trainer.collector.collect, [-1]  # an instance plays before the first round

    def poisoned(*arguments):
        played, seconds = collect(*arguments)
        rounds[0] += 1
        if rounds[0] in episodes:
            played[0].trajectory.log_probs[0] = np.nan
        return played, seconds

    run.trainer.collector.collect = poisoned


def test_skipped_steps_are_counted_and_three_rounds_of_them_are_enough(tmp_path):
    run = new_run(tmp_path / "run", batch_size=8)
    poison_log_probs(run, 2, 3, 4, 6)
    lines = said_by(run)
    records = read_metrics(tmp_path / "run")
    assert [record["skipped_steps"] for record in records] == [0, 2, 2, 2, 0, 2], "in each of two epochs one"
    assert [len(record["fallbacks"]) for record in records] == [0, 0, 0, 1, 0, 0]
    assert "Iteration 2: 2 of" in next(line for line in lines if "were skipped" in line)
    (line,) = [line for line in lines if "back to the last good parameters" in line]
    assert "(3 updates in a row had steps that were not finite); from here on FP32, learning rates times 0.80" in line
    rates = [record["learning_rate"] for record in records]
    factors = [1, 1, 1, 1, 0.8, 0.8]
    assert rates == pytest.approx([3e-3 * f * (1 - i / 6) for i, f in enumerate(factors)])
    assert "NaN" not in (tmp_path / "run" / "metrics.jsonl").read_text()
    assert load_checkpoint(tmp_path / "run")[1]["recovery"]["fallbacks"] == 1


def test_a_run_whose_steps_are_never_finite_gives_up_and_its_checkpoint_is_finite(tmp_path):
    run = new_run(tmp_path / "run", training_episodes=20)
    collect = run.trainer.collector.collect

    def poisoned(*arguments):
        played, seconds = collect(*arguments)
        for each in played:
            each.trajectory.log_probs[:] = np.nan
        return played, seconds

    run.trainer.collector.collect = poisoned
    with pytest.raises(UserError, match=r"Iteration 6: training diverged.*The checkpoint of iteration 5 is untouched"):
        train(run)
    tensors, facts = load_checkpoint(tmp_path / "run")
    assert facts["iteration"] == 5
    assert all(torch.isfinite(t).all() for name, t in tensors.items() if name.startswith("model."))


@pytest.mark.parametrize("changes", [{}, ROLLOUTS], ids=["episodes", "rollouts"])
def test_weights_that_cannot_play_are_left_for_those_that_could(tmp_path, changes):
    """Weights may explode in the last step of an update: nothing but playing shows it."""
    run = new_run(tmp_path / "run", **changes)
    trainer = run.trainer
    assert train(run, stop_after=2) is False
    good = trainer.updater.guard._good.flat.clone()
    with torch.no_grad():
        trainer.model.layers("actor")[-1][0].fill_(3e38)
    played = []
    collect = trainer.collector.collect
    trainer.collector.collect = lambda weights, *rest: (
        played.append(weights.copy()),
        collect(weights, *rest),
    )[1]
    assert train(run, stop_after=3) is (changes.get("training_episodes") == 3)
    assert len(played) == 2, "once in vain"
    assert np.array_equal(played[1], good[: len(played[1])].numpy())
    (fallback,) = read_metrics(tmp_path / "run")[-1]["fallbacks"]
    assert "the policy's own outputs were NaN" in fallback["reason"]
    assert read_metrics(tmp_path / "run")[-1]["iteration"] == 3


def test_the_sentence_of_a_run_that_explodes_again_and_again():
    text = str(divergence_error("reason.", 7, 7, "longstride --mode train --resume", [1e-3, 5e-4]))
    assert "Iteration 8: training diverged" in text
    assert "longstride --mode train --resume --no-use-mixed-precision --learning-rate-actor 0.0005" in text


def test_a_reward_that_is_no_number_is_named_with_its_step(tmp_path):
    run = new_run(tmp_path / "run")
    collect = run.trainer.collector.collect

    def poisoned(*arguments):
        played, seconds = collect(*arguments)
        for each in played[1:]:  # one instance plays before the first round
            each.trajectory.rewards[2] = np.inf
        return played, seconds

    run.trainer.collector.collect = poisoned
    with pytest.raises(SimulatorError, match=r"Shop, iteration 1, instance 1, step 2: the reward is inf"):
        train(run)


def test_a_checkpoint_from_before_recovery_was_kept_goes_on(tmp_path):
    train(new_run(tmp_path / "run"), stop_after=1)
    path = tmp_path / "run/checkpoints/last/iteration-00000001.json"
    facts = unseal(path.read_bytes())
    del facts["recovery"]
    path.write_bytes(seal(facts))
    assert new_run(tmp_path / "run", resume=True).trainer.iteration == 1
