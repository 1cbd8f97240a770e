"""The folder of kernels: damage, permissions, a full disk, its size. Nothing of it stops a kernel from running."""

import errno
import hashlib
import importlib
import os
import stat

import numpy as np
import pytest
from numba import njit
from numba.extending import register_jitable

from longstride.jit_cache import cache, store
from longstride.jit_cache.cache import VARIABLE, CacheStats, cached, compile_for
from longstride.jit_cache.store import ENDING, UnusableFolderError, open_folder, read, usual_folder, write


def build(factor=3.0):
    @njit(nogil=True)
    def kernel(values):
        return values.sum() * factor

    return cached(kernel)


VALUES = np.arange(4.0)


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """Return a folder of its own and count anew."""
    path = tmp_path / "kernels"
    monkeypatch.setenv(VARIABLE, str(path))
    monkeypatch.setattr(cache, "CACHE_STATS", CacheStats())
    return path


def counts():
    return cache.CACHE_STATS.loaded, cache.CACHE_STATS.compiled


def test_a_kernel_is_loaded_where_it_was_compiled_before(kernels):
    assert (build()(VALUES), counts()) == (18.0, (0, 1))
    assert (build()(VALUES), counts()) == (18.0, (1, 1))
    assert (build(5.0)(VALUES), counts()) == (30.0, (1, 2))
    assert (build()(VALUES.astype(np.float32)), counts()) == (18.0, (1, 3))
    assert stat.S_IMODE(kernels.stat().st_mode) == 0o700
    assert not cache.CACHE_STATS.note


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:20],
        lambda content: content[:-1],
        lambda content: content[:99] + bytes([content[99] ^ 1]) + content[100:],
        lambda content: hashlib.sha256(b"no pickle").digest() + b"no pickle",
    ],
    ids=["empty", "within the digest", "cut", "a bit", "not what we write"],
)
def test_a_damaged_file_is_compiled_anew_and_replaced(kernels, damage):
    build()(VALUES)
    (file,) = kernels.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert (build()(VALUES), counts()) == (18.0, (0, 2))
    assert (build()(VALUES), counts()) == (18.0, (1, 2))


def test_a_folder_that_cannot_be_made_costs_a_line(kernels):
    kernels.write_text("a file")
    assert (build()(VALUES), build()(VALUES), counts()) == (18.0, 18.0, (0, 2))
    assert str(kernels) in cache.CACHE_STATS.note


def test_a_full_disk_costs_a_line_and_leaves_nothing(kernels, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store.os, "replace", full)
    assert (build()(VALUES), build()(VALUES), counts()) == (18.0, 18.0, (0, 2))
    assert "No space left on device" in cache.CACHE_STATS.note
    assert list(kernels.iterdir()) == []


def test_a_kernel_with_what_a_callee_froze_before_is_not_kept(kernels, tmp_path, monkeypatch):
    """Numba compiles a callee once, with the values of its module then; another process would take the new ones."""
    (tmp_path / "changing.py").write_text(
        "import numba\nRATE, STEPS = 1.0, (1, 2)\n@numba.njit\ndef callee(v):\n    return RATE * STEPS[0] * len(v)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("changing")

    def build_caller():
        callee = module.callee

        @njit
        def caller(values):
            return callee(values)

        return cached(caller)

    assert build_caller()(VALUES) == 4.0
    monkeypatch.setattr(module, "RATE", 2.0)
    assert build_caller()(VALUES) == 4.0, "Numba's rule"
    assert len(list(kernels.iterdir())) == 1
    monkeypatch.setattr(module, "RATE", 1.0)
    monkeypatch.setattr(module, "STEPS", (3, 4))
    assert build_caller()(VALUES) == 4.0
    assert (len(list(kernels.iterdir())), counts()) == (1, (0, 3))
    monkeypatch.setattr(module, "STEPS", (1, 2))
    assert (build_caller()(VALUES), counts()) == (4.0, (1, 3))


def test_it_can_be_switched_off(kernels, monkeypatch):
    monkeypatch.setenv(VARIABLE, "off")
    assert (build()(VALUES), build()(VALUES), counts()) == (18.0, 18.0, (0, 2))
    assert not kernels.exists()
    assert not cache.CACHE_STATS.note, "nobody wanted it"


def test_a_kernel_that_is_not_judged_is_compiled_each_time(kernels):
    @register_jitable
    def taught(x):  # an ordinary function: what Numba makes of it may be written anywhere
        return x + 1.0

    def build_another():
        @njit
        def kernel(x):
            return taught(x)

        return cached(kernel)

    assert (build_another()(1.0), build_another()(1.0), counts()) == (2.0, 2.0, (0, 2))
    assert list(kernels.iterdir()) == []


def test_every_heuristic_of_the_process_simulator_is_kept(kernels):
    pytest.importorskip("pydantic")
    from oracles.process_play import pool

    from longstride.process.kernel import heuristics
    from longstride.simulators.simulator import new_state

    simulator = pool()
    mask, rng = np.ones(simulator.action_space.n, np.bool_), np.random.default_rng(0)
    arguments = (new_state(simulator)[0], simulator.parameters, mask, rng)
    found = {*simulator.heuristics.values(), heuristics.logged}
    for expected in ((0, len(found)), (len(found), len(found))):
        for heuristic in found:
            compile_for(cached(njit(nogil=True)(heuristic.py_func)), arguments)
        assert counts() == expected


def test_a_plain_function_stays_as_it_is():
    assert cached(build) is build


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners here")
def test_a_folder_that_others_can_write_to_is_refused(tmp_path, monkeypatch):
    mine = open_folder(tmp_path / "mine")
    for mode in (0o770, 0o707):
        mine.chmod(mode)
        with pytest.raises(UnusableFolderError, match="only you"):
            open_folder(mine)
    mine.chmod(0o700)
    (tmp_path / "link").symlink_to(mine)
    with pytest.raises(UnusableFolderError, match="only you"):
        open_folder(tmp_path / "link")
    monkeypatch.setattr(store.os, "getuid", lambda: mine.stat().st_uid + 1)
    with pytest.raises(UnusableFolderError, match=r"only you|belongs to another user"):
        open_folder(mine)


def test_the_usual_folder_follows_xdg(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative, which the specification says to ignore")
    assert usual_folder() == tmp_path / ".cache" / "longstride" / "kernels"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert usual_folder() == tmp_path / "x" / "longstride" / "kernels"


def test_files_unused_for_longest_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MOST_BYTES", 3 * (32 + 10))
    place = open_folder(tmp_path / "kernels")
    for age, name in enumerate("dcb"):
        write(place, name, b"0123456789")
        os.utime(place / f"{name}{ENDING}", (1e9 - age, 1e9 - age))
    assert read(place, "b") == b"0123456789"  # the oldest, but used now
    write(place, "a", b"0123456789")
    assert sorted(path.name for path in place.iterdir()) == [f"{name}{ENDING}" for name in "abd"]


def test_what_a_dead_process_left_half_written_goes_after_an_hour(tmp_path):
    place = open_folder(tmp_path / "kernels")
    old, new = (f"{name}{ENDING}-tmp" for name in ("old", "new"))
    for name in (old, new):
        (place / name).write_bytes(b"half")
    os.utime(place / old, (1e9, 1e9))
    write(place, "a", b"")
    assert sorted(path.name for path in place.iterdir()) == [f"a{ENDING}", new]
