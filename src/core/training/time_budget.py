"""How long a run may take by the clock: parsing a time budget, and stopping before it is over."""

import re
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from core.config import Config
from core.errors import UserError
from core.text import format_duration
from core.training.build.presets import set_by_user

NO_LIMIT = 10**9
"""Training episodes of a run that only its time budget ends."""

_MARGIN = 1.1
"""The next round may take this many times the longest of the last ones."""

_REMEMBERED = 10
"""Rounds that are looked back on."""

_NUMBER = r"(\d+(?:\.\d+)?)"
_DURATION = re.compile(rf"(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?")


def parse_duration(text: str) -> float:
    """Return the seconds of a text such as ``3h``, ``90m``, ``1h30m``, ``45s`` or ``2.5h``.

    Raises:
        UserError: it is not one, or zero.
    """
    match = _DURATION.fullmatch(text.replace(" ", "").lower())
    parts = match.groups(default="0") if match else ("0", "0", "0")
    seconds = sum(float(part) * unit for part, unit in zip(parts, (3600, 60, 1), strict=True))
    if seconds <= 0.0:
        raise UserError(f"TIME_BUDGET is {text!r}, which is no time: write it like 3h, 90m, 1h30m, 45s or 2.5h.")
    return seconds


class Budget:
    """Time that a run has, over all of its resumptions.

    Args:
        seconds: of the whole run.
        clock: seconds since some moment, never backwards.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._clock = seconds, clock
        self._begin = clock()
        self._round_begin: float | None = None
        self._rounds: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def elapsed(self) -> float:
        """Seconds that the run has taken."""
        return self._clock() - self._begin

    @property
    def share(self) -> float:
        """Share of the time that is over, 0 .. 1."""
        return min(self.elapsed / self.seconds, 1.0)

    def another_iteration(self, more: float = 0.0) -> bool:
        """Measure the round that ends here, if one does, and say whether another one will end inside the budget.

        Before the first round nothing is known of its length: it is played if any time is left.

        Args:
            more: seconds that it will take on top of what rounds take.
        """
        now = self.elapsed
        if self._round_begin is not None:
            self._rounds.append(now - self._round_begin)
        self._round_begin = now
        return now + _MARGIN * (max(self._rounds, default=0.0) + more) < self.seconds

    def leave_out(self, seconds: float) -> None:
        """Leave seconds that no later round takes out of the length of this one."""
        if self._round_begin is not None:
            self._round_begin += seconds

    def rounds_left(self) -> int:
        """Return about how many more rounds there is time for, with those before as a guide."""
        rounds, left = self._rounds_so_far(), self.seconds - self.elapsed
        return max(int(left / max(sum(rounds) / len(rounds), 1e-9)), 0) if rounds else 0

    def facts(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, JSON values."""
        return {"elapsed": self.elapsed, "longest_round": max(self._rounds_so_far(), default=0.0)}

    def _rounds_so_far(self) -> list[float]:
        """Return the lengths of the last rounds, with the one that is not over yet."""
        return [*self._rounds, *([] if self._round_begin is None else [self.elapsed - self._round_begin])]

    def restore(self, facts: dict[str, Any]) -> None:
        """Count the time that the run took before it was resumed; of a run without a budget nothing is known."""
        self._begin -= facts.get("elapsed", 0.0)
        if longest := facts.get("longest_round"):
            self._rounds.append(longest)


def with_budget(config: Config, sources: dict[str, str]) -> tuple[Config, dict[str, str], list[str]]:
    """Let a time budget alone end the run where nobody said how many training episodes it has.

    Returns:
        The Config, the sources of its values, and lines for people.

    Raises:
        UserError: the budget is no time.
    """
    if not config.time_budget:
        return config, sources, []
    seconds = parse_duration(config.time_budget)
    chosen = set_by_user("training_episodes", config, sources) or sources.get("training_episodes") == "preset"
    until = f"or {config.training_episodes:,} training episodes, whichever comes first" if chosen else "alone"
    lines = [
        f"Time budget {format_duration(seconds)} {until}: how much is learned depends on the speed of the machine."
    ]
    if chosen:
        return config, sources, lines
    changed = config.model_copy(update={"training_episodes": NO_LIMIT})
    return changed, {**sources, "training_episodes": "time_budget"}, lines


def budget_of(config: Config) -> Budget | None:
    """Return the budget of a run, which begins now; None without one."""
    return Budget(parse_duration(config.time_budget)) if config.time_budget else None
