"""What stands before the service: who may ask, and how large a question may be."""

import asyncio
import hmac
import ipaddress
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import UserError
from core.text import format_bytes

if TYPE_CHECKING:
    from starlette.requests import Request

TOKEN_VARIABLE = "LONGSTRIDE_TOKEN"
MOST_BYTES = 2**20
"""Bytes of a body: a state with about 8,000 tasks."""

MOST_SECONDS = 10.0
"""Time in which the head of a request must arrive, and then its body."""

_SHORTEST_TOKEN = 16

_PORT = re.compile(r":\d*$")


class RefusedError(Exception):
    """A request that is not answered.

    Args:
        status: HTTP status code.
        sentence: what is wrong.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Guard:
    """Who may ask.

    Attributes:
        token: what requests must show; empty for none.
        hosts: names under which the service may be addressed; empty for any. A page of the web could reach a service
            of this machine under a name of its own (DNS rebinding).
    """

    token: str = field(default="", repr=False)
    hosts: frozenset[str] = frozenset()

    def check(self, request: "Request") -> None:
        """Refuse a request without the token, or under another name.

        Raises:
            RefusedError: it is refused.
        """
        if self.hosts and _PORT.sub("", request.headers.get("host", "")).lower() not in self.hosts:
            raise RefusedError(400, "This service answers on this machine only; address it as localhost.")
        if self.token:
            given = request.headers.get("authorization", "").encode("utf-8", "replace")
            if not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
                raise RefusedError(401, "The header Authorization: Bearer TOKEN is missing or its token is wrong.")


async def body_of(request: "Request") -> bytes:
    """Return the body of a request.

    Raises:
        RefusedError: it is too large, or it does not arrive.
    """
    too_large = RefusedError(413, f"The body is larger than {format_bytes(MOST_BYTES)}; send fewer cases at once.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > MOST_BYTES:
        raise too_large
    from starlette.requests import ClientDisconnect

    parts, size = [], 0
    try:
        async with asyncio.timeout(MOST_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > MOST_BYTES:
                    raise too_large
                parts.append(part)
    except ClientDisconnect:
        raise RefusedError(400, "The body was cut off.") from None
    except TimeoutError:
        raise RefusedError(408, f"The body did not arrive within {MOST_SECONDS:.0f} seconds.") from None
    return b"".join(parts)


def guard_of(host: str, token_file: str | None) -> Guard:
    """Return the guard of a service that listens at an address.

    Args:
        host: address or name to listen at.
        token_file: file that holds the token; None for the environment variable ``LONGSTRIDE_TOKEN``.

    Raises:
        UserError: other machines could ask without a token, the file cannot be read, or the token is short.
    """
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    source = TOKEN_VARIABLE
    if token_file is not None:
        source = f"--token-file {token_file}"
        try:
            token = Path(token_file).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise UserError(f"{source}: the file cannot be read ({error}).") from None
    given = token_file is not None or token
    if given and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise UserError(f"{source}: the token must be one line of at least {_SHORTEST_TOKEN} ASCII characters.")
    if is_loopback(host):
        return Guard(token, frozenset({"localhost", "127.0.0.1", "[::1]", host.lower()}))
    if not token:
        raise UserError(
            f"--host {host}: other machines can reach this address, so the service needs a token; set {TOKEN_VARIABLE} "
            "or name a --token-file, or leave out --host."
        )
    return Guard(token)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
