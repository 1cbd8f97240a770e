"""Whether another user could put a folder of their own in the place of one that this process trusts."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_MOST_LINKS = 40


def untrusted_part(path: Path) -> str:
    """Return why other users could replace a path, or a folder above it; empty if they cannot.

    Each folder in which a name of the path is looked up has to belong to this user or to root. Others may write to it
    only if it is sticky, as ``/tmp`` is, because a name there can be replaced by its owner alone. A group counts as
    others, unless it is the private group of this user. What does not exist ends the path. Without user ids, as on
    Windows, nothing is found.
    """
    if not hasattr(os, "getuid"):
        return ""
    for part in _looked_up(Path(os.path.abspath(path))):
        try:
            status = part.lstat()
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"{part} cannot be looked at ({error.strerror})"
        if status.st_uid not in (0, os.getuid()):
            return f"{part} belongs to another user"
        if stat.S_ISDIR(status.st_mode) and _others_write(status):
            return f"other users can write to {part}"
    return ""


def _looked_up(path: Path) -> Iterator[Path]:
    """Yield the folders and links that lead to a path, itself included; a link is followed part by part."""
    at, waiting, links = Path(path.anchor), list(reversed(path.parts[1:])), 0
    yield at
    while waiting:
        name = waiting.pop()
        at = at.parent if name == ".." else at / name
        yield at
        if at.is_symlink():
            links += 1
            if links > _MOST_LINKS:
                return
            target = Path(os.readlink(at))
            waiting += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            at = Path(target.anchor) if target.is_absolute() else at.parent


def _others_write(status: os.stat_result) -> bool:
    if status.st_mode & stat.S_ISVTX:
        return False
    by_group = bool(status.st_mode & stat.S_IWGRP) and not _is_private(status.st_gid)
    return by_group or bool(status.st_mode & stat.S_IWOTH)


def _is_private(group: int) -> bool:
    """Return whether a group is the one that distributions make for each user, with no other member."""
    with suppress(ImportError, KeyError, OSError):
        import grp
        import pwd

        name, entry = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(group)
        return entry.gr_name == name and not set(entry.gr_mem) - {name}
    return False
