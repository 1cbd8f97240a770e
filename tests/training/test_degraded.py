"""Runs on machines that lose their GPU, had one, or have little memory: the sentence, the exit code, the checkpoint."""

import json
import shlex
from dataclasses import replace

import psutil
import pytest
import torch

pytest.importorskip("pydantic")

from commands.test_cli import train_arguments
from helpers.setups import set_up
from oracles.toy_simulators import Bandit, Shop
from training.test_trainer import assert_same_state, figures, new_run, train

from benchmarks.long_queue import LongQueue
from longstride import cli
from longstride.cli import main
from longstride.commands.plan import command as plan_command
from longstride.config import Config
from longstride.errors import GpuLostError, UserError, this_command
from longstride.hardware.detect import detect_machine
from longstride.learning.device_transfer import ModelTransfer
from longstride.learning.oom_recovery import is_gpu_lost
from longstride.learning.updater import Updater
from longstride.process import choose_prior
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.rollout.fixed_length_collector import FixedLengthCollector
from longstride.rollout.trajectory import trajectory_bytes
from longstride.settings import Settings
from longstride.simulators.loading import load_simulator
from longstride.training.assembly import components
from longstride.training.assembly import run as run_builder
from longstride.training.assembly.components import build_collector
from longstride.training.assembly.plan import plan_run
from longstride.training.run_directory.checkpoint import load_checkpoint, seal, unseal
from longstride.training.run_directory.metrics_log import MetricsLog

ADVICE = "\nCUDA kernel errors might be asynchronously reported at some other API call.\n"
FAILED = "CUDA error: unspecified launch failure"


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch):
    """Its import takes seconds and these tests are about the loop."""
    monkeypatch.setattr(MetricsLog, "_open_board", lambda *_: None)


@pytest.fixture
def exits(monkeypatch):
    """Keep os._exit from ending the tests; return the codes it was given."""
    codes = []

    def leave(code):
        codes.append(code)
        raise SystemExit(code)

    monkeypatch.setattr(cli.os, "_exit", leave)
    return codes


def failing(real, error, call):
    """Return a method that raises at one of its calls, counted from 1."""
    count = [0]

    def method(*arguments, **named):
        count[0] += 1
        if count[0] == call:
            raise error
        return real(*arguments, **named)

    return method


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (RuntimeError(FAILED), True),
        (RuntimeError("CUDA error: device-side assert triggered"), True),
        (RuntimeError("CUDA driver error: unknown error"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx(...)`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), True),
        (RuntimeError("NVML_SUCCESS == r INTERNAL ASSERT FAILED at CUDACachingAllocator.cpp"), True),
        (RuntimeError("Unable to determine the device handle: GPU has fallen off the bus"), True),
        (RuntimeError("CUDA error: out of memory"), False),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), False),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), False),
        (RuntimeError("Expected all tensors to be on the same device, but found cuda:0 and cpu"), False),
        (ValueError(FAILED), False),
    ],
    ids=str,
)
def test_which_errors_mean_that_a_gpu_failed(error, lost):
    assert is_gpu_lost(error) is lost


def test_a_gpu_that_fails_in_an_update_ends_the_run_with_its_checkpoint_and_the_command_to_go_on(
    tmp_path, monkeypatch, capsys, exits
):
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert main(train_arguments(whole, 3)) == 0
    monkeypatch.setattr(Updater, "update", failing(Updater.update, RuntimeError(FAILED + ADVICE), 3))
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(train_arguments(run, 3))
    monkeypatch.undo()
    monkeypatch.setattr(MetricsLog, "_open_board", lambda *_: None)
    assert exits == [2]
    error = capsys.readouterr().err
    assert error.count("\n") == 1, "no traceback, and only the first line of what CUDA said"
    assert error.startswith(f"error: The GPU failed ({FAILED}), and this process cannot use it again. ")
    command = error.rpartition("The checkpoint of iteration 2 is untouched. Resume with: ")[2].rstrip()
    assert command == f"{this_command()} --mode train --resume --run-directory {run} --device cpu"
    assert load_checkpoint(run)[1]["iteration"] == 2
    assert main(shlex.split(command.removeprefix(this_command()))) == 0
    assert_same_state(whole, run)
    assert figures(whole) == figures(run)


@pytest.mark.parametrize("call", [1, 2], ids=["first save", "second save"])
def test_a_gpu_that_fails_when_its_state_is_read_names_the_checkpoint_that_is_there(tmp_path, monkeypatch, call):
    """The optimiser lies on the GPU: what could not be read back is not saved, and the sentence knows."""
    run = new_run(tmp_path / "run", update_execution="eager")
    writer = run.trainer.checkpoints
    real, count = writer.save, [0]

    def save(which, tensors, facts):
        count[0] += which == "last"
        if which == "last" and count[0] == call:
            raise RuntimeError(FAILED)
        real(which, tensors, facts)

    writer.save = save
    sentence = "The checkpoint of iteration 1 is untouched" if call == 2 else "Nothing was learned yet. Begin with"
    with pytest.raises(GpuLostError, match=sentence):
        train(run)
    if call == 2:
        assert load_checkpoint(tmp_path / "run")[1]["iteration"] == 1


def test_a_gpu_that_fails_while_a_run_is_built_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError(FAILED)

    monkeypatch.setattr(run_builder, "build_trainer", fail)
    with pytest.raises(GpuLostError, match=r"nothing is lost: give the same command with --device cpu"):
        new_run(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_gpu_that_fails_while_a_checkpoint_goes_there_is_not_taken_for_a_damaged_checkpoint(tmp_path, monkeypatch):
    train(new_run(tmp_path / "run"), stop_after=1)
    monkeypatch.setattr(ModelTransfer, "to_device", failing(ModelTransfer.to_device, RuntimeError(FAILED), 1))
    with pytest.raises(GpuLostError, match="nothing is lost"):
        new_run(tmp_path / "run", resume=True)
    assert new_run(tmp_path / "run", resume=True).trainer.iteration == 1


def test_other_errors_stay_what_they_are(tmp_path):
    run = new_run(tmp_path / "run")
    run.trainer.updater.update = failing(run.trainer.updater.update, RuntimeError("size mismatch"), 1)
    with pytest.raises(RuntimeError, match="size mismatch"):
        train(run)


def as_if_begun_on_a_gpu(directory):
    """Make of a run one whose updates ran on a GPU in FP16, as far as its files tell."""
    config = json.loads((directory / "config.json").read_text())
    config["values"]["device"] = "cuda"
    (directory / "config.json").write_text(json.dumps(config))
    path = max((directory / "checkpoints/last").glob("iteration-*.json"))
    facts = unseal(path.read_bytes())
    facts["recovery"] |= {"planned": [512, "fp16", 1e-3, 1e-3], "microbatch": 512, "precision": "fp16"}
    facts["grad_scaler"] = {
        **{"scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5},
        **{"growth_interval": 2000, "_growth_tracker": 0},
    }
    path.write_bytes(seal(facts))


@pytest.mark.parametrize("execution", ["eager", "numba"])
def test_a_run_that_began_on_a_gpu_goes_on_on_the_cpu(tmp_path, execution):
    """Weights, moments and statistics are all there is: a resume equals one of a run that had always been here."""
    for name in ("here", "there"):
        assert train(new_run(tmp_path / name, update_execution="eager"), stop_after=2) is False
    as_if_begun_on_a_gpu(tmp_path / "there")
    said = []
    config = json.loads((tmp_path / "here/config.json").read_text())["values"]
    config |= {"update_execution": execution}
    for name in ("here", "there"):
        values = {**config, "run_directory": str(tmp_path / name)}
        assert train(run_builder.build_run(Settings(Config(**values)), True, said.append)) is True
    assert any("DEVICE 'cpu' by flag, 'cuda' in the run" in line for line in said)
    assert_same_state(tmp_path / "here", tmp_path / "there")
    assert figures(tmp_path / "here") == figures(tmp_path / "there")


def test_a_run_that_insists_on_a_gpu_that_is_gone_is_told_so(tmp_path, monkeypatch):
    train(new_run(tmp_path / "run"), stop_after=1)
    bare = replace(detect_machine(), gpus=(), gpu_note="CUDA does not start here (unknown error)")
    monkeypatch.setattr(run_builder, "detect_machine", lambda: bare)
    with pytest.raises(UserError, match=r"DEVICE is cuda, but CUDA does not start here \(unknown error\); set DEVICE"):
        new_run(tmp_path / "run", resume=True, device="cuda")
    assert new_run(tmp_path / "run", resume=True, device="auto").trainer.iteration == 1


@pytest.mark.parametrize("changes", [{}, {"rollout_steps": 100}], ids=["episodes", "rollouts"])
@pytest.mark.parametrize("simulator", [Shop, Bandit])
def test_the_bytes_are_those_of_the_arrays_that_are_allocated(simulator, changes):
    setup = set_up(Config(num_envs=3, **changes), simulator())
    collector = build_collector(setup, plan_run(setup, detect_machine()))
    assert isinstance(collector, FixedLengthCollector if changes else EpisodeCollector)
    arrays = [copy.trajectory for copy in collector._instances] if changes else [collector._rows]
    size = setup.size
    expected = size.instances * trajectory_bytes(setup.spec, size.memory.rows, cuts=size.steps)
    assert expected == sum(a.nbytes for t in arrays for a in t)


def test_cartpoles_ten_million_steps_by_hand():
    """A row: 4 observations of 4 bytes, action 8, log-probability 4, reward 4, mask 2, time 8, variate 4, two flags."""
    cartpole = load_simulator("cartpole").simulator
    rollout = set_up(Config(rollout_steps=10_000_000), cartpole).size.memory
    assert rollout.bytes == 10_000_000 * (16 + 8 + 4 + 4 + 2 + 8 + 4 + 2) + 16
    # Pinned memory comes in powers of two: observations, actions, log-probabilities, masks. The rest is not pinned.
    assert rollout.pinned_bytes == 2**28 + 2**27 + 2**26 + 2**25 + 10_000_000 * (4 + 8 + 4 + 2 + 16)
    assert (rollout.copies, rollout.at_most) == (1, False)


def test_too_little_memory_is_found_before_anything_is_allocated(tmp_path, monkeypatch, capsys):
    small = replace(detect_machine(), free_bytes=479 * 10**6)
    monkeypatch.setattr(run_builder, "detect_machine", lambda: small)
    monkeypatch.setattr(run_builder, "build_trainer", lambda *_: pytest.fail("allocates the trajectories"))
    directory = tmp_path / "run"
    arguments = ["--simulator", "cartpole", "--rollout-steps", "10000000", "--run-directory", str(directory)]
    assert main(["--mode", "train", "--device", "cpu", *arguments]) == 2
    out, error = capsys.readouterr()
    said = "480.0 MB of memory (1 instance of 10,000,000 steps) and the update "
    assert error.startswith(f"error: The trajectories of an iteration need {said}")
    said = (
        " in addition, but 479.0 MB are free; lower NUM_ENVS, set or lower ROLLOUT_STEPS, or free memory. "
        "It fits with --num-envs 1 --rollout-steps 2097152.\n"
    )
    assert error.endswith(said)
    assert "480.0 MB of trajectories an iteration" in out
    assert not directory.exists()


def test_too_little_memory_for_a_process_is_found_before_episodes_choose_how_its_policy_begins(
    tmp_path, monkeypatch, capsys
):
    """Those episodes take minutes in a scenario of thousands of people."""
    small = replace(detect_machine(), free_bytes=10**6, total_bytes=10**6)
    monkeypatch.setattr(run_builder, "detect_machine", lambda: small)
    monkeypatch.setattr(choose_prior, "simulate", lambda *_: pytest.fail("plays episodes"))
    directory = tmp_path / "run"
    arguments = ["--mode", "train", "--device", "cpu", "--scenario", "loan_desk", "--run-directory", str(directory)]
    assert main(arguments) == 2
    assert "The trajectories of an iteration need " in capsys.readouterr().err
    assert not directory.exists()


def test_ten_million_decisions_are_announced_as_they_are_allocated_without_being_touched():
    """1.66 GB of addresses; the plan's figure is that of the arrays, and none of it is memory yet."""
    process = psutil.Process()
    before = process.memory_info().rss
    queues = LongQueue(10_000_000)
    setup = set_up(Config(num_envs=1, device="cpu"), queues)
    plan = plan_run(setup, detect_machine())
    collector = build_collector(setup, plan)
    assert plan.trajectory_bytes == pytest.approx(sum(a.nbytes for a in collector._rows), rel=0.01)
    assert plan.trajectory_bytes == pytest.approx(1.66e9, rel=0.01), "166 bytes a decision"
    assert process.memory_info().rss - before < 0.1 * plan.trajectory_bytes


FITTING = "--num-envs 1 --rollout-steps 8388608"
"""The largest power of two that ROLLOUT_STEPS can be: 2^23 steps of 166 + 68 bytes are 2 GB, and 20 GB are free."""


@pytest.mark.parametrize("mode", ["train", "plan"])
def test_an_episode_that_no_memory_here_holds_is_refused(mode, tmp_path, monkeypatch, capsys):
    """A thousand million decisions of 166 bytes, and 68 for the update of each."""
    file = tmp_path / "queues.py"
    file.write_text("from benchmarks.long_queue import LongQueue\nclass Queues(LongQueue): pass\n")
    host = replace(detect_machine(), free_bytes=20 * 10**9, total_bytes=24 * 10**9)
    monkeypatch.setattr(plan_command if mode == "plan" else run_builder, "detect_machine", lambda: host)
    monkeypatch.setattr(run_builder, "build_trainer", lambda *_: pytest.fail("allocates the trajectories"))
    arguments = ["--simulator", f"{file}:Queues", "--simulator-option", "episode=1000000000"]
    directory = ["--run-directory", str(tmp_path / "run")]
    code = main(["--mode", mode, "--device", "cpu", "--no-grow-rollouts", *arguments, *directory])
    out, error = capsys.readouterr()
    if mode == "plan":
        assert "Does not fit on the CPU: 68.0" in out
        assert f"it would with {FITTING}." in out
        assert f" {FITTING}\n" in out, "the command to run"
        return
    assert code == 2
    assert "   memory 234.0" in out, "166.00 GB and 68.01 of the update"
    assert error.startswith(
        "error: The trajectories of an iteration need 166.00 GB of memory (1 instance of up to 1,000,000,000"
    )
    end = f"NUM_ENVS, or set or lower ROLLOUT_STEPS. It fits with {FITTING}.\n"
    assert "; lower max_steps of the simulator (if episodes are shorter), " in error
    assert error.endswith(end)


def test_addresses_that_the_system_does_not_give_are_a_sentence(monkeypatch):
    """Rows that are never written take no memory but addresses, which a limit (ulimit -v) may end."""

    def no(*_, **__):
        raise MemoryError

    monkeypatch.setattr(components, "EpisodeCollector", no)
    setup = set_up(Config(num_envs=2), LongQueue(10_000_000))
    with pytest.raises(UserError, match=r"does not give the 3,320.0 MB that 2 trajectories of up to 10,000,000 steps"):
        build_collector(setup, plan_run(setup, detect_machine()))


def test_what_a_container_leaves_is_what_is_free(tmp_path, monkeypatch):
    """A limit of 100 MB of which 30 are in use: 70 MB are free, whatever the host has."""
    from longstride.hardware import cpu

    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (group / "memory.max").write_text("100000000\n")
    (group / "memory.current").write_text("30000000\n")
    monkeypatch.setattr(cpu, "ROOT", tmp_path)
    config = Config(simulator="cartpole", rollout_steps=1_500_000, device="cpu", run_directory=str(tmp_path / "run"))
    with pytest.raises(UserError, match=r"need 72.0 MB of memory .* but 70.0 MB are free"):
        run_builder.build_run(Settings(config), False, lambda text: None)
