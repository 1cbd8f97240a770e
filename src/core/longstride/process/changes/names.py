"""Names within changes in words: no character of a name parts changes, and no word of it is read as one of ours."""

import re
from collections.abc import Iterable

_QUOTED = re.compile(r"""(?<![^\s;])(["'])(.+?)\1(?![^\s;])""")
_TOKEN = re.compile("\ue000(\\d+)\ue001")
"""Stands for a name; these characters of Unicode have no meaning."""


class MaskedNames:
    """A text in which known names, and all that is quoted, are tokens without blanks or punctuation.

    Args:
        text: changes in words.
        names: known names of people, groups and activities.

    Attributes:
        text: the masked text.
    """

    def __init__(self, text: str, names: Iterable[str]) -> None:
        self._found: list[str] = []
        self.text = text
        longest_first = sorted({name.strip() for name in names} - {""}, key=len, reverse=True)
        if longest_first:
            known = "|".join(map(re.escape, longest_first))
            self.text = re.sub(
                rf"(?<!\w)(?:{known})(?!\w)", lambda found: self._token(found[0]), text, flags=re.IGNORECASE
            )
        self.text = _QUOTED.sub(lambda found: self._token(found[2]), self.text)

    def _token(self, name: str) -> str:
        self._found.append(name)
        return f"\ue000{len(self._found) - 1}\ue001"

    def names_in(self, text: str) -> str:
        """Return a part of the masked text with its names."""
        while _TOKEN.search(text):
            text = _TOKEN.sub(lambda found: self._found[int(found[1])], text)
        return text
