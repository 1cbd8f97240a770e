"""Lines for people: wrapped at words on a terminal, with commands that can be copied; elsewhere as they are."""

import os
import re
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from longstride.errors import this_command
from longstride.escaping import terminal_text
from longstride.text import Say

_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")
"""A word of a command for a shell, which may be quoted."""

_STYLES = {"error:": "bold red", "Hint:": "yellow", "Better than": "green", "Worse than": "red"}
"""Beginnings of lines that have a colour, where the terminal has any."""

_COMMAND = "cyan"
"""Colour of commands."""


class EscapedText(NamedTuple):
    """Something that Rich shows, with the control characters in its text as escapes; Rich's own ones stay."""

    content: Any  # what is shown: a str, a Text, a Table, ...

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        """Yield the segments of the content."""
        for segment in console.render(self.content, options):
            yield segment if segment.control else segment._replace(text=terminal_text(segment.text))


class _Escape(RenderHook):
    """Escapes all that a console prints."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [EscapedText(renderable) for renderable in renderables]


def make_console(**options: Any) -> Console:
    """Return a console on which text of users stays text: no control characters, no markup, no emoji codes.

    ``options`` are those of :class:`rich.console.Console`.
    """
    console = Console(markup=False, emoji=False, **options)
    console.push_render_hook(_Escape())
    return console


def say_on(console: Console) -> Say:
    """Return a function that prints a line of text on a console."""
    return partial(say, console)


def say(console: Console, text: str) -> None:
    """Print a line of text.

    A terminal gets several, each as wide as it is at most; a command that does not fit continues after backslashes, so
    that it works as it stands there.
    """
    width = console.width if console.is_terminal else None
    for line in _lines(terminal_text(text), width):
        console.print(line, soft_wrap=True)


def say_error(error: object) -> None:
    """Print the sentence of an error on the standard error output."""
    say(make_console(stderr=True), f"error: {error}")


def _lines(text: str, width: int | None) -> list[Text]:
    """Return text as lines of at most ``width`` letters (None: as it is), broken at words and between arguments."""
    sentence, command = _split(text)
    if width is None or (len(text) <= width and "\n" not in text):
        line = Text(text)
        line.stylize(_COMMAND, len(text) - len(command))
        return [_begun(line)]
    parts = sentence.split("\n") if sentence else []
    lines = [Text(line) for part in parts for line in _wrapped_words(part, width)]
    lines += [Text(line, _COMMAND) for line in _wrapped_command(command, width)]
    return [_begun(lines[0]), *lines[1:]]


def _split(text: str) -> tuple[str, str]:
    """Return a sentence and the command of this program at its end; an empty command where there is none."""
    program = re.escape(this_command())
    match = re.fullmatch(rf"(.*?) ?((?:[A-Z_]+=\S+ )?{program} --mode .*)", text, re.DOTALL)
    return (match[1], match[2]) if match else (text, "")


def _wrapped_words(text: str, width: int) -> list[str]:
    indent = " " * (len(text) - len(text.lstrip(" ")) + 2)
    wrapper = textwrap.TextWrapper(
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        expand_tabs=False,
    )
    return wrapper.wrap(text) or [""]


def _wrapped_command(command: str, width: int) -> list[str]:
    """Return a command as lines that a shell joins; a flag and its value stay together."""
    parts: list[str] = []
    for word in _WORD.findall(command):
        if parts and not word.startswith("-") and parts[-1].startswith("--") and " " not in parts[-1]:
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    lines, line = [], " "
    for part in parts:
        if line.strip() and len(line) + len(part) + 3 > width:  # a space before, and a space and a backslash after
            lines.append(f"{line} \\")
            line = "   "
        line += f" {part}"
    return [*lines, line] if parts else []


def _begun(line: Text) -> Text:
    """Colour the beginning of a line that says how it is meant."""
    for beginning, style in _STYLES.items():
        if line.plain.startswith(beginning):
            line.stylize(style, 0, len(beginning))
    return line


def console_of_output() -> Console:
    """Return the console of standard output: as wide as a terminal, else as ``COLUMNS`` or 200 characters."""
    columns = os.environ.get("COLUMNS", "")
    return make_console(
        width=None if sys.stdout.isatty() else int(columns) if columns.isdecimal() and int(columns) else 200
    )


def print_table(
    title: str,
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    console: Console,
    texts: Collection[int] = (0,),
) -> None:
    """Print a table of numbers, but for the columns with these places, which are texts; all are shown as they are."""
    table = Table(title=title)
    for i, header in enumerate(headers):
        table.add_column(Text(header), justify="left" if i in texts else "right")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
