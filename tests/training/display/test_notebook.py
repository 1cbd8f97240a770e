"""A run's table in a notebook: by IPython's displays, without widgets."""

import io
import sys
from types import ModuleType, SimpleNamespace

import pytest
from rich.console import Console
from rich.live import Live
from rich.table import Table

from longstride.training.display import notebook
from longstride.training.display.notebook import NotebookTable, html_of, live_display


@pytest.fixture
def shown(monkeypatch):
    """Let this process serve a notebook; return what its output shows, the newest last."""
    contents = []

    def display(content, raw, display_id):
        assert raw and display_id
        contents.append(content)
        return SimpleNamespace(update=lambda content, raw: contents.append(content))

    ipython, displays = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    ipython.display, displays.display = displays, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    return contents


def table(number):
    shown = Table(show_header=False)
    shown.add_row("iteration", f"{number}/4", "<updating>")
    shown.add_row("steps", "12")
    return shown


def test_the_table_changes_where_it_stands_a_few_times_a_second(shown, monkeypatch):
    number, clock = [0], [100.0]
    monkeypatch.setattr(notebook.time, "monotonic", lambda: clock[0])
    live = NotebookTable(lambda: table(number[0]))
    live.start()
    for seconds in (0.3, 0.1, 0.1, 0.1):
        number[0], clock[0] = number[0] + 1, clock[0] + seconds
        live.refresh()
    assert [content["text/plain"].split()[1] for content in shown] == ["0/4", "1/4", "4/4"]
    number[0] = 5
    live.stop()
    assert shown[-1]["text/plain"] == "iteration  5/4  <updating>\nsteps  12"
    assert shown[-1]["text/html"].replace(' style="text-align: left"', "") == (
        "<table><tbody><tr><td>iteration</td><td>5/4</td><td>&lt;updating&gt;</td></tr>"
        "<tr><td>steps</td><td>12</td><td></td></tr></tbody></table>"
    )


def test_what_shows_a_run(shown, monkeypatch):
    lines, terminal = Console(file=io.StringIO()), Console(file=io.StringIO(), force_terminal=True)
    assert isinstance(live_display(lines, lambda: table(1)), NotebookTable)
    assert live_display(Console(quiet=True), lambda: table(1)) is None
    monkeypatch.delitem(sys.modules, "IPython")
    assert live_display(lines, lambda: table(1)) is None
    assert isinstance(live_display(terminal, lambda: table(1)), Live)


def test_ipython_on_a_terminal_is_no_notebook(shown, monkeypatch):
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: SimpleNamespace())
    assert live_display(Console(file=io.StringIO()), lambda: table(1)) is None


def test_a_table_with_title_header_and_sentences():
    titled = Table(title="A & B")
    titled.add_column("policy")
    titled.add_row("spt")
    assert html_of(titled, ["1 < 2"]) == (
        '<table><caption>A &amp; B</caption><thead><tr><th style="text-align: left">policy</th></tr></thead>'
        '<tbody><tr><td style="text-align: left">spt</td></tr></tbody></table><p>1 &lt; 2</p>'
    )
