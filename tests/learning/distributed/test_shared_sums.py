"""Sums in shared memory: those of all rows in their order, to the bit, however late each rank comes."""

import errno
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch.distributed  # noqa: F401  # which process_group needs

from longstride.learning.distributed import shared_sums
from longstride.learning.distributed.process_group import _has_ended
from longstride.learning.distributed.shared_sums import SharedSums, can_share_memory, make_file

pytestmark = pytest.mark.skipif(not can_share_memory(), reason="memory is shared on Linux with x86 processors")

ROUNDS, MOST = 300, 5_000


@pytest.fixture
def file(monkeypatch, tmp_path):
    monkeypatch.setattr(shared_sums, "FOLDER", tmp_path)
    return lambda size: make_file(size, MOST)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_each_rank_has_the_sums_of_all_in_their_order(file, size):
    path, rng = file(size), np.random.default_rng(size)
    lengths = rng.integers(1, MOST + 1, ROUNDS)
    numbers = [(10.0 ** rng.integers(-5, 5) * rng.standard_normal((size, n))).astype(np.float32) for n in lengths]

    def play(rank):
        sums, late, found = SharedSums(path, rank, size, MOST), np.random.default_rng(rank), []
        for rows in numbers:
            if late.random() < 0.1:
                time.sleep(0.002 * late.random())
            mine = rows[rank].copy()
            cuts = np.sort(late.integers(0, len(mine) + 1, 2)) if len(mine) % 2 else [0, len(mine) // 3]
            sums.add(np.split(mine, cuts), lambda: None)
            found.append(mine)
        return found

    with ThreadPoolExecutor(size) as threads:
        found = list(threads.map(play, range(size)))
    for i, rows in enumerate(numbers):
        expected = rows[0].copy()
        for row in rows[1:]:
            expected += row
        assert all(np.array_equal(of[i], expected) for of in found)


def test_who_waits_looks_at_the_others(file):
    class EndedError(Exception):
        pass

    def look():
        raise EndedError

    sums = SharedSums(file(2), 0, 2, MOST)
    with pytest.raises(EndedError):
        sums.add([np.zeros(3, np.float32)], look)


def test_memory_that_is_too_small_is_not_used(file, monkeypatch, tmp_path):
    def full(descriptor, offset, length):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert file(2) is None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_no_file_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setattr(shared_sums, "FOLDER", tmp_path / "missing")
    assert make_file(2, MOST) is None


def test_a_process_that_has_ended_is_noticed_before_and_after_its_parent_looks():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert not _has_ended(child.pid)
    child.kill()
    deadline = time.monotonic() + 10
    while not _has_ended(child.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert _has_ended(child.pid)  # a zombie
    child.wait()
    child.stdin.close()
    assert _has_ended(child.pid)
