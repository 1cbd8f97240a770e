"""Saving figures of matplotlib, whatever the letters in them."""

import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any

_MOST_FONTS = 500
"""Fonts of the machine that are searched for letters."""

_NO_LETTERS = ("Last Resort", "STIXNonUnicode", "STIXSize", "cm")
"""Beginnings of the names of matplotlib's own fonts that draw boxes or pieces of formulas at places of letters."""


def save_figure(figure: Any, target: Any, **options: Any) -> None:
    """Save a figure as ``figure.savefig`` does; letters that its font lacks come from another font of the machine.

    Letters that no font has are empty boxes, and Python prints no warning about them.
    """
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if more := _fonts_for(frozenset(text.get_text()), tuple(text.get_fontfamily())):
            text.set_fontfamily([*text.get_fontfamily(), *more])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        figure.savefig(target, **options)


@cache
def _fonts_for(letters: frozenset[str], families: tuple[str, ...]) -> list[str]:
    """Return the names of fonts that have letters which the first font of some families lacks."""
    from matplotlib import font_manager

    usual = font_manager.get_font(font_manager.findfont(font_manager.FontProperties(family=list(families))))
    missing = {letter for letter in letters if letter.isprintable() and not usual.get_char_index(ord(letter))}
    found = []
    for name, font in _fonts() if missing else ():
        if has := {letter for letter in missing if font.get_char_index(ord(letter))}:
            found.append(name)
            missing -= has
        if not missing:
            break
    return found


def _fonts() -> Iterable[tuple[str, Any]]:
    """Yield the name of each usual font of the machine, and the font; those of bitmaps cannot be drawn."""
    from matplotlib import font_manager

    for entry in font_manager.fontManager.ttflist[:_MOST_FONTS]:
        if entry.style != "normal" or entry.name.startswith(_NO_LETTERS):
            continue
        try:
            font = font_manager.get_font(entry.fname)
        except (OSError, RuntimeError):  # the file is gone, or is damaged
            continue
        if font.scalable:
            yield entry.name, font
