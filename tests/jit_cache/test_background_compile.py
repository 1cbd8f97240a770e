"""A copy of this process that compiles ahead: what it leaves, what it lets go of, and when it ends."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from numba import njit
from oracles.toy_simulators import Bandit

from core.jit_cache import cache
from core.jit_cache.background_compile import compiled_ahead
from core.jit_cache.cache import VARIABLE, CacheStats, cached, compile_for
from core.rollout.episode_collector import EpisodeCollector
from core.rollout.fixed_length_collector import FixedLengthCollector

fcntl = pytest.importorskip("fcntl")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")
ARGUMENTS = (np.ones(3),)


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """Two kernels whose machine code goes to a folder of its own: the first one, and the one that comes last."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "kernels"))
    monkeypatch.setattr(cache, "CACHE_STATS", CacheStats())

    @cached
    @njit
    def first(x):
        return x.sum()

    @cached
    @njit
    def last(x):
        return 2.0 * x.sum()

    return first, last


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def files(tmp_path):
    return [f for f in (tmp_path / "kernels").glob("*") if f.suffix != ".tmp"]


def test_what_the_copy_compiles_is_loaded(kernels, tmp_path):
    first, last = kernels
    with compiled_ahead([lambda: compile_for(last, ARGUMENTS)], cores=2):
        compile_for(first, ARGUMENTS)
        wait_for(lambda: len(files(tmp_path)) == 2)
        compile_for(last, ARGUMENTS)
    assert (cache.CACHE_STATS.compiled, cache.CACHE_STATS.loaded, cache.CACHE_STATS.helped) == (1, 1, True)
    assert (first(*ARGUMENTS), last(*ARGUMENTS)) == (3.0, 6.0)


def test_there_is_no_copy_where_nothing_is_missing(kernels):
    first, _ = kernels
    compile_for(first, ARGUMENTS)
    with compiled_ahead([], cores=2):
        first(*ARGUMENTS)
    assert not cache.CACHE_STATS.helped


def test_a_copy_that_fails_is_no_harm(kernels, capfd):
    first, last = kernels
    with compiled_ahead([lambda: 1 / 0], cores=2):
        compile_for(first, ARGUMENTS)
        compile_for(last, ARGUMENTS)
    assert (cache.CACHE_STATS.compiled, cache.CACHE_STATS.loaded, cache.CACHE_STATS.helped) == (2, 0, False)
    assert capfd.readouterr() == ("", "")


def test_no_copy_is_no_harm(kernels, monkeypatch):
    def refused():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refused)
    first, _ = kernels
    with compiled_ahead([lambda: None], cores=2):
        compile_for(first, ARGUMENTS)
    assert (cache.CACHE_STATS.compiled, cache.CACHE_STATS.helped) == (1, False)


def test_one_failure_does_not_keep_the_copy_from_the_next(kernels, tmp_path):
    first, last = kernels
    with compiled_ahead([lambda: 1 / 0, lambda: compile_for(last, ARGUMENTS)], cores=2):
        compile_for(first, ARGUMENTS)
        wait_for(lambda: len(files(tmp_path)) == 2)


def test_a_process_that_ignores_its_children_gets_along(kernels):
    first, _ = kernels
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system does away with the copy itself
    try:
        with compiled_ahead([], cores=2):
            compile_for(first, ARGUMENTS)
            time.sleep(0.5)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_copy_that_comes_late_ends_with_the_block(kernels):
    first, _ = kernels
    with compiled_ahead([lambda: time.sleep(600)], cores=2):
        compile_for(first, ARGUMENTS)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # there is no child any more


def test_a_copy_holds_no_lock(kernels, tmp_path):
    first, _ = kernels
    with open(tmp_path / "run.lock", "w") as mine, open(tmp_path / "run.lock") as other:
        fcntl.flock(mine, fcntl.LOCK_EX)
        with compiled_ahead([(tmp_path / "alive").touch, lambda: time.sleep(600)], cores=2):
            compile_for(first, ARGUMENTS)
            wait_for((tmp_path / "alive").exists)
            mine.close()
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where somebody still has it


def test_a_copy_dies_with_its_process(tmp_path):
    program = f"""
import os, time
from core.jit_cache.background_compile import _copy
def stay():
    open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
    time.sleep(600)
_copy([stay])
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", program])
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    copy = int((tmp_path / "pid").read_text())
    os.kill(copy, 0)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_for(lambda: not _runs(copy))


def _runs(pid):
    """Return whether a process is there and no zombie that nobody waits for."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("kind", [EpisodeCollector, FixedLengthCollector])
def test_what_a_collector_compiles_ahead_is_what_its_loop_loads(kind, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "kernels"))
    sizes, tallies = (5, 8, 4), []
    weights = np.zeros(2 * 5 + 6 * 8 + 9 * 4, np.float32)
    for ahead in (True, False):  # each with a collector of its own, as in two processes
        monkeypatch.setattr(cache, "CACHE_STATS", CacheStats())
        more = {"steps": 8} if kind is FixedLengthCollector else {}
        collector = kind(Bandit(), sizes, "relu", seed=0, parallel=2, threads=1, **more)
        collector.compile_ahead() if ahead else collector.compile(weights)
        tallies.append((cache.CACHE_STATS.compiled, cache.CACHE_STATS.loaded))
    assert tallies[0] == (1, 0)
    assert tallies[1][1] == 1, "look is loaded; reset may stand compiled in this process, the loop never does"
