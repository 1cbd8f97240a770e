"""Folders that become Longstride's own, and those that do not; removal that leaves files of the user."""

import json
import os
import subprocess
import sys

import pytest

from longstride.errors import UserError
from longstride.own_files.marker import MARKER, claim_folder, kind_of, mark_folder, require_claimable
from longstride.own_files.opening import make_own_folder, open_own
from longstride.own_files.removal import remove_marked, remove_own_files, require_removable

posix = pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")


def test_a_new_folder_is_made_and_marked_and_given_up_again(tmp_path):
    folder = tmp_path / "a" / "b"
    claim = claim_folder(folder, "run")
    assert json.loads((folder / MARKER).read_text()) == {"format": "longstride-folder/1", "kind": "run"}
    assert kind_of(folder) == "run"
    claim.abandon()
    assert not folder.exists()
    claim = claim_folder(folder, "run")
    (folder / "notes.txt").write_text("mine")
    claim.abandon()
    assert kind_of(folder) == "run", "it holds something by now"
    assert claim_folder(folder, "run").made_marker is False


@pytest.mark.parametrize("name", ["lost+found/", ".DS_Store", ".Trash-1000/", ".nfs0001", ".gitkeep", f"{MARKER}.tmp"])
def test_what_no_user_has_put_there_counts_as_nothing(tmp_path, name):
    if name.endswith("/"):
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_text("" if name == ".gitkeep" else "x")
    assert claim_folder(tmp_path, "run").made_folder is False
    assert kind_of(tmp_path) == "run"


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "base/", "run.lock", "config.json", MARKER])
def test_anything_else_is_refused_and_left(tmp_path, name):
    if name.endswith("/"):
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_text("mine")
    with pytest.raises(UserError, match=f"holds {name.rstrip('/')}, but no {MARKER}, so it is not the folder of a run"):
        claim_folder(tmp_path, "run")
    assert [path.name for path in tmp_path.iterdir()] == [name.rstrip("/")]
    assert not (tmp_path / name).is_file() or (tmp_path / name).read_text() == "mine"


@posix
def test_a_link_is_refused_whatever_it_leads_to(tmp_path):
    (tmp_path / "empty").write_text("")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "link").symlink_to(tmp_path / "empty")
    with pytest.raises(UserError, match="holds link"):
        require_claimable(tmp_path / "run", "run")


@posix
def test_the_file_that_the_process_prints_to_is_no_foreign_one(tmp_path):
    script = (
        "import sys; from pathlib import Path; from longstride.own_files.marker import claim_folder\n"
        "print('before', flush=True); claim_folder(Path(sys.argv[1]), 'run'); print('claimed')"
    )
    with (tmp_path / "log.txt").open("w") as log:
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], stdout=log, env=_environment())
    assert (done.returncode, (tmp_path / "log.txt").read_text()) == (0, "before\nclaimed\n")


def _environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_a_folder_of_another_kind_is_refused(tmp_path):
    mark_folder(tmp_path, "sweep")
    with pytest.raises(UserError, match="is the folder of a sweep; name another one with --output"):
        claim_folder(tmp_path, "export", flag="--output")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[" * 4000, b'{"format": "longstride-folder/1", "kind": ["run"]}', b"x" * 5000, b"null"],
)
def test_a_damaged_marker_is_none(tmp_path, content):
    (tmp_path / MARKER).write_bytes(content)
    assert kind_of(tmp_path) == ""


def make(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


PATTERNS = ("config.json", "checkpoints/last/iteration-*.json", "tensorboard/events.*")


def test_own_files_are_removed_and_others_stay(tmp_path):
    mark_folder(tmp_path, "run")
    mine = ("notes.txt", "checkpoints/last/mine.json", "other/config.json", "checkpoints/iteration-1.json")
    own = ("config.json", "config.json.tmp", "checkpoints/last/iteration-1.json", "tensorboard/events.1")
    make(tmp_path, *mine, *own)
    require_removable(tmp_path, "run")
    remove_own_files(tmp_path, PATTERNS)
    remove_marked(tmp_path)
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert left == sorted([*mine, MARKER])
    assert not (tmp_path / "tensorboard").exists()


def test_a_folder_without_files_of_the_user_goes(tmp_path):
    folder = tmp_path / "run"
    mark_folder(folder, "run")
    make(folder, "config.json", "checkpoints/last/iteration-1.json")
    remove_own_files(folder, PATTERNS)
    remove_marked(folder)
    assert not folder.exists()


@posix
def test_links_are_neither_followed_nor_removed(tmp_path):
    folder, other = tmp_path / "run", tmp_path / "other"
    mark_folder(folder, "run")
    make(other, "last/iteration-1.json", "victim")
    (folder / "checkpoints").symlink_to(other)
    (folder / "config.json").symlink_to(other / "victim")
    remove_own_files(folder, PATTERNS)
    assert (other / "last" / "iteration-1.json").exists()
    assert (folder / "config.json").is_symlink()
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(UserError, match="is a symbolic link, so nothing is removed there"):
        require_removable(tmp_path / "link", "run")


@posix
@pytest.mark.parametrize("mode", ["wb", "w", "ab", "a+", "r+b"])
def test_a_link_or_a_pipe_is_not_opened(tmp_path, mode):
    (tmp_path / "victim").write_text("content")
    (tmp_path / "file").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="file is a symbolic link, and links are not followed there"):
        open_own(tmp_path / "file", mode)
    (tmp_path / "file").unlink()
    os.mkfifo(tmp_path / "file")
    with pytest.raises(OSError, match=r"No such device or address|not a regular file"):
        open_own(tmp_path / "file", mode)
    assert (tmp_path / "victim").read_text() == "content"
    (tmp_path / "folder").symlink_to(tmp_path)
    with pytest.raises(OSError, match="folder is a symbolic link"):
        make_own_folder(tmp_path / "folder")
