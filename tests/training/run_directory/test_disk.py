"""Real runs whose disk fails: full, read-only, gone; for a while, and until the end."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("pydantic")
pytest.importorskip("resource")

import resource

from longstride.training.run_directory.checkpoint import load_checkpoint
from longstride.training.run_directory.metrics_log import read_metrics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit, which is Linux'"),
]
ROOT = Path(__file__).resolve().parents[3]
SMALL = [
    *("--simulator", "cartpole", "--num-envs", "2", "--rollout-steps", "64", "--device", "cpu"),
    *("--actor-hidden-size", "16", "--critic-hidden-size", "16", "--num-hidden-layers", "1", "--batch-size", "64"),
]
WITHOUT_ROOTS_RIGHTS = ["--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]


class Running:
    """A run in a process of its own, and what it has printed so far."""

    def __init__(self, directory, *more, episodes=1_000_000, before=()):
        command = [sys.executable, str(ROOT / "scripts" / "train.py"), *SMALL, "--run-directory", str(directory)]
        command = [*before, *command, "--training-episodes", str(episodes), *more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.directory, self.out = directory, ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.out += line

    def wait_for(self, pattern, seconds=90):
        end = time.monotonic() + seconds
        while not re.search(pattern, self.out):
            assert time.monotonic() < end, f"no {pattern!r} in {self.out[-2000:]}"
            assert self.process.poll() is None, self.process.stderr.read() + self.out[-2000:]
            time.sleep(0.02)

    def iteration(self):
        """Return the last iteration that it has printed."""
        return int((re.findall(r"^iteration (\d+)/", self.out, re.MULTILINE) or ["0"])[-1])

    def iterations(self, count):
        """Wait until so many more iterations are done."""
        until, end = self.iteration() + count, time.monotonic() + 90
        while self.iteration() < until:
            assert time.monotonic() < end, self.out[-2000:]
            assert self.process.poll() is None, self.process.stderr.read() + self.out[-2000:]
            time.sleep(0.02)

    def stop(self):
        """Ask it to stop; return its exit code and what it wrote as an error."""
        self.process.send_signal(signal.SIGTERM)
        self._reader.join(60)
        error = self.process.stderr.read()
        assert "Traceback" not in self.out + error
        return self.process.wait(60), error

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def running():
    """Return a function that starts a run; all are killed in the end."""
    runs = []

    def start(*arguments, **options):
        runs.append(Running(*arguments, **options))
        return runs[-1]

    yield start
    for run in runs:
        run.kill()


def limit_files(run, size):
    """Let no file of a running process grow beyond so many bytes, as if the disk were full (EFBIG for ENOSPC)."""
    hard = resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (size, hard))


def assert_complete(directory):
    """Check that metrics and checkpoint end with the same iteration and that none is missing; return it."""
    iteration = load_checkpoint(directory, pytest.fail)[1]["iteration"]
    assert [record["iteration"] for record in read_metrics(directory)] == list(range(1, iteration + 1))
    return iteration


def assert_goes_on(running, directory):
    """Check that a run is finished by --resume."""
    iteration = load_checkpoint(directory, pytest.fail)[1]["iteration"]
    last = running(directory, "--resume", episodes=iteration + 2)
    assert last.process.wait(90) == 0
    assert assert_complete(directory) == iteration + 2


def assert_said_once(run, reason):
    for what in ("checkpoints/last", "metrics.jsonl"):
        line = (
            f"Cannot write {what}: {reason}. Training continues, and this is tried again after each iteration; what was"
        )
        assert run.out.count(line) == 1, run.out[-3000:]


def test_a_disk_that_is_full_for_a_while_loses_nothing(running, tmp_path):
    run = running(tmp_path / "run")
    run.iterations(5)
    limit_files(run, 1000)
    run.wait_for("Cannot write checkpoints/last")
    run.iterations(20)
    assert_said_once(run, "File too large")
    kept = load_checkpoint(tmp_path / "run", pytest.fail)[1]["iteration"]
    run.iterations(5)
    assert load_checkpoint(tmp_path / "run", pytest.fail)[1]["iteration"] == kept, "it cannot have been written since"
    limit_files(run, resource.RLIM_INFINITY)
    run.wait_for("checkpoints/last is written again")
    run.wait_for("metrics.jsonl is written again")
    assert run.stop() == (130, "")
    assert assert_complete(tmp_path / "run") > kept + 20


def test_a_disk_that_is_full_at_the_end_is_an_exit_code_and_a_sentence(running, tmp_path):
    directory = tmp_path / "run"
    run = running(directory)
    run.iterations(5)
    limit_files(run, 1000)
    run.wait_for("Cannot write checkpoints/last")
    run.iterations(3)
    code, error = run.stop()
    kept = load_checkpoint(directory, pytest.fail)[1]["iteration"]
    assert code == 1
    assert re.fullmatch(r"error: Not everything could be saved in [^\n]*\n", error)
    assert "checkpoints/last (File too large)" in error
    assert f"The last checkpoint there is of iteration {kept}; free space" in error
    assert "everything is" not in run.out
    assert not list(directory.rglob("*.tmp"))
    assert_goes_on(running, directory)


def test_a_disk_that_is_too_full_to_begin_is_a_sentence(tmp_path):
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), *SMALL, "--run-directory", str(tmp_path / "run")]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY)),
    )
    assert done.returncode == 2
    assert re.fullmatch(r"error: Cannot write in \S+: File too large\.\n", done.stderr)


@pytest.fixture
def small_disk(tmp_path):
    """A real disk of 256 KiB, where this process may mount one."""
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if os.geteuid() != 0 or mount is None or unmount is None:
        pytest.skip("only root can mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run([mount, "-t", "tmpfs", "-o", "size=256k", "none", disk], capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    yield disk
    subprocess.run([unmount, "-l", disk], check=True)


def test_a_disk_that_is_really_full_for_a_while(running, small_disk):
    """Somebody else's file takes all that is left, and goes."""
    run = running(small_disk / "run")
    run.iterations(5)
    subprocess.run(["dd", "if=/dev/zero", f"of={small_disk / 'filler'}", "bs=512"], capture_output=True)
    run.wait_for("Cannot write checkpoints/last: No space left on device")
    run.iterations(10)
    assert run.out.count("Cannot write checkpoints/last") == 1
    load_checkpoint(small_disk / "run", pytest.fail)
    (small_disk / "filler").unlink()
    run.wait_for("checkpoints/last is written again")
    code, _ = run.stop()
    assert code == 130
    assert_complete(small_disk / "run")


def test_a_directory_that_becomes_read_only(running, tmp_path):
    """Root may write everywhere, so it first gives that right away."""
    before = ()
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root writes into read-only directories, and there is no setpriv to give that right away")
        before = (shutil.which("setpriv"), *WITHOUT_ROOTS_RIGHTS)
    directory = tmp_path / "run"
    run = running(directory, before=before)
    run.iterations(5)
    folders = [directory, directory / "checkpoints" / "last"]
    for folder in folders:
        folder.chmod(0o555)
    run.wait_for("Cannot write checkpoints/last: Permission denied")
    run.iterations(5)
    load_checkpoint(directory, pytest.fail)
    for folder in folders:
        folder.chmod(0o755)
    run.wait_for("checkpoints/last is written again")
    assert run.stop() == (130, "")
    assert_complete(directory)


def test_a_directory_that_is_moved_away_and_back(running, tmp_path):
    directory, away = tmp_path / "run", tmp_path / "away"
    run = running(directory)
    run.iterations(5)
    directory.rename(away)
    run.wait_for("Cannot write checkpoints/last")
    run.iterations(5)
    # Where it went between the look and the write, the first sentence is of the system's own words.
    said = re.findall(
        r"Cannot write (\S+): (the run directory was moved or removed|No such file or directory)\.", run.out
    )
    assert {what for what, _ in said} >= {"checkpoints/last", "metrics.jsonl"}
    assert len(said) == len(set(said)), "each is said once"
    assert not directory.exists(), "no second run is begun in its place"
    load_checkpoint(away, pytest.fail)
    away.rename(directory)
    run.wait_for("checkpoints/last is written again")
    assert run.stop() == (130, "")
    assert_complete(directory)


def test_a_directory_that_vanishes(running, tmp_path):
    directory = tmp_path / "run"
    run = running(directory)
    run.iterations(5)
    directory.rename(tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone")
    run.wait_for("Cannot write metrics.jsonl")
    run.iterations(3)
    code, error = run.stop()
    assert code == 1
    assert "checkpoints/last (the run directory was moved or removed)" in error
    assert error.count("\n") == 1
    assert not directory.exists()


def test_a_directory_that_is_put_in_its_place_gets_nothing(running, tmp_path):
    directory = tmp_path / "run"
    run = running(directory)
    run.iterations(5)
    directory.rename(tmp_path / "away")
    directory.mkdir()
    run.wait_for("Cannot write metrics.jsonl")
    code, error = run.stop()
    assert code == 1
    assert "the run directory was moved or removed" in error
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_files_that_vanish_are_written_again(running, tmp_path, how):
    directory = tmp_path / "run"
    run = running(directory)
    run.iterations(3)
    path = directory / "metrics.jsonl"
    if how == "replaced":
        (tmp_path / "link").symlink_to("/dev/full")
        os.replace(tmp_path / "link", path)  # at once: the run may write in any moment
    else:
        path.unlink()
    (directory / "config.json").unlink()
    run.wait_for(rf"metrics\.jsonl was {how} by .* it is written again")
    run.wait_for(r"config\.json was removed by another program; it is written again")
    run.iterations(3)
    assert run.stop() == (130, "")
    assert not path.is_symlink()
    lines = path.read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == list(range(1, len(lines) + 1))
    assert_complete(directory)
    assert "values" in json.loads((directory / "config.json").read_text())


def test_a_metrics_file_that_is_cut_is_an_exit_code_and_a_sentence(running, tmp_path):
    directory = tmp_path / "run"
    run = running(directory)
    run.iterations(3)
    os.truncate(directory / "metrics.jsonl", 0)
    run.wait_for(r"metrics\.jsonl is not complete: another program cut off .* of its bytes")
    code, error = run.stop()
    assert code == 1
    assert re.fullmatch(r"error: Not everything is left in [^\n]*metrics\.jsonl[^\n]* is saved;[^\n]*\n", error)
    load_checkpoint(directory, pytest.fail)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return the checkpoint of a run of 30 iterations."""
    run = Running(tmp_path_factory.mktemp("undisturbed") / "run", "--no-report", episodes=30)
    assert run.process.wait(180) == 0
    return load_checkpoint(run.directory)[1]


def train(directory, episodes=30, **streams):
    """Train with some output; return the process."""
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), *SMALL, "--training-episodes", str(episodes)]
    return subprocess.Popen([*command, "--no-report", "--run-directory", str(directory)], **streams)


def test_a_training_goes_on_when_its_output_is_on_a_full_disk(undisturbed, small_disk, tmp_path):
    """And its output goes on when there is room again."""
    log = (small_disk / "log.txt").open("a")
    subprocess.run(["dd", "if=/dev/zero", f"of={small_disk / 'filler'}", "bs=512"], capture_output=True)
    process = train(tmp_path / "run", stdout=log, stderr=log)
    end = time.monotonic() + 120
    while not (tmp_path / "run" / "messages.log").exists() and time.monotonic() < end:
        time.sleep(0.01)
    (small_disk / "filler").unlink()
    assert process.wait(180) == 0
    assert load_checkpoint(tmp_path / "run")[1] == undisturbed
    said = (tmp_path / "run" / "messages.log").read_text()
    assert said.count("Standard output cannot be written: No space left on device.") == 1
    assert "Standard output is written again" in said
    assert "Trained 30 iterations" in (small_disk / "log.txt").read_text()


def test_a_training_goes_on_when_nobody_reads_its_output(undisturbed, tmp_path):
    read, write = os.pipe()
    os.close(read)
    assert train(tmp_path / "run", stdout=write, stderr=write).wait(180) == 0
    os.close(write)
    assert load_checkpoint(tmp_path / "run")[1] == undisturbed
    said = (tmp_path / "run" / "messages.log").read_text()
    assert said.count("Standard output cannot be written: Broken pipe.") == 1


@pytest.mark.parametrize("ignored", [False, True])
def test_a_lost_terminal_saves_and_under_nohup_the_run_goes_on(tmp_path, ignored):
    """The terminal goes in the middle of the live display, and SIGHUP comes twice, from the system and the shell."""
    directory, (master, slave) = tmp_path / "run", os.openpty()
    ignore = (lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) if ignored else None
    streams = {"stdin": slave, "stdout": slave, "stderr": slave, "preexec_fn": ignore}
    process = train(directory, 60 if ignored else 1_000_000, **streams)
    os.close(slave)
    reader = threading.Thread(target=read_all, args=[master], daemon=True)
    reader.start()
    end = time.monotonic() + 120
    while not read_metrics(directory):
        assert time.monotonic() < end
        time.sleep(0.01)
    os.close(master)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGHUP)
    assert process.wait(180) == (0 if ignored else 130)
    assert (assert_complete(directory) == 60) == ignored


def read_all(descriptor):
    """Read a terminal until it is closed, so that its program never waits."""
    with suppress(OSError):
        while os.read(descriptor, 4096):
            pass
