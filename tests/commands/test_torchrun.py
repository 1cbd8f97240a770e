"""Under torchrun's agent: a killed rank ends the others, all are started again, and the run is as undisturbed."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

pytest.importorskip("pydantic")
from helpers.rank_processes import pass_on_path, train_and_die
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from benchmarks.kill import compare
from benchmarks.ranks import SMALL
from longstride import cli
from longstride.api.interrupts import StopOnInterrupt
from longstride.api.training import stop_on_interrupt
from longstride.cli import main
from longstride.training.run_directory.checkpoint import load_checkpoint
from longstride.training.run_directory.metrics_log import read_metrics

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks processes")

ROOT = Path(__file__).resolve().parents[2]
ITERATIONS, DIES_BEFORE = 5, 4


def torchrun(directory, restarts, dies_before=0, **changes):
    """Train as ``torchrun --nproc-per-node=2 --max-restarts=N`` does, in children of the tests' server."""
    pass_on_path()
    config = LaunchConfig(
        **{"min_nodes": 1, "max_nodes": 1, "nproc_per_node": 2, "run_id": directory.name, "max_restarts": restarts},
        **{"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "start_method": "forkserver"},
        monitor_interval=0.05,
    )
    flags = ["--mode", "train", *SMALL, "--training-episodes", str(ITERATIONS), "--no-report"]
    elastic_launch(config, train_and_die)([*flags, "--run-directory", str(directory)], dies_before, f"{directory}-rank")


def printed(directory):
    """Return what the two ranks have printed."""
    return [directory.with_name(f"{directory.name}-rank-{rank}").read_text() for rank in range(2)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("torchrun") / "undisturbed"
    torchrun(directory, 0)
    return directory


@pytest.mark.slow
def test_a_run_whose_rank_is_killed_starts_again_and_ends_the_same_to_the_bit(undisturbed, tmp_path):
    torchrun(tmp_path / "killed", 2, DIES_BEFORE)
    first, second = printed(tmp_path / "killed")
    assert "torchrun has started the processes again (1 of 2 times): training from the last checkpoint." in first
    assert first.count("Resuming after iteration") == 1  # the first rank alone prints
    assert "error: This process (rank 0 of 2) cannot go on, because another rank has ended" in first
    assert re.search(r"is untouched\. Resume with: \S*python \S*scripts/torchrun\.py ", first)
    assert "scripts/torchrun.py --nproc-per-node=2 " in first
    assert second == ""
    compare(undisturbed, tmp_path / "killed")
    assert [record["iteration"] for record in read_metrics(tmp_path / "killed")] == [*range(1, ITERATIONS + 1)]


def test_without_restarts_the_last_checkpoint_is_left_intact(tmp_path):
    with pytest.raises(ChildFailedError):
        torchrun(tmp_path / "run", 0, DIES_BEFORE)
    assert not any("Traceback" in text for text in printed(tmp_path / "run"))
    assert load_checkpoint(tmp_path / "run")[1]["iteration"] in (DIES_BEFORE - 1, DIES_BEFORE - 2)


def test_nothing_of_a_run_on_this_host_listens_beyond_it(tmp_path):
    """Neither the store of torchrun nor the ports of the ranks, whatever address the host's name has."""
    command = [sys.executable, str(ROOT / "scripts" / "torchrun.py"), "--nproc-per-node=2"]
    command += [str(ROOT / "scripts" / "train.py"), "--mode", "train", *SMALL, "--training-episodes", "1000000"]
    run = psutil.Popen([*command, "--no-report", "--run-directory", str(tmp_path / "run")])
    try:
        end = time.monotonic() + 240
        while not (tmp_path / "run" / "metrics.jsonl").exists():
            assert run.poll() is None and time.monotonic() < end
            time.sleep(0.1)
        everyone = [run, *run.children(recursive=True)]
        listening = [
            connection.laddr.ip
            for process in everyone
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert len(listening) >= 3 and set(listening) == {"127.0.0.1"}
        ranks = [process for process in everyone if "RANK" in process.environ()]
        assert len(ranks) == 2
        ranks[0].send_signal(signal.SIGTERM)
        run.wait(120)
        assert load_checkpoint(tmp_path / "run")[1]["iteration"] >= 1
    finally:
        for process in [*run.children(recursive=True), run] if run.poll() is None else []:
            process.kill()


def test_what_is_refused_at_once_is_said_once_on_each_host(monkeypatch, capsys):
    """A host may be set up otherwise than the first one, whose processes know nothing of it yet."""
    sentence = "--mode doctor runs in one process, and torchrun has started 4; leave it out.\n"
    for rank, printed in enumerate([f"error: {sentence}", "", f"error: rank 2: {sentence}", ""]):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("LOCAL_RANK", str(rank % 2))
        monkeypatch.setenv("WORLD_SIZE", "4")
        assert main(["--mode", "doctor"]) == 2
        assert capsys.readouterr().err == printed


def test_a_signal_that_torchrun_passes_on_is_the_same_request():
    said = []
    with StopOnInterrupt(said.append, once_for=60.0) as interrupt:
        interrupt._handle(2, None)
        interrupt._handle(2, None)
    assert interrupt.requested() and len(said) == 1
    with StopOnInterrupt(said.append) as interrupt, pytest.raises(KeyboardInterrupt):
        interrupt._handle(2, None)
        interrupt._handle(2, None)


def test_a_signal_is_a_request_to_stop_once_all_ranks_are_here():
    """Before that it interrupts each of them at once, also those that are ready."""
    handlers = []
    ranks = SimpleNamespace(size=2, total=lambda numbers: handlers.append(signal.getsignal(signal.SIGUSR1)))
    with stop_on_interrupt(print, ranks, signal.SIGUSR1) as interrupt:
        assert signal.getsignal(signal.SIGUSR1) == interrupt._handle
    assert handlers == [signal.SIG_DFL]


def test_an_interrupt_waits_for_no_episode_that_plays_on():
    """Python waits for the threads of a pool at its end, and an episode that does not end would hold the process."""
    program = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from longstride import cli
from longstride.errors import PLAYING

def interrupted(*_):
    ThreadPoolExecutor(1, PLAYING).submit(time.sleep, 60)
    raise KeyboardInterrupt

cli._run_mode = interrupted
sys.exit(cli.main([]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (130, "Interrupted; what was saved before is untouched.\n")


def test_one_rank_says_that_all_were_interrupted(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run_mode", interrupted)
    for rank, printed in (("0", "Interrupted; what was saved before is untouched.\n"), ("1", "")):
        monkeypatch.setenv("RANK", rank)
        assert main([]) == 130
        assert capsys.readouterr().err == printed
