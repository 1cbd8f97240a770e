"""Text in each language, over all of Unicode: what reads the language gets the text back, and nothing else happens."""

import csv
import html
import io
import json
import os
import re
import shutil
import sqlite3
import string
import subprocess

import html5lib
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from longstride.errors import this_command
from longstride.escaping import (
    c_string,
    csv_cell,
    html_text,
    json_line,
    json_text,
    markdown_text,
    mlflow_name,
    plot_text,
    shell_command,
    shell_word,
    sql_identifier,
    terminal_text,
)

EVERY_CHARACTER = [chr(code) for code in range(0x110000)]
TEXT = st.text(st.characters(exclude_categories=())) | st.text("\\*/?'\"`$<>&|[](){}\x1b\x9b\n\r\t_-=+@#!;% ab1")
HARMFUL = [
    "x*\\ ; CODE; \\*",
    "..*\\ ..",
    "??/",
    '"; system("x"); "',
    "<script>alert(1)</script>",
    "{{7*7}}",
    "\x1b]0;title\x07",
    "\x9b2J",
    "=1+1",
    "@SUM(1)",
    "pay $100 to $200",
    "$(touch x)",
    "`touch x`",
    "a | b",
    "[x](javascript:1)",
    "1. x",
    "\u202eabc",
    "[/red]",
    ":smile:",
]
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def shown(text):
    """The text with its control characters written as people read them: what may be seen of it."""
    return CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", text)


@pytest.mark.parametrize("escape", [terminal_text, html_text, markdown_text, csv_cell, plot_text, c_string, json_text])
def test_no_control_character_of_unicode_is_left(escape):
    escaped = "".join(escape("".join(EVERY_CHARACTER[i : i + 97])) for i in range(0, len(EVERY_CHARACTER), 97))
    assert not CONTROL.findall(escaped)
    escaped.encode()  # no surrogate


@given(TEXT)
def test_terminals_show_ordinary_text_as_it_is(text):
    assert terminal_text(text) == shown(text)


@given(TEXT)
def test_a_literal_of_c_is_of_the_white_list_and_means_the_bytes(text):
    literal = c_string(text)
    assert re.fullmatch(r'"([A-Za-z0-9 _\-.,:;()\[\]+=/<>!#&]|\\[0-7]{3})*"', literal)
    content = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), literal[1:-1]).encode("latin-1")
    assert content == text.encode("utf-8", "backslashreplace")


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_a_compiler_reads_every_character_back(tmp_path):
    texts = ["".join(EVERY_CHARACTER[i : i + 500]) for i in range(0, len(EVERY_CHARACTER), 500)] + HARMFUL
    rows = "\n".join(f"puts({c_string(text.replace(chr(0), '') or ' ')});" for text in texts)
    source = tmp_path / "main.c"
    source.write_text(f"#include <stdio.h>\nint main(void) {{\n{rows}\nreturn 0; }}\n", encoding="ascii")
    strict = [
        "cc",
        "-std=c99",
        "-trigraphs",
        "-Wno-overlength-strings",
        "-O0",
        str(source),
        "-o",
        str(tmp_path / "main"),
    ]
    subprocess.run(strict, check=True)
    printed = subprocess.run([tmp_path / "main"], capture_output=True, check=True).stdout
    expected = [(text.replace("\0", "") or " ").encode("utf-8", "backslashreplace") for text in texts]
    assert printed == b"".join(text + b"\n" for text in expected)


@given(TEXT)
def test_html_has_no_element_and_no_attribute_but_ours(text):
    page = html5lib.parseFragment(f'<p title="{html_text(text)}">{html_text(text)}</p>', namespaceHTMLElements=False)
    assert [child.tag for child in page.iter()] == ["DOCUMENT_FRAGMENT", "p"]
    assert list(page[0].attrib) == ["title"]
    assert html.unescape(html_text(text)) == page[0].attrib["title"] == (page[0].text or "")


@example("\\>")
@example("> no quotation")
@given(TEXT)
def test_markdown_renders_as_the_text_alone(text):
    words = " ".join(markdown_text(text).split())
    for document, start, end in ((words, "<p>", "</p>"), (f"* {words}", "<ul>\n<li>", "</li>\n</ul>")):
        rendered = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(document).strip()
        if " ".join(text.split()):
            assert rendered.startswith(start) and rendered.endswith(end), rendered
            content = rendered.removeprefix(start).removesuffix(end)
            assert "<" not in content
            assert html.unescape(content) == html.unescape(html.escape(_visible_of(text)))


def _visible_of(text):
    return terminal_text(" ".join(text.split()))


@given(TEXT)
def test_a_markdown_table_keeps_its_columns(text):
    table = f"| a | b |\n|---|---|\n| {markdown_text(text)} | 2 |"
    rendered = MarkdownIt("commonmark").enable("table").render(table)
    assert rendered.count("<td>") == 2 and rendered.count("<tr>") == 2


@given(TEXT)
def test_a_cell_of_csv_is_no_formula_and_is_read_back(text):
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerow([csv_cell(text), "next"])
    cell, after = next(csv.reader(io.StringIO(file.getvalue(), newline="")))
    assert after == "next"
    assert cell.removeprefix("'") in (csv_cell(text), csv_cell(text).removeprefix("'"))
    beginning = cell.lstrip()[:1]
    assert beginning not in {*"=@|%"}
    assert beginning not in {*"+-"} or re.fullmatch(r"\s*[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", cell)


@pytest.mark.parametrize("number", ["-1", "+2.5", "1e9", "-3.5E-7"])
def test_numbers_stay_numbers(number):
    assert csv_cell(number) == number


@given(st.recursive(TEXT | st.integers() | st.none(), lambda of: st.lists(of) | st.dictionaries(TEXT, of)))
def test_json_is_read_back_and_cannot_leave_a_script(value):
    text = json_text(value)
    assert json.loads(text) == value
    assert text.isascii() and not {"<", ">", "&"} & set(text)


def test_json_has_null_for_what_it_cannot_hold_and_numbers_of_numpy_as_numbers():
    value = {"a": [float("inf"), np.float32("nan"), (np.float64("-inf"), 1)], "b": np.arange(2), "c": np.bool_(True)}
    for text in (json_text(value, indent=1), json_line(value)):
        assert json.loads(text) == {"a": [None, None, [None, 1]], "b": [0, 1], "c": True}
    with pytest.raises(TypeError, match="set is not JSON serializable"):
        json_line({"a": {1}})


@given(TEXT)
def test_a_quoted_name_is_that_name_in_a_database(text):
    if "\0" in text:
        with pytest.raises(ValueError, match="zero byte"):
            sql_identifier(text)
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        return  # no database of UTF-8 has such a name
    base = sqlite3.connect(":memory:")
    base.execute(f"CREATE TABLE t ({sql_identifier('a' + text)} TEXT)")
    assert base.execute("SELECT * FROM t").description[0][0] == f"a{text}"


def test_mlflow_takes_every_name_and_usual_ones_stay():
    """The oracle is MLflow's own check of names."""
    validation = pytest.importorskip("mlflow.utils.validation")
    names = ["".join(EVERY_CHARACTER[i : i + 100]) for i in range(0, 0x11000, 100)]
    for name in [*HARMFUL, *names, "arrivals [/h]", "/x", "a//b", "a/../b", "..", "a/.", "", "x" * 300, "y/" * 200]:
        validation._validate_metric_name(mlflow_name(name))
        validation._validate_tag_name(mlflow_name(name))
        assert len(mlflow_name(name)) <= 250
    assert [mlflow_name(name) for name in ("metrics/cash", "Umsätze 1.5-2")] == ["metrics/cash", "Umsätze 1.5-2"]
    assert mlflow_name("arrivals [/h]") == "arrivals _/h_"


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_a_shell_gets_the_same_words():
    characters = [
        c for c in EVERY_CHARACTER[1:0x3000] + EVERY_CHARACTER[0xDC80:0xDD00] + EVERY_CHARACTER[0xFF00:0x11000]
    ]
    words = [c for c in characters if not "\ud800" <= c < "\udc80" and not "\udcff" < c <= "\udfff"]
    words += [*HARMFUL, "", "it's", "a\\", "$'x'"]
    for i in range(0, len(words), 2000):
        part = words[i : i + 2000]
        command = shell_command(["printf", r"%s\0", *part])
        assert command.isprintable() or not re.search("[\x00-\x1f\x7f-\x9f]", command)
        printed = subprocess.run(["bash"], input=os.fsencode(command), capture_output=True, check=True).stdout
        assert printed == b"".join(os.fsencode(word) + b"\0" for word in part)


@given(TEXT.filter(lambda text: "\0" not in text))
def test_a_word_for_a_shell_moves_no_cursor(text):
    try:
        word = shell_word(text)
    except UnicodeEncodeError:
        return  # no file has such a name
    assert not re.search("[\x00-\x1f\x7f-\x9f]", word)


def test_printed_commands_are_of_ordinary_characters():
    assert set(this_command()) <= set(string.printable)


@pytest.mark.parametrize("text", [*HARMFUL, "_hidden", "a\\$b", "$x$", r"a$\frac$b"])
def test_matplotlib_draws_the_text_itself(text):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], label=plot_text(text))
    axes.set_title(plot_text(text))
    legend = axes.legend()
    file = io.StringIO()
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(file, format="svg")
    assert len(legend.get_texts()) == 1
    drawn = [html.unescape(found) for found in re.findall(r"<text[^>]*>([^<]*)</text>", file.getvalue())]
    assert sum(found.strip() == _visible_of(text).strip() for found in drawn) == 2, drawn
