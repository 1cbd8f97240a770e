"""Pictures as SVG that follow the colours of the page, light or dark, by matplotlib where it is installed."""

import io
import re
from collections.abc import Callable
from typing import Any

from longstride.errors import one_line
from longstride.escaping import html_text
from longstride.training.run_directory.plots import Style
from longstride.training.run_directory.save_figure import save_figure

_SERIES = tuple(f"#0000{i:02x}" for i in range(0xA0, 0xAA))
_INK, _MUTED, _GRID = "#0000b0", "#0000b1", "#0000b2"

STYLE = Style(_INK, _MUTED, _GRID, _SERIES)
"""Colours that stand for those of the page; :func:`draw` puts the page's own in their place."""

_VARIABLES = {**{name: f"var(--s{i})" for i, name in enumerate(_SERIES)}, _INK: "var(--ink)"} | {
    _MUTED: "var(--muted)",
    _GRID: "var(--grid)",
}


def have_matplotlib() -> bool:
    """Return whether pictures can be drawn."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True


def cautions() -> list[str]:
    """Return what a reader of a page has to know of its pictures."""
    return (
        []
        if have_matplotlib()
        else ["There are no charts, because matplotlib is not installed: pip install matplotlib."]
    )


def draw(name: str, height: float, paint: Callable[[Any], None], width: float = 10.0) -> str:
    """Return a picture as an ``<svg>`` element; empty without matplotlib, and a sentence where drawing it fails.

    Args:
        name: name of the picture, different for each on a page.
        height: height, in inches of 72 points.
        paint: function that draws on a ``matplotlib.figure.Figure`` with the colours of ``STYLE``.
        width: width, in the same inches.
    """
    if not have_matplotlib():
        return ""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    colours = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color")
    settings: Any = {**dict.fromkeys(colours, _INK), "axes.edgecolor": _MUTED, "axes.facecolor": "none"}
    fonts: Any = {"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10, "svg.hashsalt": name}
    with rc_context(
        {**settings, **fonts, "figure.facecolor": "none", "axes.spines.top": False, "axes.spines.right": False}
    ):
        try:
            figure = Figure(figsize=(width, height), layout="constrained")
            paint(figure)
            return as_svg(figure, name)
        except Exception as error:  # which must not cost the rest of the page
            reason = html_text(f"{type(error).__name__}: {one_line(error)}")
            return f'<p class="missing">This picture could not be drawn: {reason}.</p>'


def whole_iterations(axes: Any, fontsize: str = "medium") -> None:
    """Give an axis of iterations its label, and ticks at whole numbers only."""
    axes.set_xlabel("iteration", fontsize=fontsize)
    axes.xaxis.get_major_locator().set_params(integer=True)


def as_svg(figure: Any, name: str) -> str:
    """Return a figure of matplotlib as an ``<svg>`` element for a page."""
    from matplotlib import rc_context

    text = io.StringIO()
    with rc_context({"svg.hashsalt": name}):
        save_figure(figure, text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    return re.sub(r"<[^>]*>", lambda tag: _tag_for_page(tag[0], name), svg)  # text between tags stays as it is


def _tag_for_page(tag: str, name: str) -> str:
    """Return a tag of a picture with ids of its own, the page's colours and the page's fonts."""
    tag = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', tag)
    tag = re.sub(r'(href="#|url\(#)([^")]+)', rf"\g<1>{name}-\2", tag)
    tag = re.sub(r' xmlns(:xlink)?="[^"]*"', "", tag).replace("xlink:href", "href")
    tag = re.sub("|".join(_VARIABLES), lambda found: _VARIABLES[found.group()], tag)
    return re.sub(r"font: ([\d.]+)px [^;\"]*", r"font: \1px system-ui, 'DejaVu Sans', sans-serif", tag)
