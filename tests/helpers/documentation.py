"""The pages of the documentation, and what can be read off them."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def page(name):
    """Return the text of a page, by its path in docs."""
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(text, info):
    """Return the code blocks with an info string such as ``python`` or ``text title="Output of a run"``."""
    return re.findall(rf"^```{re.escape(info)}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(text):
    """Return the words of each command of the shell blocks, without environment variables in front."""
    lines = [line for block in blocks(text, "sh") for line in block.replace("\\\n", "").splitlines()]
    found = [shlex.split(line, comments=True) for line in lines]
    return [words[1:] if re.fullmatch(r"[A-Z_]+=\S+", words[0]) else words for words in found if words]


def section(text, heading):
    """Return the text below a heading of the second level, up to the next one."""
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def rows(text):
    """Return the cells of each row of the tables of a text, without their heads."""
    lines = [line for line in re.split(r"\n", text) if line.startswith("|")]
    heads = {i - 1 for i, line in enumerate(lines) if re.fullmatch(r"[|-]+", line)}
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for i, line in enumerate(lines)
        if i not in heads and not re.fullmatch(r"[|-]+", line)
    ]


def names(cells):
    """Return what stands between backticks."""
    return re.findall(r"`([^`]*)`", " ".join(cells))


def assert_printed(quoted, lines, any_number=False):
    """Check that each quoted line is one of the lines, in their order.

    Args:
        quoted: text of the documentation; ``...`` stands for anything.
        lines: lines that were printed.
        any_number: whether a number stands for any number.
    """
    rest = iter(lines)
    for line in quoted.splitlines():
        parts = [re.escape(part) for part in line.split("...")]
        if any_number:
            parts = [re.sub(r"\d[\d,.]*\d|\d", r"[\\d,.]+", part) for part in parts]
        pattern = re.compile(".*".join(parts))
        assert any(pattern.fullmatch(each.rstrip()) for each in rest), f"{line!r} is not printed (there)"
