"""A front as a table, as JSON values and as sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from longstride.process.fidelity.base import NOT_JUDGED
from longstride.process.front.points import Point, Standing, difference, standings
from longstride.process.simulator import ProcessSimulator
from longstride.text import Scale, format_half, format_number, in_words, scale_of
from longstride.training.evaluation.evaluate import summarise

OPEN, _MORE = "cases_open", 2.0
"""Cases that are open at the end, and how many times as many as those of the reference are reported."""

_PLACES = {"front": "on the front", "behind": "behind {}, not shown", "dominated": "dominated by {}"}


@dataclass(frozen=True)
class Front:
    """Points and the metrics by which they are compared."""

    points: Sequence[Point]
    metrics: tuple[str, str]
    simulator: ProcessSimulator  # a simulator with these metrics, for their units
    reference: str  # name of the point with which the others are compared
    episodes: int
    judged: bool = True  # whether the simulation repeats its log, so that comparisons tell something

    @cached_property
    def standings(self) -> dict[str, Standing]:
        """The place of each point that has both metrics."""
        return standings(self.points, self.metrics)

    @property
    def first(self) -> Point:
        """The point with which the others are compared."""
        return next(point for point in self.points if point.name == self.reference)

    @property
    def on_front(self) -> list[Point]:
        """Points on the front, by the first metric."""
        names = {name for name, standing in self.standings.items() if standing.place == "front"}
        return sorted((p for p in self.points if p.name in names), key=lambda p: p.mean(self.metrics[0]) or 0.0)

    def scale(self, metric: str) -> Scale:
        """Return the scale in which a metric is shown."""
        known = sorted(abs(mean) for point in self.points if (mean := point.mean(metric)) is not None)
        return scale_of(self.simulator.unit_of(metric), known[len(known) // 2] if known else 0.0)

    def place(self, point: Point) -> str:
        """Return the place of a point in words."""
        if not self.judged:
            return "-"
        standing = self.standings.get(point.name)
        return "without these metrics" if standing is None else _PLACES[standing.place].format(standing.behind)

    def interval(self, point: Point, metric: str) -> tuple[float, float, float] | None:
        """Return mean, lower and upper end of the 95 % interval of a metric, in its scale."""
        mean, factor = summarise(point.records).get(metric), self.scale(metric).factor
        return None if mean is None else (mean["mean"] * factor, mean["low"] * factor, mean["high"] * factor)


def cells(front: Front) -> tuple[list[str], list[list[str]]]:
    """Return the headers and a row for each point: both metrics, its place, and both differences to the reference."""
    headers = ["policy", *(front.scale(metric).header(metric) for metric in front.metrics), "place"]
    headers += [f"{in_words(metric)} against {front.reference}" for metric in front.metrics]
    rows = []
    for point in front.points:
        shown = [_with_interval(front.interval(point, metric)) for metric in front.metrics]
        rows.append([point.name, *shown, front.place(point), *(_against(front, point, m) for m in front.metrics)])
    return headers, rows


def _with_interval(interval: tuple[float, float, float] | None) -> str:
    if interval is None:
        return "-"
    mean, low, high = interval
    return f"{format_number(mean)} ± {format_half((high - low) / 2, mean)}"


def _against(front: Front, point: Point, metric: str) -> str:
    """Return the paired difference to the reference with half its 95 % interval, in per cent where that says much."""
    reference = front.first
    found = difference(point, reference, metric) if point is not reference else None
    if found is None or found.low is None or found.high is None or not front.judged:
        return "-"
    mean, scale = reference.mean(metric) or 0.0, front.scale(metric)
    factor, unit = (100.0 / mean, " %") if mean > 0.0 and scale.unit != "%" else (scale.factor, scale.suffix)
    value, half = found.value * factor, (found.high - found.low) / 2 * factor
    return f"{'+' * (value >= 0.0)}{format_number(value, 3)} ± {format_half(half, value)}{unit}"


def sentences(front: Front) -> list[str]:
    """Return what the front shows."""
    if not front.judged:
        return [NOT_JUDGED]
    names = [point.name for point in front.on_front]
    lines = [f"On the front, by {in_words(front.metrics[0])}: {', '.join(names)}."]
    for place, said in (
        ("dominated", "Dominated, since another point is shown to be better in one metric and no worse in the other"),
        ("behind", "Behind another point in both metrics, though the intervals do not show it"),
    ):
        of = [name for name, standing in front.standings.items() if standing.place == place]
        if of:
            lines.append(f"{said}: {', '.join(of)}.")
    return [*lines, *_unfinished(front)]


def _unfinished(front: Front) -> list[str]:
    """Return a sentence about the points that look cheap since they are shown to leave much more work undone."""
    costs = front.simulator.scenario.aims.costs
    if "cost_per_case" not in front.metrics or costs is None or costs.paid != "at work":
        return []
    usual, found = front.first.mean(OPEN) or 0.0, []
    for point in front.points:
        more, left = difference(point, front.first, OPEN), point.mean(OPEN)
        if more and more.low is not None and more.low > 0.0 and left is not None and left > _MORE * usual:
            found.append(f"{point.name} {format_number(left, 3)}")
    said = f"Cases open at the end, {format_number(usual, 3)} with {front.reference}: {', '.join(found)}."
    return [f"{said} Work that is not done costs nothing, so they look too cheap."] * bool(found)


def as_json(front: Front) -> dict[str, Any]:
    """Return the JSON values of a front; times are in the scenario's unit."""
    headers, rows = cells(front)
    return {
        "metrics": list(front.metrics),
        "units": {metric: front.simulator.unit_of(metric) for metric in front.metrics},
        "episodes": front.episodes,
        "judged": front.judged,
        "reference": front.reference,
        "points": [_point(front, point) for point in front.points],
        "table": {"headers": headers, "rows": rows},
    }


def _point(front: Front, point: Point) -> dict[str, Any]:
    standing = front.standings.get(point.name)
    names = [*front.metrics, *(n for n in summarise(point.records) if n not in front.metrics and n != "utilisation")]
    means = summarise(point.records)
    paired = {metric: difference(point, front.first, metric) for metric in front.metrics}
    return {
        "name": point.name,
        "kind": point.kind,
        "team": point.team,
        "objective": dict(point.objective),
        "directory": point.directory,
        "metrics": {name: means[name] for name in names if name in means},
        "place": standing.place if standing and front.judged else None,
        "behind": standing.behind if standing and front.judged else "",
        "against_the_reference": {
            metric: {"difference": each.value, "low": each.low, "high": each.high}
            for metric, each in paired.items()
            if each is not None and front.judged and point is not front.first
        },
        "per_episode": {metric: [record.get(metric) for record in point.records] for metric in front.metrics},
    }
