"""Progress of a training run: a live display on a terminal and in a notebook, plain lines elsewhere."""

import time
from typing import Any

from rich.console import Console
from rich.table import Table

from core.text import counted, format_duration, scale_of
from core.training.display.notebook import live_display


class Progress:
    """Shows phase and figures of a run; a context manager.

    A terminal or a notebook shows a table that changes, anything else plain lines. The total is None if it is unknown;
    ``done`` are the iterations before this process, ``share`` what they are of a run whose iterations differ in length.
    """

    def __init__(self, console: Console, total: int | None, done: int, metric: str, share: float = 0.0) -> None:
        self._console, self._total, self._metric = console, total, metric
        self._first = self._done = done
        self._first_share = self._share = share
        self._begin = time.perf_counter()
        self._phase = "starting"
        self._record: dict[str, Any] = {}
        self._live = live_display(console, self._table)

    def __enter__(self) -> "Progress":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def phase(self, name: str) -> None:
        """Show the present phase."""
        self._phase = name
        if self._live:
            self._live.refresh()

    def expect(self, total: int, share: float = 0.0) -> None:
        """Set the expected number of iterations and, where they differ in length, the share of the run that is done."""
        self._total, self._share = total, share

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def iteration(self, record: dict[str, Any]) -> None:
        """Show the record of a finished iteration: in the display on a terminal, elsewhere as a line."""
        self._record, self._done = record, record["iteration"]
        if not self._live:
            figures = "  ".join(f"{value} {name}" for name, value in self._figures())
            self.say(f"iteration {self._of_total()}  {figures}")

    def _figures(self) -> list[tuple[str, str]]:
        r = self._record
        figures = [("steps/s", f"{r['steps_per_second']:,.0f}")]
        if r["return"] is not None:
            figures.append(("return", f"{r['return']:,.2f}"))
        else:
            figures.append(("mean reward", f"{r['mean_reward']:,.4g}"))
        if self._metric in r["metrics"]:
            value = r["metrics"][self._metric]
            scale = scale_of(r.get("units", {}).get(self._metric, ""), value)
            figures.append((self._metric, f"{value * scale.factor:,.2f}{scale.suffix}"))
        figures += [("s simulation", f"{r['simulation_seconds']:.2f}"), ("s update", f"{r['update_seconds']:.2f}")]
        return [*figures, ("left", self._left())]

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
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        table.add_row("iteration", self._of_total(), self._phase)
        if self._record:
            for name, value in self._figures():
                table.add_row(name, value)
        return table
