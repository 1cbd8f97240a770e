"""A front as a page for a browser: the picture, the table, and what it shows."""

from collections.abc import Sequence
from typing import Any

from longstride.escaping import plot_text
from longstride.process.front.content import Front, cells
from longstride.process.front.points import Point
from longstride.report.charts import STYLE, cautions, draw
from longstride.report.page import Block, Cell, Code, Figure, Page, Section, Table, plain

_MOST_LABELS = 16
"""Points that have their names in the picture; with more of them only those on the front do."""

_FAR = 3.0
"""Points of which a mean is this many times the largest on the front are left out of the picture."""

_CAPTION = (
    "Lower is better in both. Bars are 95 % intervals of each point alone. The line joins the points on the front. "
    "Whether one point beats another follows from paired differences, which are more exact than the bars."
)
_TABLE = (
    "Mean and 95 % interval over episodes. All points have the same random streams, so differences are paired. "
    "A point is dominated if another one is shown to be better in one metric and no worse in the other. Intervals are "
    "not corrected for multiple comparisons: if no differences existed, one in twenty would still appear."
)


def build_page(title: str, subtitle: str, front: Front, words: Sequence[str], commands: Sequence[str]) -> Page:
    """Return the content of the page of a front."""
    headers, rows = cells(front)
    ahead = {point.name for point in front.on_front} if front.judged else set()
    table = [[Cell(row[0], bold=row[0] in ahead), *plain(*row[1:])] for row in rows]
    blocks: list[Block] = [
        Figure("Points and the front", draw("front", 5.5, lambda figure: _paint(figure, front)), _caption(front)),
        Table("Points", headers, table, _TABLE),
    ]
    sections = [Section("front", "The front", blocks)]
    if commands:
        sections.append(Section("commands", "Commands", [Code("Use what was found", list(commands))]))
    verdict, *rest = words
    return Page(title, subtitle, verdict, "", [], rest, cautions(), sections)


def _drawn(front: Front) -> list[Point]:
    """Return the points with both metrics, without those that are far from the front."""
    most = [_FAR * max((point.mean(metric) or 0.0) for point in front.on_front) for metric in front.metrics]
    means = [(point, [point.mean(metric) for metric in front.metrics]) for point in front.points]
    known = [(p, [mean for mean in of if mean is not None]) for p, of in means if None not in of]
    return [p for p, of in known if all(mean <= far or far <= 0.0 for mean, far in zip(of, most, strict=True))]


def _caption(front: Front) -> str:
    drawn = {point.name for point in _drawn(front)}
    rest = [name for name in front.standings if name not in drawn]
    return f"{_CAPTION} Too far away for the picture: {', '.join(rest)}." if rest else _CAPTION


def _paint(figure: Any, front: Front) -> None:
    axes, (x, y) = figure.add_subplot(), front.metrics
    points = sorted(_drawn(front), key=lambda point: point.mean(x) or 0.0)
    kinds = list(dict.fromkeys(point.kind for point in front.points))
    few, above = len(points) <= _MOST_LABELS, {point.name: i % 2 for i, point in enumerate(points)}
    ahead = front.on_front
    for kind, colour in zip(kinds, _colours(), strict=False):
        of = [(p, a, b) for p in points if p.kind == kind for a, b in [_both(front, p)] if a and b]
        if not of:
            continue
        bars = {
            "xerr": [(a[2] - a[1]) / 2 for _, a, _ in of],
            "yerr": [(b[2] - b[1]) / 2 for _, _, b in of],
        }
        values = [a[0] for _, a, _ in of], [b[0] for _, _, b in of]
        axes.errorbar(*values, **bars, fmt="o", color=colour, markersize=5, elinewidth=1, label=plot_text(kind))
        for point, a, b in of:
            if few or point in ahead:
                place = {
                    "textcoords": "offset points",
                    "xytext": (5, 5 if above[point.name] else -12),
                    "fontsize": "small",
                    "color": STYLE.ink,
                }
                axes.annotate(plot_text(point.name), (a[0], b[0]), **place)
    line = [(a[0], b[0]) for point in ahead for a, b in [_both(front, point)] if a and b]
    if len(line) > 1:
        axes.step(*zip(*line, strict=True), where="post", color=STYLE.muted, linewidth=1, linestyle="--")
    axes.set_xlabel(plot_text(front.scale(x).header(x)))
    axes.set_ylabel(plot_text(front.scale(y).header(y)))
    axes.grid(color=STYLE.grid, linewidth=0.6)
    axes.legend(fontsize="small", frameon=False)


def _colours() -> Sequence[str]:
    return STYLE.series


def _both(front: Front, point: Point) -> tuple[Any, Any]:
    x, y = front.metrics
    return front.interval(point, x), front.interval(point, y)
