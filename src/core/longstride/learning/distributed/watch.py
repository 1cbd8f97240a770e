"""Whether the other ranks are alive: each writes a sign of life into the store that torch.distributed began with.

A collective operation fails at once where another process has ended and its connection is closed. It waits for ever
where a process hangs, a host is gone, or GPUs exchange the numbers. A rank that is simulating notices nothing either.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

INTERVAL, PATIENCE = 3.0, 30.0
"""Seconds from one sign of life to the next, and without one after which a rank counts as lost."""

_SIGN, _CAUSE, _OF_FIRST = "longstride/alive/{}", "longstride/cause", "longstride/cause/0"

_SAME_TIME = 2.0
"""Seconds that a rank which ends waits for the first one, which may be about to meet the same error."""


class Watch:
    """Writes signs of life and looks for those of the others, in a thread, from ``start`` to ``stop``.

    ``lost`` is called in that thread, once, with a phrase that says what is wrong.
    """

    def __init__(
        self, store: Any, rank: int, size: int, lost: Callable[[str], None], seconds: tuple[float, float] | None = None
    ) -> None:
        self._store, self._rank, self._lost = store, rank, lost
        self._interval, self._patience = seconds or (INTERVAL, PATIENCE)
        self._others = [other for other in range(size) if other != rank]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; nobody is missed any more."""
        self._ended.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(self._patience)

    def _run(self) -> None:
        count, seen = 0, dict.fromkeys(self._others, (b"", time.monotonic()))
        while not self._ended.wait(self._interval):
            count += 1
            try:
                self._store.set(_SIGN.format(self._rank), str(count))
                signs = {other: self._sign_of(other) for other in self._others}
            except Exception as error:  # of several kinds, as the versions of torch differ
                self._tell(f"the store of torch.distributed does not answer ({type(error).__name__})")
                return
            now = time.monotonic()
            seen |= {other: (sign, now) for other, sign in signs.items() if sign != seen[other][0]}
            silent = [other for other, (_, since) in seen.items() if now - since > self._patience]
            if silent:
                self._tell(missing(silent, self._patience))
                return

    def _sign_of(self, other: int) -> bytes:
        key = _SIGN.format(other)
        return bytes(self._store.get(key)) if self._store.check([key]) else b""

    def _tell(self, what: str) -> None:
        if not self._ended.is_set():
            self._lost(what)


def missing(ranks: Sequence[int], seconds: float) -> str:
    """Return a phrase about ranks that have given no sign of life."""
    names = ", ".join(map(str, ranks))
    return f"rank{'s' if len(ranks) > 1 else ''} {names} gave no sign of life for {seconds:.0f} seconds"


def note_cause(store: Any, rank: int, message: str, patience: float = _SAME_TIME) -> bool:
    """Note the error with which a rank ends; return whether it should print it, as nobody else prints the same.

    The first rank prints its own. Another one waits for it a little. A store that does not answer knows nothing.
    """
    try:
        by, _, said = bytes(store.compare_set(_CAUSE, "", f"{rank}\n{message}")).decode().partition("\n")
        if rank == 0:
            store.set(_OF_FIRST, message)
            return True
        if by != str(rank) and said == message:
            return False
        end = time.monotonic() + patience
        while not store.check([_OF_FIRST]) and time.monotonic() < end:
            time.sleep(0.05)
        return said_by_first(store) != message
    except Exception:
        return True


def said_by_first(store: Any) -> str:
    """Return the error with which the first rank ended, which it prints; empty where it noted none."""
    try:
        return bytes(store.get(_OF_FIRST)).decode() if store.check([_OF_FIRST]) else ""
    except Exception:
        return ""


def cause(store: Any) -> str:
    """Return a phrase about the rank that noted first why it ends; empty where none did."""
    try:
        if not store.check([_CAUSE]):
            return ""
        return f"rank {bytes(store.get(_CAUSE)).decode().partition(chr(10))[0]} has stopped with an error"
    except Exception:
        return ""
