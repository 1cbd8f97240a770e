"""--mode plan: what it prints and writes for this machine and for cards that are not here."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from oracles import toy_simulators

pytest.importorskip("pydantic")

from helpers.setups import set_up
from helpers.toy_runs import BANDIT_NETWORK

from longstride.cli import main
from longstride.commands.plan import time_estimate
from longstride.commands.plan.card_use import CardUse, format_use
from longstride.commands.plan.report import make_report
from longstride.commands.plan.time_estimate import iterations_in
from longstride.config import Config
from longstride.errors import this_command
from longstride.hardware.planning.gpu_catalog import CARDS, find_card, machine_with
from longstride.simulators.loading import load_simulator

TOYS = Path(toy_simulators.__file__)
BANDIT = ["--mode", "plan", "--simulator", f"{TOYS}:Bandit"]


@pytest.fixture(scope="module")
def desk():
    return load_simulator("process").simulator


@pytest.fixture
def no_cuda(monkeypatch):
    """Nothing may ask CUDA for more than whether it is there."""
    for name in ("init", "mem_get_info", "current_device"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: pytest.fail("asked CUDA"))


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_the_loan_desk_fits_on_every_card_of_the_catalogue(card, desk):
    report = make_report(set_up(Config(), desk), machine_with(card))
    assert report.fits
    assert report.plan.device_name == card.driver_name
    assert report.memory.peak < report.room < card.gigabytes * 1e9 - 2**29
    assert report.prediction.update_seconds > 0
    assert report.enough == ""


def test_the_share_of_the_card_and_what_would_use_more_of_it(desk):
    card = machine_with(find_card("H100"))
    report = make_report(set_up(Config(num_envs=1), desk), card)
    now, wider, batch, instances = report.use
    assert (now.change, now.seconds) == ("", report.prediction.update_seconds)
    assert now.computing == report.prediction.seconds["arithmetic"] / report.prediction.update_seconds
    wide = make_report(set_up(Config(num_envs=1, actor_hidden_size=512, critic_hidden_size=1024), desk), card)
    assert (wider.seconds, wider.computing) == (wide.use[0].seconds, wide.use[0].computing)
    assert wider.computing > 2 * now.computing, "a wider network needs more arithmetic for each launch"
    assert batch.seconds < now.seconds / 2 and batch.computing > 2 * now.computing, "fewer steps, fewer launches"
    assert instances.samples == 4 * now.samples and instances.seconds > 3 * now.seconds
    lines = format_use(now, "launches", report.use[1:])
    assert lines[0].startswith("The card would compute for ")
    assert lines[0].endswith("; launches take longest (predicted).")
    assert lines[1].startswith("Updates alone allow ")
    assert "larger minibatches (--batch-size 32768) " in lines[2]
    assert not any("instances" in use.change for use in make_report(set_up(Config(), desk), card).use), "they grow"
    assert "more instances (--num-envs 4) " in lines[2] and f"for {4 * now.samples:,} samples." in lines[2]


def test_the_steps_that_updates_allow():
    """1,000 samples in 10 ms, of which the card computes for a quarter."""
    lines = format_use(CardUse("", 0.01, 1000, 0.25), "traffic", [])
    assert lines[1] == "Updates alone allow 100,000 steps/s, and 400,000 at the card's peak (predicted)."


def test_a_run_that_does_not_fit_has_no_share_of_the_card(desk):
    report = make_report(set_up(Config(num_envs=512), desk), machine_with(find_card("RTX 3080")))
    assert report.use == []


def test_what_does_not_fit_and_what_would(desk):
    """512 copies of 62,000 decisions of 1,246 bytes are 39.5 GB; 64 are 5 GB and joined with a second copy."""
    card = machine_with(find_card("RTX 3080"))
    report = make_report(set_up(Config(num_envs=512, device="cuda"), desk), card)
    assert not report.fits
    assert report.memory.peak > report.room
    assert report.largest_minibatch == 0
    copies = int(report.enough.removeprefix("--num-envs "))
    assert make_report(set_up(Config(num_envs=copies), desk), card).fits
    assert not make_report(set_up(Config(num_envs=2 * copies), desk), card).fits
    tiny = card.with_gpu(replace(card.gpu, free_bytes=2**29))
    assert make_report(set_up(Config(), desk), tiny).enough == ""


def test_a_plan_that_does_not_fit_is_one_for_the_cpu_and_the_command_is_one_that_fits(tmp_path, capsys):
    arguments = ["--mode", "plan", "--gpu", "RTX 3080", "--num-envs", "512", "--seed", "3"]
    assert main([*arguments, "--run-directory", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "NVIDIA GeForce RTX 3080 has 10.00 GB of 10.00 GB free, too little for an update" in out
    assert "Does not fit on the NVIDIA GeForce RTX 3080: " in out
    content = json.loads((tmp_path / "plan.json").read_text())
    assert (content["fits"], content["device"]) == (False, "cpu")
    assert content["memory"]["peak"] > content["room"]
    assert content["command"].endswith(f"--seed 3 --run-directory {tmp_path} {content['enough']}")
    assert "512" not in content["command"]


def test_savings_are_what_a_report_with_the_change_no_longer_needs(desk):
    machine = machine_with(find_card("A40"))
    config = Config(use_mixed_precision=True, precision="fp32", num_envs=4, batch_size=1024)
    report = make_report(set_up(config, desk), machine)
    saved = {change.flag: change.saves for change in report.changes}
    assert "--precision bf16" not in saved, "it saves nothing: the peak is where the episodes are joined"
    fewer = make_report(set_up(config.model_copy(update={"num_envs": 2}), desk), machine)
    assert saved["--num-envs 2"] == pytest.approx(report.memory.peak - fewer.memory.peak, rel=0.01)
    large = config.model_copy(update={"num_envs": 1, "batch_size": 32_768})  # the peak is in a step
    alone = make_report(set_up(large, desk), machine)
    saved = {change.flag: change.saves for change in alone.changes}
    half = make_report(set_up(large.model_copy(update={"precision": "bf16"}), desk), machine)
    assert saved["--precision bf16"] == alone.memory.peak - half.memory.peak > 0
    again = make_report(set_up(large.model_copy(update={"gradient_checkpointing": True}), desk), machine)
    assert saved["--gradient-checkpointing"] == alone.memory.peak - again.memory.peak > 0
    assert again.prediction.seconds["arithmetic"] > alone.prediction.seconds["arithmetic"]
    assert not any("--gradient-checkpointing" in change.flag for change in again.changes), "it is on"


def test_the_command_for_a_card_that_is_not_here(tmp_path, capsys, no_cuda):
    arguments = [*BANDIT, "--gpu", "a40", "--gamma", "0.9", "--no-use-tf32", "--run-directory", str(tmp_path)]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    for part in ("Fits on the NVIDIA A40", "arithmetic", "traffic", "launches", "; binds", "CUDA context", "rollout"):
        assert part in out, part
    command = out.split("Run it: ")[1].splitlines()[0]
    assert command == (
        f"{this_command()} --mode train --run-directory {tmp_path} --simulator {TOYS}:Bandit --gamma 0.9 --no-use-tf32"
    )
    content = json.loads((tmp_path / "plan.json").read_text())
    assert content["fits"] is True
    assert set(content["memory"]) >= {
        "parameters",
        "gradients",
        "optimizer",
        "activations",
        "rollout",
        "context",
        "peak",
    }
    assert content["prediction"]["binding"] == "launches"
    assert content["device_name"] == "NVIDIA A40"
    assert content["command"] == command
    assert not (tmp_path / "checkpoints").exists(), "nothing is trained"


def test_without_a_card_it_is_this_machine(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*BANDIT, "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "Fits on the CPU" in out
    assert "Predicted" not in out
    assert json.loads((tmp_path / "plan.json").read_text())["prediction"]["update_seconds"] is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--gpu", "A4O"], "There is no GPU 'A4O' in the catalogue; did you mean A40?"),
        (["--gpu", "A40", "--device", "cpu"], "--gpu asks for a plan with a GPU, but DEVICE is cpu"),
        (["--gpu", "T4", "--precision", "bf16"], "PRECISION is bf16, but compute capability 7.5"),
        (["--time-budget", "long"], "TIME_BUDGET is 'long', which is not a duration"),
        (["--resume"], "--resume does not go with --mode plan"),
        (["--mode", "train", "--gpu", "A40"], "--gpu does not go with --mode train"),
    ],
)
def test_bad_input_is_a_sentence(arguments, sentence, capsys, tmp_path):
    assert main([*BANDIT, "--run-directory", str(tmp_path), *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"error: {sentence}")
    assert not (tmp_path / "plan.json").exists()


def test_the_plan_of_a_run_is_not_overwritten(tmp_path, capsys):
    (tmp_path / "checkpoints" / "last").mkdir(parents=True)
    (tmp_path / "checkpoints" / "last" / "checkpoint.json").write_text("{}")
    assert main([*BANDIT, "--run-directory", str(tmp_path)]) == 2
    assert "holds a run, whose plan.json says how it was made" in capsys.readouterr().err


def test_a_budget_becomes_episodes(tmp_path, capsys):
    arguments = [*BANDIT, *BANDIT_NETWORK, "--num-envs", "3", "--run-directory", str(tmp_path), "--time-budget", "2h"]
    assert main([*arguments, "--device", "cpu"]) == 0
    budget = json.loads((tmp_path / "plan.json").read_text())["time_budget"]
    a_round = budget["simulation_seconds"] + budget["update_seconds"]
    assert budget["episodes"] == int((7200 - budget["startup_seconds"]) / a_round)
    assert 0 < budget["low"] < budget["episodes"] < budget["high"]
    assert f"In 2 h about {budget['episodes']:,} training episodes" in capsys.readouterr().out


def test_iterations_in_a_budget_by_hand():
    assert iterations_in(100.0, 9.0, 1.5) == (11, 7, 16)
    assert iterations_in(-3.0, 9.0, 1.5) == (0, 0, 0)


@pytest.mark.parametrize("wanted", [("--precision", "fp16"), ("--update-execution", "graph")])
def test_a_budget_on_a_card_may_want_what_no_cpu_has(tmp_path, wanted):
    budget = ["--gpu", "T4", "--run-directory", str(tmp_path), "--time-budget", "1h"]
    assert main([*BANDIT, *BANDIT_NETWORK, *budget, *wanted]) == 0


def test_a_budget_on_a_card_uses_the_predicted_update(tmp_path, monkeypatch):
    """A round of half of the decisions that the plan expects, played in half a second.

    A training episode counts for 50,000 decisions, as the bandit's are shorter. Only the time limits the run, so its
    rollouts may grow to 372,000 decisions, for which the update is predicted.
    """
    half = 372_000 // 2
    monkeypatch.setattr(time_estimate, "measure", lambda *_: time_estimate.Measured(5.0, 0.5, half, 0.0))
    assert main([*BANDIT, "--gpu", "A40", "--run-directory", str(tmp_path), "--time-budget", "1h"]) == 0
    content = json.loads((tmp_path / "plan.json").read_text())
    budget, update = content["time_budget"], content["prediction"]["update_seconds"]
    assert budget["update_seconds"] == pytest.approx(update / 2, rel=1e-3)
    assert budget["episodes"] == pytest.approx((3600 - 5.0) / (0.5 + update / 2) * half / 50_000, rel=1e-3)
