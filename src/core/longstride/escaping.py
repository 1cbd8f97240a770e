r"""Text of users in each language that it is written into: one function for each language, which keeps it text.

Names of activities, people, columns, simulators and files come from logs, scenarios and folders of whoever made them.
Control characters are written as escapes such as ``\x1b`` everywhere, since terminals and XML give them a meaning.
"""

import html
import json
import math
import os
import re
import shlex
import string
from collections.abc import Iterable, Mapping
from typing import Any

_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0 and C1: ESC, CSI, OSC, bell, carriage return, ...
    "\u2028\u2029"  # separators of lines and paragraphs
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # order of writing: text would read differently from what it is
    "\ud800-\udfff\ufffe\uffff]"  # no characters: not to be encoded, not allowed in XML
)

_C_LITERAL = frozenset((string.ascii_letters + string.digits + " _-.,:;()[]+=/<>!#&").encode())
"""Bytes that stand in a string literal of C as they are; no quote, backslash, or ``?`` of a trigraph is among them."""

_MARKDOWN = re.compile(
    r"[\\`*_{}\[\]|~$@^]"  # code, emphasis, links, tables, formulas, mentions
    r"|^[#+=-]"  # headings, lists; a quotation's > becomes an entity, which begins none
    r"|(?<=\d)[.)](?=\s|$)"  # numbered lists
    r"|:(?=//)|(?<=www)\.",  # addresses that become links
    re.IGNORECASE,
)
"""Punctuation to which Markdown, or an extension of it, gives a meaning; HTML has ``<``, ``>``, ``&`` and quotes."""

_FORMULAS = tuple("=+-@\t\r\n|%＝＋－＠")  # noqa: RUF001, the wide forms count in spreadsheets too
"""Beginnings of cells that a spreadsheet may compute (OWASP, CSV injection)."""


_LONGEST_IN_MLFLOW = 250
"""Letters of a name in all versions of MLflow."""


def _visible(text: str, kept: str = "") -> str:
    """Return text with control characters as escapes, except those in ``kept``."""
    return _CONTROLS.sub(lambda match: match[0] if match[0] in kept else _escape_of(match[0]), text)


def _escape_of(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def terminal_text(text: str) -> str:
    """Return text that moves no cursor and sets no title: only line breaks and tabs stay control characters."""
    return _visible(text, "\n\t")


def html_text(text: str) -> str:
    """Return text for an element or a quoted attribute of HTML or SVG."""
    return html.escape(_visible(text, "\n\t"))


def markdown_text(text: str) -> str:
    """Return text for a paragraph or a table's cell of Markdown, on one line; CommonMark 0.31, section 2.4."""
    shown = _MARKDOWN.sub(r"\\\g<0>", _visible(" ".join(text.split())))
    return html.escape(shown, quote=False)


def csv_cell(text: str) -> str:
    """Return text for a cell of CSV that no spreadsheet takes for a formula; numbers stay as they are.

    The writer of the file quotes commas and quotes.
    """
    shown = _visible(text, "\n\t")
    return f"'{shown}" if shown.lstrip().startswith(_FORMULAS) and not _is_number(shown) else shown


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", text, re.ASCII) is not None


def json_text(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON of ASCII characters, which can also stand in a ``<script>`` of HTML.

    Numbers that JSON does not have, NaN and infinite ones, become null.

    Raises:
        TypeError: JSON has no such value.
    """
    text = json_line(value, indent)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def json_line(value: Any, indent: int | None = None) -> str:
    """Return a value as :func:`json_text` does, on one line without an indent, with ``<``, ``>`` and ``&`` as they are.

    Raises:
        TypeError: JSON has no such value.
    """
    try:
        return json.dumps(value, indent=indent, allow_nan=False, default=_plain)
    except ValueError:
        return json.dumps(_finite(value), indent=indent, allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    """Return a number or an array of NumPy as one of Python."""
    if not hasattr(value, "tolist"):
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
    return value.tolist()


def _finite(value: Any) -> Any:
    """Return JSON values with None for each number that is NaN or infinite."""
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if hasattr(value, "tolist") and not isinstance(value, float):
        return _finite(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plot_text(text: str) -> str:
    r"""Return text for a label of matplotlib: no formula between dollar signs, no line break, in legends too.

    matplotlib shows ``\$`` as a dollar sign, and leaves labels out of legends that begin with an underscore.
    """
    shown = _visible(text).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def c_string(text: str) -> str:
    """Return a string literal of C: the UTF-8 bytes of text, those outside of a white list as octal escapes."""
    return f'"{"".join(map(_c_byte, text.encode("utf-8", "backslashreplace")))}"'


def _c_byte(byte: int) -> str:
    return chr(byte) if byte in _C_LITERAL else f"\\{byte:03o}"


def sql_identifier(name: str) -> str:
    """Return the quoted name of a table or column (SQL-92, delimited identifier).

    Raises:
        ValueError: the name holds a zero byte, which no database takes.
    """
    if "\x00" in name:
        raise ValueError("a name in a database holds a zero byte")
    return '"' + name.replace('"', '""') + '"'


def mlflow_name(name: str) -> str:
    """Return a name of a metric or tag that MLflow takes: other characters become underscores, slashes stay groups."""
    parts = [re.sub(r"[^\w .-]", "_", part) for part in name.split("/")]
    taken = "/".join(re.sub(r"^(\.\.|\.?$)", "_", part) for part in parts)
    return taken if len(taken) <= _LONGEST_IN_MLFLOW else taken[:_LONGEST_IN_MLFLOW].rstrip("/.")


def shell_word(text: str) -> str:
    """Return text as one word of a shell; with control characters in the form ``$'...'`` of bash, zsh and POSIX 2024.

    Bytes of a file's name that are not UTF-8 are kept (``os.fsencode``).
    """
    if not _CONTROLS.search(text):
        return shlex.quote(text)
    return "$'" + "".join(map(_shell_byte, os.fsencode(text))) + "'"


def _shell_byte(byte: int) -> str:
    return chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\{byte:03o}"


def shell_command(words: Iterable[str]) -> str:
    """Return words as the command of a shell."""
    return " ".join(map(shell_word, words))
