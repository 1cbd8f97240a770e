"""Reads the tokens of requests from a file that others cannot read, or from the environment."""

import os
import stat
from pathlib import Path

from longstride.errors import UserError

TOKEN_VARIABLE = "LONGSTRIDE_TOKEN"

_SHORTEST = 16
"""Fewest characters of a token."""


def read_tokens(token_file: str | None) -> tuple[str, ...]:
    """Return the tokens in a file, one per line, or in ``LONGSTRIDE_TOKEN``; none if neither is given.

    Args:
        token_file: file with the tokens, each of which is accepted.

    Raises:
        UserError: the file cannot be read, other users can read or change it, or a token is short.
    """
    text = os.environ.get(TOKEN_VARIABLE, "") if token_file is None else _content(Path(token_file))
    source = TOKEN_VARIABLE if token_file is None else f"--token-file {token_file}"
    tokens = tuple(line.strip() for line in text.splitlines() if line.strip())
    if token_file is not None and not tokens:
        raise UserError(f"{source}: the file is empty; expected a token of at least {_SHORTEST} characters.")
    for number, token in enumerate(tokens, 1):
        if len(token) < _SHORTEST or not token.isascii() or not token.isprintable():
            where = f"line {number}: " if len(tokens) > 1 else ""
            raise UserError(
                f"{source}: {where}the token must be one line of at least {_SHORTEST} ASCII characters; several tokens "
                "go into several lines."
            )
    return tokens


def _content(path: Path) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            _require_private(path, os.fstat(file.fileno()))
            return file.read()
    except (OSError, ValueError) as error:
        raise UserError(f"--token-file {path}: the file cannot be read ({error}).") from None


def _require_private(path: Path, status: os.stat_result) -> None:
    """Refuse a file that other users can read or change; its group may read it, as needed for container secrets."""
    if os.name != "posix":
        return
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"--token-file {path}: this is not a file.")
    if status.st_uid not in (0, os.geteuid()):
        raise UserError(f"--token-file {path}: the file belongs to another user; make a file of your own.")
    if status.st_mode & (stat.S_IRWXO | stat.S_IWGRP):
        mode = stat.S_IMODE(status.st_mode)
        raise UserError(
            f"--token-file {path}: other users can read or change it (mode {mode:04o}); run chmod 600 {path} and use a "
            "new token."
        )
