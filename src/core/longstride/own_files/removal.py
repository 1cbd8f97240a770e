"""Removing the files of a marked folder; what a user has put into it stays."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from longstride.errors import UserError
from longstride.own_files.marker import MARKER, Kind, foreign_entry, is_regular, kind_of


def require_removable(folder: Path, kind: Kind, earlier: bool = False) -> None:
    """Check that files may be removed from an existing folder: it is empty, marked, or known as an earlier version's.

    Raises:
        UserError: it is a link, it is something else, or it cannot be read.
    """
    if folder.is_symlink():
        raise UserError(f"{folder} is a symbolic link, so nothing is removed there; move it away.")
    if kind_of(folder) == kind or earlier:
        return
    if name := foreign_entry(folder):
        raise UserError(
            f"{folder} holds {name}, but no {MARKER} of a {kind}, so nothing is removed there; move it away, or name "
            "another --run-directory."
        )


def remove_own_files(folder: Path, patterns: Sequence[str]) -> None:
    """Remove the regular files that match, and the folders of the patterns that are empty then; no link is followed.

    Args:
        folder: a folder that :func:`require_removable` has checked.
        patterns: paths in the folder with slashes and wildcards, such as ``checkpoints/*/iteration-*.json``; the
            temporary file of each, with ``.tmp`` behind its name, matches too.

    Raises:
        OSError: a file cannot be removed.
    """
    split = [tuple(pattern.split("/")) for pattern in patterns]
    for path in list(_files(folder)):
        parts = path.relative_to(folder).parts
        if any(_matches(parts, pattern) for pattern in split) and is_regular(path):
            path.unlink(missing_ok=True)
    parents = {pattern[:depth] for pattern in split for depth in range(1, len(pattern))}
    for directory in sorted(_folders(folder), key=lambda path: len(path.parts), reverse=True):
        if any(_matches(directory.relative_to(folder).parts, parent, ("",)) for parent in parents):
            _remove_if_empty(directory)


def remove_marked(folder: Path) -> None:
    """Remove a folder that holds nothing but its marker; one that holds more keeps both."""
    with suppress(OSError):
        if os.listdir(folder) == [MARKER]:
            (folder / MARKER).unlink()
        folder.rmdir()


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...], ends: tuple[str, ...] = ("", ".tmp")) -> bool:
    if len(parts) != len(pattern) or not all(map(fnmatchcase, parts[:-1], pattern[:-1])):
        return False
    return any(fnmatchcase(parts[-1], pattern[-1] + end) for end in ends)


def _files(folder: Path) -> Iterator[Path]:
    for directory, _, names in os.walk(folder):
        yield from (Path(directory, name) for name in names)


def _folders(folder: Path) -> Iterator[Path]:
    for directory, names, _ in os.walk(folder):
        yield from (path for name in names if not (path := Path(directory, name)).is_symlink())


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
