"""Admission to the service: tokens, host names, and the size of requests."""

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
    """The error for a refused request.

    Args:
        status: HTTP status code.
        sentence: reason.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Guard:
    """Conditions for admitting a request.

    Attributes:
        tokens: each request must contain one of them; empty for no tokens.
        hosts: names under which the service may be addressed; empty for any. Otherwise a web page could reach a local
            service under its own name (DNS rebinding). Starlette's TrustedHostMiddleware does not support ``[::1]``.
    """

    tokens: tuple[str, ...] = field(default=(), repr=False)
    hosts: frozenset[str] = frozenset()

    def check(self, request: "Request") -> None:
        """Refuse a request without a token, or under another name.

        Raises:
            RefusedError: the request is refused.
        """
        if self.hosts and _PORT.sub("", request.headers.get("host", "")).lower() not in self.hosts:
            raise RefusedError(400, "This service answers on this machine only; address it as localhost.")
        if self.tokens:
            given = request.headers.get("authorization", "").encode("utf-8", "replace")
            # All tokens are compared, so that the time does not reveal a similar one.
            if not any([hmac.compare_digest(given, f"Bearer {token}".encode()) for token in self.tokens]):
                raise RefusedError(401, "The header Authorization: Bearer TOKEN is missing or its token is wrong.")


async def body_of(request: "Request") -> bytes:
    """Return the body of a request.

    Raises:
        RefusedError: the body is too large, or does not arrive in time.
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
    except asyncio.CancelledError:  # the time for requests in progress is over
        raise RefusedError(503, STOPPING) from None
    return b"".join(parts)


def guard_of(host: str, token_file: str | None) -> Guard:
    """Return the guard of a service that listens at an address.

    Args:
        host: address or name to listen at.
        token_file: file with tokens, one per line; None for the environment variable ``LONGSTRIDE_TOKEN``.

    Raises:
        UserError: other machines could send requests without a token, or the tokens are not valid.
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
