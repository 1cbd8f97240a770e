"""A folder of kernels that holds files of the user, values of the variable that are no folder, and folders above."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from numba import njit

from longstride.jit_cache import cache, store
from longstride.jit_cache.cache import VARIABLE, CacheStats, cached
from longstride.jit_cache.store import UnusableFolderError, open_folder, read, write

VALUES = np.arange(4.0)
posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners here")


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.setattr(cache, "CACHE_STATS", CacheStats())
    return cache


def compile_one():
    @njit(nogil=True)
    def kernel(values):
        return values.sum() * 3.0

    return cached(kernel)(VALUES)


def digests(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir() if p.is_file()}


def test_files_of_the_user_stay_in_the_folder_of_the_kernels(tmp_path, monkeypatch, fresh):
    """Large and old ones, an old draft, and names such as kernels of earlier versions had."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr(store, "MOST_BYTES", 1000)
    for name in ("a.csv", "b.csv", "draft.tmp", "0" * 64):
        (tmp_path / name).write_bytes(name.encode() * 500)
        os.utime(tmp_path / name, (1e9, 1e9))
    (tmp_path / "link.longstride-kernel").symlink_to(tmp_path / "a.csv")
    before = digests(tmp_path)
    assert compile_one() == 18.0
    assert fresh.CACHE_STATS.compiled == 1
    after = digests(tmp_path)
    assert {name: after.get(name) for name in before} == before


@pytest.mark.parametrize("value", ["off", "0", "no", "false", "OFF", "False"])
def test_values_that_switch_it_off_make_no_folder(tmp_path, monkeypatch, fresh, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, value)
    assert compile_one() == 18.0
    assert (fresh.CACHE_STATS.folder, fresh.CACHE_STATS.note, list(tmp_path.iterdir())) == (None, "", [])


@pytest.mark.parametrize("value", ["on", "1", "yes", "true", "ON", ""])
def test_values_that_switch_it_on_take_the_usual_folder(tmp_path, monkeypatch, fresh, value):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(VARIABLE, value)
    assert compile_one() == 18.0
    assert fresh.CACHE_STATS.folder == tmp_path / "cache" / "longstride" / "kernels"
    assert list(Path.cwd().iterdir()) == []


@posix
def test_a_folder_below_one_that_others_can_write_to_is_refused(tmp_path):
    open_to_all = tmp_path / "all"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(UnusableFolderError, match=f"other users can write to {open_to_all}"):
        open_folder(open_to_all / "x" / "kernels")
    assert list(open_to_all.iterdir()) == [], "refused before anything is made"
    open_to_all.chmod(0o1777)
    assert open_folder(open_to_all / "x" / "kernels").is_dir(), "a sticky folder, as /tmp is"


@posix
def test_a_link_above_that_leads_through_such_a_folder_is_refused(tmp_path):
    shared, safe = tmp_path / "shared", tmp_path / "safe"
    shared.mkdir()
    safe.mkdir()
    shared.chmod(0o777)
    (shared / "hop").symlink_to(safe)
    (tmp_path / "begin").symlink_to("shared/hop")
    with pytest.raises(UnusableFolderError, match=f"other users can write to {shared}"):
        open_folder(tmp_path / "begin" / "kernels")
    (tmp_path / "straight").symlink_to(safe)
    assert open_folder(tmp_path / "straight" / "kernels").is_dir()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_below_one_of_another_user_is_refused(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    os.chown(theirs, 12345, 12345)
    with pytest.raises(UnusableFolderError, match=f"{theirs} belongs to another user"):
        open_folder(theirs / "kernels")


@posix
def test_a_link_or_a_pipe_in_place_of_a_kernel_is_not_read(tmp_path):
    folder = open_folder(tmp_path / "kernels")
    write(folder, "a", b"content")
    kernel = next(folder.iterdir())
    kernel.rename(tmp_path / "elsewhere")
    kernel.symlink_to(tmp_path / "elsewhere")
    assert read(folder, "a") is None
    kernel.unlink()
    os.mkfifo(kernel)
    assert read(folder, "a") is None
