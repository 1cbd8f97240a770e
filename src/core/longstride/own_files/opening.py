"""Opening files for writing, without following a link that was planted in their place.

``O_NOFOLLOW`` covers the last component of a path. Windows lacks it: there a link is looked for before the file is
opened, so one that is planted between the two is followed. Hard links are not found.
"""

import errno
import os
import stat
from pathlib import Path
from typing import IO, Any

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # a pipe without a reader would be waited for


def open_own(
    path: Path, mode: str, encoding: str | None = None, errors: str | None = None, buffering: int = -1
) -> IO[Any]:
    """Open a regular file as :func:`open` does, made if the mode says so; nothing is cut off before it is checked.

    Raises:
        OSError: it cannot be opened, or it is a link, a pipe or a device; ``strerror`` names the file then.
    """
    return open(path, mode, buffering, encoding=encoding, errors=errors, opener=_open_regular)


def make_own_folder(path: Path) -> None:
    """Make a folder in an existing one, unless it is there.

    Raises:
        OSError: it cannot be made, or it is a link.
    """
    path.mkdir(exist_ok=True)
    if path.is_symlink():
        raise _is_link(path)


def _open_regular(path: str, flags: int) -> int:
    if not _NO_FOLLOW and os.path.islink(path):
        raise _is_link(Path(path))
    try:
        descriptor = os.open(path, (flags & ~os.O_TRUNC) | _NO_FOLLOW | _NO_WAIT, 0o666)
    except OSError as error:
        raise (_is_link(Path(path)) if os.path.islink(path) else error) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, f"{os.path.basename(path)} is not a regular file", path)
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _is_link(path: Path) -> OSError:
    return OSError(errno.ELOOP, f"{path.name} is a symbolic link, and links are not followed there", str(path))
