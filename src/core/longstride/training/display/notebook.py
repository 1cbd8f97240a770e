"""Tables in a notebook's output, by IPython alone: no widgets are needed."""

import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from longstride.escaping import html_text
from longstride.terminal import EscapedText

_SECONDS_BETWEEN_UPDATES = 0.25


class NotebookTable:
    """A table that stands in the output of a cell and changes there; ``get_table`` returns it as it is now."""

    def __init__(self, get_table: Callable[[], Table]) -> None:
        self._get_table = get_table
        self._handle: Any = None
        self._updated = 0.0

    def start(self) -> None:
        """Show the table."""
        displays: Any = import_module("IPython.display")
        self._handle = displays.display(self._content(), raw=True, display_id=True)

    def refresh(self) -> None:
        """Show how the table is now, unless that was done a moment ago."""
        if time.monotonic() - self._updated >= _SECONDS_BETWEEN_UPDATES:
            self.stop()

    def stop(self) -> None:
        """Show how the table is in the end."""
        self._updated = time.monotonic()
        self._handle.update(self._content(), raw=True)

    def _content(self) -> dict[str, str]:
        table = self._get_table()
        columns = [list(column.cells) for column in table.columns]
        caption = [str(table.caption)] if table.caption else []
        lines = ["  ".join(map(str, row)).rstrip() for row in zip(*columns, strict=True)]
        return {"text/html": html_of(table, caption), "text/plain": "\n".join([*lines, *caption])}


def live_display(console: Console, get_table: Callable[[], Table]) -> Live | NotebookTable | None:
    """Return what shows a table that changes, asked for as it is now; None where only lines can be shown."""
    if console.quiet:
        return None
    if in_notebook():
        return NotebookTable(get_table)
    if console.is_terminal:
        return Live(
            console=console, refresh_per_second=4, get_renderable=lambda: EscapedText(get_table()), transient=True
        )
    return None


def in_notebook() -> bool:
    """Return whether this process serves a notebook."""
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def html_of(table: Table, sentences: Sequence[str] = ()) -> str:
    """Return a table as HTML, with sentences below it."""
    columns = [[_cell("td", cell, column) for cell in column.cells] for column in table.columns]
    rows = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*columns, strict=True))
    headers = "".join(_cell("th", column.header, column) for column in table.columns)
    head = f"<thead><tr>{headers}</tr></thead>" if table.show_header else ""
    caption = f"<caption>{html_text(str(table.title))}</caption>" if table.title else ""
    below = "".join(f"<p>{html_text(sentence)}</p>" for sentence in sentences)
    return f"<table>{caption}{head}<tbody>{rows}</tbody></table>{below}"


def _cell(tag: str, content: object, column: Column) -> str:
    bold = isinstance(content, Text) and str(content.style).startswith("bold")
    text = f"<b>{html_text(str(content))}</b>" if bold else html_text(str(content))
    return f'<{tag} style="text-align: {column.justify}">{text}</{tag}>'
