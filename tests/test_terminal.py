"""Lines on terminals: broken between words, and commands that a shell reads as they stand."""

import io
import re
import shlex
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table
from rich.text import Text

from longstride.terminal import make_console, say, say_on

WORDS = st.lists(st.text("abc-.,:;()±µ7", min_size=1, max_size=30), min_size=1, max_size=40)


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["longstride"])


def printed(text, width=80, terminal=True, **how):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=None, **how)
    say(console, text)
    return console.file.getvalue()


@settings(max_examples=25)
@given(WORDS, st.integers(0, 6), st.integers(40, 100))
def test_no_line_is_wider_than_the_terminal_and_no_word_is_broken(words, indent, width):
    text = " " * indent + " ".join(words)
    first, *rest = printed(text, width).splitlines()
    assert " ".join([first, *(line.strip() for line in rest)]) == text
    assert all(len(line) <= width for line in [first, *rest])
    assert all(line.startswith(" " * (indent + 2)) for line in rest), "a line that continues is indented"


def test_what_is_no_terminal_gets_one_line():
    text = "a [bracketed] :smile: sentence " * 10
    assert printed(text, terminal=False) == f"{text}\n"


@settings(max_examples=25)
@example(["'" * 25], 60)
@given(st.lists(st.text("ab c'\"\\$*é-", min_size=1, max_size=25), max_size=8), st.integers(60, 100))
def test_a_command_is_the_same_for_a_shell_however_it_is_broken(values, width):
    words = ["--mode", "train", *(word for value in values for word in ("--run-directory", value))]
    text = f"Stopped after iteration 7 of 30, saved. Resume with: longstride {shlex.join(words)}"
    lines = printed(text, width).splitlines()
    joined = " ".join([*(line.removesuffix(" \\") for line in lines[:-1]), lines[-1]])
    assert shlex.split(joined.partition(" longstride ")[2]) == words
    wide = [line.removesuffix(" \\") for line in lines if len(line) > width]
    assert all(len(shlex.split(line)) <= 2 for line in wide), "a flag and a value that is longer than a line"


def test_a_shell_reads_a_broken_command(tmp_path):
    (tmp_path / "longstride").write_text('#!/bin/sh\nfor word in "$@"; do echo "<$word>"; done\n')
    (tmp_path / "longstride").chmod(0o755)
    words = [
        "--mode",
        "train",
        "--resume",
        "--run-directory",
        "runs/it's a run",
        "--event-log",
        "a b.csv",
        "--seed",
        "3",
    ]
    lines = printed(f"Resume with: longstride {shlex.join(words)}", 50).splitlines()
    assert lines[0] == "Resume with:"
    assert [line.endswith(" \\") for line in lines[1:]] == [*[True] * (len(lines) - 2), False]
    script = f"PATH={shlex.quote(str(tmp_path))}:$PATH\n" + "\n".join(lines[1:])
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"<{word}>" for word in words]


def test_a_command_alone_begins_at_the_first_line():
    first, *_ = printed(f"longstride --mode train {'--seed 1 ' * 20}", 60).splitlines()
    assert first.startswith("  longstride --mode train ")


def test_only_a_command_is_taken_for_one():
    text = "error: --policy does not go with --mode train, and this sentence is far too long for one line of it."
    assert "\\" not in printed(text, 40)


def test_colours_are_there_where_the_terminal_has_them(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system="standard")
    say_on(console)("error: Resume with: longstride --mode train --resume")
    assert console.file.getvalue() == (
        "\x1b[1;31merror:\x1b[0m Resume with: \x1b[36mlongstride --mode train --resume\x1b[0m\n"
    )
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Console(file=io.StringIO(), force_terminal=True, width=80)
    say_on(plain)("error: no.")
    assert "3" not in plain.file.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "")


def test_text_of_users_is_neither_control_nor_markup():
    console = make_console(file=io.StringIO(), force_terminal=True, width=100, color_system="standard")
    name = "\x1b]0;title\x07 \x9b2J [red]x[/red] [/] :smile:"
    table = Table(name, title=name)
    table.add_row(name)
    console.print(table)
    console.print(Text(name, "bold"))
    say(console, f"No column {name}.")
    say(Console(file=console.file), name)
    printed = re.sub(r"\x1b\[[\d;]*m", "", console.file.getvalue())  # colours are ours
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", printed)
    assert printed.count("\\x9b2J [red]x[/red] [/] :smile:") == printed.count("\\x1b]0;title") == 6
