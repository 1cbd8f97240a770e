"""Time budget of a run: parsing it, and stopping before it is over."""

import re
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from longstride.errors import UserError

NO_LIMIT = 10**9
"""Iterations of a run that only its time budget ends."""

_MARGIN = 1.1
"""The next iteration may take this many times the longest of the last ones."""

_REMEMBERED = 10
"""Number of last iterations whose lengths are known."""

_NUMBER = r"(\d+(?:\.\d+)?)"
_DURATION = re.compile(rf"(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?")


def parse_duration(text: str) -> float:
    """Return the seconds of a text such as ``3h``, ``90m``, ``1h30m``, ``45s`` or ``2.5h``.

    Raises:
        UserError: the text is no duration, or zero.
    """
    match = _DURATION.fullmatch(text.replace(" ", "").lower())
    parts = match.groups(default="0") if match else ("0", "0", "0")
    seconds = sum(float(part) * unit for part, unit in zip(parts, (3600, 60, 1), strict=True))
    if seconds <= 0.0:
        raise UserError(f"TIME_BUDGET is {text!r}, which is not a duration; write it like 3h, 90m, 1h30m, 45s or 2.5h.")
    return seconds


def iterations_done(done: int, total: int) -> str:
    """Return the number of finished iterations for people: ``7 of 30``, or ``7`` where only time ends the run."""
    return str(done) if total == NO_LIMIT else f"{done} of {total}"


class NoBudget:
    """The budget of a run that may take as long as it takes."""

    is_limited, share = False, 0.0

    def another_iteration(self, more: float = 0.0, ratio: float = 1.0) -> bool:
        """Return that there is time."""
        return True

    def leave_out(self, seconds: float) -> None:
        """Do nothing."""

    def iterations_left(self) -> int:
        """Return more than any run has."""
        return NO_LIMIT

    def metadata(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing: the run may have had a budget before."""


class Budget:
    """Seconds that a run has, over all of its resumptions; the clock, in seconds, never goes backwards."""

    is_limited = True

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._clock = seconds, clock
        self._begin = clock()
        self._iteration_begin: float | None = None
        self._lengths: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def elapsed(self) -> float:
        """Seconds that the run has taken."""
        return self._clock() - self._begin

    @property
    def share(self) -> float:
        """Share of the time that is over, 0 .. 1."""
        return min(self.elapsed / self.seconds, 1.0)

    def another_iteration(self, more: float = 0.0, ratio: float = 1.0) -> bool:
        """Measure the iteration that ends here, if any, and return whether another one will end inside the budget.

        Nothing is known of the length of the first iteration: it begins if any time is left. ``more``: seconds that the
        next one takes beyond the usual. ``ratio``: its length over that of the longest of the last ones.
        """
        elapsed = self.elapsed
        if self._iteration_begin is not None:
            self._lengths.append(elapsed - self._iteration_begin)
        self._iteration_begin = elapsed
        return elapsed + _MARGIN * (ratio * max(self._lengths, default=0.0) + more) < self.seconds

    def leave_out(self, seconds: float) -> None:
        """Take seconds that no later iteration needs out of the length of this one."""
        if self._iteration_begin is not None:
            self._iteration_begin += seconds

    def iterations_left(self) -> int:
        """Return about how many more iterations fit, by the mean length of the last ones."""
        lengths, left = self._lengths_so_far(), self.seconds - self.elapsed
        return max(int(left / max(sum(lengths) / len(lengths), 1e-9)), 0) if lengths else 0

    def metadata(self) -> dict[str, Any]:
        """Return what a checkpoint says of the budget."""
        return {"time_budget": self.state_dict()}

    def state_dict(self) -> dict[str, Any]:
        """Return the JSON values that a checkpoint keeps."""
        return {"elapsed": self.elapsed, "longest_iteration": max(self._lengths_so_far(), default=0.0)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Count the time before the run was resumed; the state of a run without a budget is empty."""
        self._begin -= state.get("elapsed", 0.0)
        if longest := state.get("longest_iteration"):
            self._lengths.append(longest)

    def _lengths_so_far(self) -> list[float]:
        """Return the lengths of the last iterations, and of the present one so far."""
        begin = self._iteration_begin
        return [*self._lengths, *([] if begin is None else [self.elapsed - begin])]


def budget_of(text: str) -> Budget | NoBudget:
    """Return the budget of TIME_BUDGET, which begins now.

    Raises:
        UserError: the text is no duration.
    """
    return Budget(parse_duration(text)) if text else NoBudget()
