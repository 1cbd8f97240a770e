"""Admission to the service: who may ask, and how large a question may be."""

import asyncio
import hmac
import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from longstride.errors import UserError
from longstride.process.recommend.service.limits import MOST_BYTES, MOST_SECONDS, STOPPING
from longstride.process.recommend.service.tokens import TOKEN_VARIABLE, read_tokens
from longstride.text import format_bytes

if TYPE_CHECKING:
    from starlette.requests import Request

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
        tokens: each request must show one of them; empty for none.
        hosts: names under which the service may be addressed; empty for any. A web page could reach a service of this
            machine under a name of its own (DNS rebinding). Starlette's TrustedHostMiddleware does not know ``[::1]``.
    """

    tokens: tuple[str, ...] = field(default=(), repr=False)
    hosts: frozenset[str] = frozenset()

    def check(self, request: "Request") -> None:
        """Refuse a request without a token, or under another name.

        Raises:
            RefusedError: it is refused.
        """
        if self.hosts and _PORT.sub("", request.headers.get("host", "")).lower() not in self.hosts:
            raise RefusedError(400, "This service answers on this machine only; address it as localhost.")
        if self.tokens:
            given = request.headers.get("authorization", "").encode("utf-8", "replace")
            # All of them are compared: the time says nothing about which one is close.
            if not any([hmac.compare_digest(given, f"Bearer {token}".encode()) for token in self.tokens]):
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
    except asyncio.CancelledError:  # at the end of the time for requests in progress
        raise RefusedError(503, STOPPING) from None
    return b"".join(parts)


def guard_of(host: str, token_file: str | None) -> Guard:
    """Return the guard of a service that listens at an address.

    Args:
        host: address or name to listen at.
        token_file: file with tokens, one a line; None for the environment variable ``LONGSTRIDE_TOKEN``.

    Raises:
        UserError: other machines could ask without a token, or the tokens cannot be used.
    """
    tokens = read_tokens(token_file)
    if is_loopback(host):
        return Guard(tokens, frozenset({"localhost", "127.0.0.1", "[::1]", host.lower()}))
    if not tokens:
        raise UserError(
            f"--host {host}: other machines can reach this address, so the service needs a token; set {TOKEN_VARIABLE} "
            "or name a --token-file, or leave out --host."
        )
    return Guard(tokens)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
