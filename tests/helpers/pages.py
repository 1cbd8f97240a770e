"""A page of HTML as a tree whose parts tests look at."""

from itertools import pairwise
from pathlib import Path

import html5lib


class ReportPage:
    """A report, parsed strictly: a mistake in its HTML is an error."""

    def __init__(self, path: Path) -> None:
        self.source = path.read_text(encoding="utf-8")
        parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
        self.root = parser.parse(self.source)

    def text(self, path: str) -> list[str]:
        """Return the text of each element of a path, in one line."""
        return [_text(element) for element in self.root.findall(f".//{path}")]

    def section(self, anchor: str) -> str:
        """Return the text of a section; empty if there is none."""
        return " ".join(_text(found) for found in self.root.findall(f".//section[@id='{anchor}']"))

    def table(self, title: str) -> list[list[str]]:
        """Return the cells of the table below a heading, its headers first."""
        for section in self.root.findall(".//section"):
            headings = [child for child in section if child.tag in ("h3", "div")]
            for heading, after in pairwise(headings):
                if heading.tag == "h3" and _text(heading) == title:
                    return [[_text(cell) for cell in row] for row in after.findall(".//tr")]
        raise AssertionError(f"no table {title}")

    @property
    def pictures(self) -> int:
        """Number of pictures."""
        return len(self.root.findall(".//figure//{*}svg"))


def _text(element) -> str:
    return " ".join("".join(element.itertext()).split())
