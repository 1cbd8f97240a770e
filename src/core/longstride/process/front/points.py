"""Points of a front: policies with their episodes, and which of them another one beats in both metrics.

All episodes have the same random streams, so points are compared episode by episode.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal, NamedTuple

from longstride.simulators.hooks import Records
from longstride.training.evaluation.evaluate import paired_values
from longstride.training.evaluation.statistics import Paired, paired_difference

Place = Literal["front", "behind", "dominated"]
"""``front``: no point has means as good in both metrics; ``dominated``: one is shown to be better; else ``behind``."""


@dataclass(frozen=True)
class Point:
    """A policy on a process."""

    name: str  # name of the policy, or of policy and team; text of users
    kind: str  # "trained", "rule", "log", "checkpoint"; of teams "not retrained", "retrained", "rule"
    records: Records = field(repr=False)
    objective: Mapping[str, float] = field(default_factory=dict)  # what the policy was trained for
    directory: str = ""  # its run directory
    team: str = ""  # changes of the people, in words; empty for the people as they are

    def mean(self, metric: str) -> float | None:
        """Return the mean of a metric; None if no episode has it."""
        values = [record[metric] for record in self.records if metric in record]
        return fmean(values) if values else None


class Standing(NamedTuple):
    """The place of a point, and the name of the point that is better in both metrics; empty on the front."""

    place: Place
    behind: str = ""


def front_of(values: Sequence[tuple[float, float]]) -> list[bool]:
    """Return for each pair of values whether no other pair is as low in both and lower in one.

    The pairs are sorted by both values. Then a pair is on the front if its second value is below those before, or equal
    to the pair that was last on it.
    """
    found, best = [False] * len(values), (float("inf"), float("inf"))
    for i in sorted(range(len(values)), key=lambda i: values[i]):
        if values[i][1] < best[1] or values[i] == best:
            found[i], best = True, values[i]
    return found


def difference(first: Point, second: Point, metric: str) -> Paired | None:
    """Return first minus second, paired, with its 95 % interval; None for less than two common episodes."""
    values, others = paired_values(first.records, second.records, metric)
    return paired_difference(values, others) if len(values) > 1 else None


def is_shown_better(first: Point, second: Point, metrics: Sequence[str]) -> bool:
    """Return whether a point is shown to be better than another in one metric, and better or equal in the other.

    Equal are metrics that do not differ in any episode.
    """
    found = [difference(first, second, metric) for metric in metrics]
    if any(each is None or each.low is None or each.high is None for each in found):
        return False
    better = [each.high < 0.0 for each in found]  # type: ignore[union-attr, operator]
    equal = [each.low == each.high == 0.0 for each in found]  # type: ignore[union-attr]
    return any(better) and all(b or e for b, e in zip(better, equal, strict=True))


def standings(points: Sequence[Point], metrics: tuple[str, str]) -> dict[str, Standing]:
    """Return the place of each point that has both metrics, by name."""
    known = [
        (point, (first, second))
        for point in points
        for first, second in [(point.mean(metrics[0]), point.mean(metrics[1]))]
        if first is not None and second is not None
    ]
    on_front = front_of([values for _, values in known])
    ahead = [each for each, is_on in zip(known, on_front, strict=True) if is_on]
    found = {}
    for (point, values), is_on in zip(known, on_front, strict=True):
        if is_on:
            found[point.name] = Standing("front")
            continue
        better = [other for other, of in ahead if of[0] <= values[0] and of[1] <= values[1]]
        shown = [other for other in better if is_shown_better(other, point, metrics)]
        found[point.name] = Standing("dominated" if shown else "behind", (shown or better)[0].name)
    return found
