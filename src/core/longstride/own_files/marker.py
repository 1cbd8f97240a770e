"""The marker of a folder: the file ``.longstride.json``, which says that Longstride may write and remove files in it.

A folder becomes Longstride's if it is new or empty. These count as empty: what file systems and desktops put into
folders, empty files, and the file that this process prints to.
"""

import json
import os
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from longstride.errors import UserError
from longstride.own_files.opening import open_own

Kind = Literal["run", "sweep", "comparison", "export"]
"""What a folder is for."""

MARKER = ".longstride.json"
"""Name of the marker."""

_FORMAT, _MOST_BYTES = "longstride-folder/1", 4096
_KINDS: dict[str, str] = {"run": "a run", "sweep": "a sweep", "comparison": "a comparison", "export": "an export"}
_OF_THE_SYSTEM = ("lost+found", ".DS_Store", "Thumbs.db", "desktop.ini", "System Volume Information", f"{MARKER}.tmp")
_BEGINNINGS = (".nfs", ".fuse_hidden", ".Trash-")


@dataclass(frozen=True)
class Claim:
    """A folder that was taken, and what was made for that."""

    folder: Path
    made_folder: bool
    made_marker: bool

    def abandon(self) -> None:
        """Remove the marker and the folder if they were made, unless the folder holds anything else."""
        with suppress(OSError):
            if self.made_marker and os.listdir(self.folder) == [MARKER]:
                (self.folder / MARKER).unlink()
            if self.made_folder:
                self.folder.rmdir()


def is_regular(path: Path) -> bool:
    """Return whether a path is a regular file, and no link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def kind_of(folder: Path) -> str:
    """Return the kind in the marker of a folder; empty if it has none, or none that can be read."""
    path = folder / MARKER
    with suppress(OSError, ValueError, RecursionError):
        if is_regular(path) and path.stat().st_size <= _MOST_BYTES:
            content = json.loads(path.read_bytes())
            if isinstance(content, dict) and content.get("format") == _FORMAT and content.get("kind") in tuple(_KINDS):
                return str(content["kind"])
    return ""


def foreign_entry(folder: Path) -> str:
    """Return the name of something in a folder without marker that counts as a user's; empty if there is nothing.

    Raises:
        UserError: the folder cannot be read.
    """
    try:
        return next((name for name in sorted(os.listdir(folder)) if not _counts_as_nothing(folder / name)), "")
    except OSError as error:
        raise UserError(f"Cannot read {folder}: {error.strerror}.") from None


def require_claimable(folder: Path, kind: Kind, earlier: bool = False, flag: str = "--run-directory") -> None:
    """Check that a folder is new, empty, or marked as one of this kind; nothing is written.

    Args:
        folder: folder, which need not exist.
        kind: what it is wanted for.
        earlier: whether it is known as one of this kind that an earlier version wrote, without a marker.
        flag: flag that names another folder.

    Raises:
        UserError: it is something else, or it cannot be read.
    """
    found = kind_of(folder)
    if found == kind or not folder.exists():
        return
    if found:
        raise UserError(f"{folder} is the folder of {_KINDS[found]}; name another one with {flag}.")
    if not earlier and (name := foreign_entry(folder)):
        raise UserError(
            f"{folder} holds {name}, but no {MARKER}, so it is not the folder of {_KINDS[kind]}; name a new or empty "
            f"folder with {flag}."
        )


def claim_folder(folder: Path, kind: Kind, earlier: bool = False, flag: str = "--run-directory") -> Claim:
    """Make a folder if needed and mark it; the arguments are those of :func:`require_claimable`.

    Raises:
        UserError: it is something else, or it cannot be written.
    """
    require_claimable(folder, kind, earlier, flag)
    made = not folder.exists()
    return Claim(folder, made, mark_folder(folder, kind))


def mark_folder(folder: Path, kind: Kind) -> bool:
    """Mark a folder, made if needed, that was checked before; return whether the marker is new.

    Raises:
        UserError: it cannot be written.
    """
    if kind_of(folder) == kind:
        return False
    temporary = folder / f"{MARKER}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open_own(temporary, "wb") as file:
            file.write(json.dumps({"format": _FORMAT, "kind": kind}).encode() + b"\n")
        os.replace(temporary, folder / MARKER)
    except OSError as error:
        raise UserError(f"Cannot write in {folder}: {error.strerror}.") from None
    return True


def _counts_as_nothing(path: Path) -> bool:
    if path.name in _OF_THE_SYSTEM or path.name.startswith(_BEGINNINGS):
        return True
    try:
        status = path.lstat()
    except OSError:
        return False
    return is_regular(path) and (status.st_size == 0 or any(os.path.samestat(status, s) for s in _outputs()))


def _outputs() -> list[os.stat_result]:
    """Return the files that this process prints to."""
    found = []
    for stream in (sys.__stdout__, sys.__stderr__):
        with suppress(OSError, ValueError, AttributeError):
            found.append(os.fstat(stream.fileno()))  # type: ignore[union-attr]  # None is an AttributeError
    return found
