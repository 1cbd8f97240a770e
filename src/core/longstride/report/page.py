"""Content of a page, and the page as one HTML file without anything from the network."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from longstride.escaping import html_text
from longstride.training.run_directory.files import write_or_refuse
from longstride.version import __version__


@dataclass(frozen=True)
class Figure:
    """A picture with what it shows."""

    title: str  # what the picture shows
    svg: str  # an ``<svg>`` element; empty where the picture cannot be drawn
    caption: str = ""  # how to read it
    kind: str = "figure"  # block of the template


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str  # what is read
    heat: float | None = None  # 0 .. 1, strength of the background; None for none
    note: str = ""  # smaller, below the text
    bold: bool = False  # whether the text is bold
    tone: str = ""  # "better" or "worse", which has a colour


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row is its name."""

    title: str  # what the table shows
    headers: list[str]  # one for each column
    rows: list[list[Cell]]  # as many cells in each as there are headers
    caption: str = ""  # how to read it
    numeric: bool = True  # whether all columns but the first are numbers
    kind: str = "table"  # block of the template


@dataclass(frozen=True)
class Text:
    """Sentences below each other."""

    sentences: list[str]  # of the text
    tone: str = ""  # "missing" for what the run directory does not hold, "warning" for what went wrong
    kind: str = "text"  # block of the template


@dataclass(frozen=True)
class Code:
    """Lines to copy."""

    title: str  # what they are for
    lines: list[str]  # of the shell
    kind: str = "code"  # block of the template


Block = Figure | Table | Text | Code


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    anchor: str  # its address in the page
    title: str  # its heading
    blocks: list[Block]  # its content


@dataclass(frozen=True)
class Tile:
    """A number at the top of the page."""

    label: str  # what it is
    value: str  # the number with its unit
    note: str = ""  # what it is compared with


@dataclass(frozen=True)
class Page:
    """Everything that stands on a page."""

    title: str  # of the page
    subtitle: str  # what was trained on what
    verdict: str  # the first sentence
    tone: str  # "better", "worse" or ""
    tiles: list[Tile]  # the numbers at the top
    words: list[str]  # sentences in plain words
    warnings: list[str] = field(default_factory=list)  # sentences that come before everything else
    sections: list[Section] = field(default_factory=list)  # the rest


def render(page: Page) -> str:
    """Return a page as HTML."""
    environment = jinja2.Environment(autoescape=True, finalize=_escaped, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("longstride.report").joinpath("page.html.j2").read_text(encoding="utf-8"))
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return template.render(page=page, version=__version__, written=written)


def _escaped(value: Any) -> Any:
    """Return text of users as HTML; HTML, which the template marks, stays."""
    return value if isinstance(value, Markup) else Markup(html_text(value)) if isinstance(value, str) else value


def write_page(page: Page, path: Path) -> Path:
    """Write a page and return its path.

    Raises:
        UserError: it cannot be written.
    """
    write_or_refuse(path, render(page).encode())
    return path


def plain(*texts: Any) -> list[Cell]:
    """Return cells without anything but text."""
    return [text if isinstance(text, Cell) else Cell(str(text)) for text in texts]
