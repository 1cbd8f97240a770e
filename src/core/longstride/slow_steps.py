"""Lines about steps that take long: from five seconds on, and then one about every five seconds.

The lines come from a thread of their own, so that a step that computes for a minute in one call is not silent.
"""

import threading
import time
from types import TracebackType

from longstride.text import Say, format_duration

EVERY = 5.0
"""Seconds from the beginning to the first line, and from line to line."""


class SlowSteps:
    """Says what is being done, and for how long, while it is entered; nothing where that is fast.

    Args:
        say: prints a line; None to say nothing.
        every: seconds to the first line, and between two.
    """

    def __init__(self, say: Say | None = None, every: float = EVERY) -> None:
        self._say, self._every = say, every
        self._what, self._step, self._number, self._of, self._begun = "", "", 0, 0, time.monotonic()
        self._over, self._thread = threading.Event(), None if say is None else threading.Thread(target=self._watch)

    def __enter__(self) -> "SlowSteps":
        if self._thread is not None:
            self._thread.daemon = True  # a process that ends does not wait for it
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def begin(self, what: str, of: int = 0) -> None:
        """Begin something that has ``of`` steps, 0 if they are not told apart; its seconds count from here on."""
        self._what, self._step, self._number, self._of, self._begun = what, "", 0, of, time.monotonic()

    def next(self, step: str) -> None:
        """Begin the next step."""
        self._step, self._number = step, self._number + 1

    def line(self) -> str:
        """Return the line about what is being done now."""
        seconds = format_duration(round(time.monotonic() - self._begun))
        step = f": {self._step} ({self._number} of {self._of})" if self._step else ""
        return f"{self._what}{step}, {seconds} so far ..."

    def _watch(self) -> None:
        while not self._over.wait(self._every):
            if self._say is not None and self._what:
                self._say(self.line())
