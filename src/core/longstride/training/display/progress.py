"""Progress of a training run: a live display on a terminal and in a notebook, plain lines elsewhere."""

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from longstride.terminal import say
from longstride.text import counted, format_duration, in_words, scale_of, sparkline
from longstride.training.display.messages import update_line
from longstride.training.display.notebook import in_notebook, live_display

_BARS = 24
"""Most bars of the main metric's sparkline; all rows fit into 80 columns then."""

_COLOUR = "green"
"""Colour of the sparkline."""


class Progress:
    """Shows phase and figures of a run; a context manager.

    A terminal or a notebook shows a table that changes, anything else plain lines. The total is None if it is unknown;
    ``done`` are the iterations before this process, ``share`` what they are of a run whose iterations differ in length.
    ``update_lines``: whether each update has a line of its own among plain lines.
    """

    def __init__(
        self,
        console: Console,
        total: int | None,
        done: int,
        metric: str,
        share: float = 0.0,
        update_lines: bool = False,
    ) -> None:
        self._console, self._total, self._metric, self._update_lines = console, total, metric, update_lines
        self._first = self._done = done
        self._first_share = self._share = share
        self._begin = time.perf_counter()
        self._phase = "starting"
        self._record: dict[str, Any] = {}
        self._values: list[float] = []
        self._heuristic: tuple[str, float] | None = None
        self._updated = ""
        self._live = live_display(console, self._table)

    def __enter__(self) -> "Progress":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._phase = ""
        if self._live:
            self._live.stop()
        if self._live and self._record and not in_notebook():
            self._console.print(self._table())  # the display is gone, its last figures stay

    @property
    def watched_seconds(self) -> float:
        """Seconds for which a display that changes has been shown; 0 where only lines are printed."""
        return time.perf_counter() - self._begin if self._live else 0.0

    def phase(self, name: str) -> None:
        """Show the present phase."""
        self._phase = name
        if self._live:
            self._live.refresh()

    def expect(self, total: int, share: float = 0.0) -> None:
        """Set the expected number of iterations and, where they differ in length, the share of the run that is done."""
        self._total, self._share = total, share

    def remember(self, records: Sequence[dict[str, Any]]) -> None:
        """Take the main metric of iterations before this process into the sparkline."""
        self._values = [value for record in records if (value := self._main(record)) is not None]

    def compare_with(self, heuristic: str, value: float) -> None:
        """Show the main metric of the best heuristic beside that of the policy."""
        self._heuristic = heuristic, value

    def say(self, text: str) -> None:
        """Print a line that stays."""
        say(self._console, text)

    def update_complete(self, seconds: float) -> None:
        """Show the time of an update: in the display, or as a line where updates have one."""
        self._updated = update_line(seconds)
        if self._live:
            self._live.refresh()
        elif self._update_lines:
            self.say(self._updated)

    def iteration(self, record: dict[str, Any]) -> None:
        """Show the record of a finished iteration: in the display on a terminal, elsewhere as a line."""
        self._record, self._done = record, record["iteration"]
        if (value := self._main(record)) is not None:
            self._values.append(value)
        if not self._live:
            parts = [f"iteration {self._of_total()}", *self._figures(), f"{self._left()} left"]
            self.say("  ".join(parts))

    def _main(self, record: dict[str, Any]) -> float | None:
        """Return the main metric of an iteration; None where no episode has it."""
        value = record["return"] if self._metric == "return" else record["metrics"].get(self._metric)
        return value if isinstance(value, int | float) else None

    def _in_units(self, value: float) -> str:
        """Return a value of the main metric with its unit."""
        scale = scale_of(self._unit, value)
        return f"{_short(value * scale.factor)}{scale.suffix}"

    @property
    def _unit(self) -> str:
        return str(self._record.get("units", {}).get(self._metric, ""))

    def _shown(self) -> str:
        """Return the main metric of the last iteration with its unit; a dash if no episode has it."""
        if (value := self._main(self._record)) is not None:
            return self._in_units(value)
        known = [*self._values[-1:], *([self._heuristic[1]] if self._heuristic else [])]
        return f"-{scale_of(self._unit, known[0] if known else 0.0).suffix}"

    def _reward(self) -> tuple[str, str]:
        """Return the name and the value of what an iteration was rewarded."""
        r = self._record
        if r["return"] is not None:
            return "return", _short(r["return"])
        return "mean reward", f"{r['mean_reward']:,.4g}"

    def _figures(self) -> list[str]:
        """Return the figures of the last iteration for a line."""
        r, (reward, rewarded) = self._record, self._reward()
        figures = [f"{r['steps_per_second']:,.0f} steps/s", f"{rewarded} {reward}"]
        if self._metric not in ("return", ""):
            figures.append(f"{self._shown()} {in_words(self._metric)}")
        if self._heuristic is not None and (self._metric != "return" or self._main(r) is not None):
            name, value = self._heuristic
            figures[-1] += f" ({name}: {self._in_units(value)})"
        return [*figures, f"{r['simulation_seconds']:.2f} s simulation", f"{r['update_seconds']:.2f} s update"]

    def _of_total(self) -> str:
        """Return, for example, ``3/50 (2 episodes, 55,012 steps)``."""
        counts = f"{self._done}/{'?' if self._total is None else self._total}"
        if not self._record:
            return counts
        episodes = counted(self._record["simulated_episodes"], "episode")
        return f"{counts} ({episodes}, {self._record['steps']:,} steps)"

    def _left(self) -> str:
        done = self._done - self._first
        if done == 0 or self._total is None:
            return "?"
        seconds = time.perf_counter() - self._begin
        left = (self._total - self._done) / done
        if self._share > self._first_share:
            left = (1.0 - self._share) / (self._share - self._first_share)
        return format_duration(round(seconds * left))

    def _table(self) -> Table:
        """Return a row for each figure, and below them the line of the last update."""
        table = Table(Column(style="dim", no_wrap=True), Column(), show_header=False, box=None, padding=(0, 2, 0, 0))
        table.caption, table.caption_justify, table.caption_style = self._updated or None, "left", ""
        table.add_row("iteration", f"{self._of_total()}{f', {self._phase}' if self._phase else ''}")
        if not self._record:
            return table
        r, (reward, rewarded) = self._record, self._reward()
        if self._metric not in ("return", ""):
            table.add_row(in_words(self._metric), self._curve(self._shown()))
            table.add_row(reward, rewarded)
        else:
            table.add_row(reward, self._curve(rewarded) if self._metric == "return" else rewarded)
        if self._heuristic is not None:
            name, value = self._heuristic
            table.add_row("best heuristic", f"{self._in_units(value)}, {name}")
        table.add_row("simulation", f"{r['simulation_seconds']:.2f} s, {r['steps_per_second']:,.0f} steps/s")
        table.add_row("update", f"{r['update_seconds']:.2f} s")
        table.add_row("time left", self._left())
        return table

    def _curve(self, value: str) -> Text:
        """Return the main metric of the last iteration, and bars of all with the least and the largest value."""
        text = Text(value)
        if len(self._values) < 2 or self._console.options.ascii_only:
            return text
        text.append(f"  {sparkline(self._values, _BARS)}", _COLOUR)
        return text.append(f"  {self._in_units(min(self._values))} to {self._in_units(max(self._values))}", "dim")


def _short(value: float) -> str:
    """Return a number with two decimals, a small one with three digits: costs in millions may be of millionths."""
    return f"{value:,.3g}" if 0.0 < abs(value) < 0.1 else f"{value:,.2f}"
