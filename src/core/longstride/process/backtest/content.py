"""What a backtest says: a table, sentences, and for which questions the log can be trusted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longstride.escaping import markdown_text
from longstride.process.backtest.change_points import ChangePoint
from longstride.process.backtest.predict import FIGURES, SHARES, TIMES, Prediction
from longstride.text import counted, format_number, scale_of

_NAMES = {
    **{"mean": "mean cycle time", "median": "median cycle time", "p90": "p90 of the cycle time"},
    **{"work": "share of work", "people": "share of waiting for people", "external": "share of external delays"},
    "throughput": "number of cases that end a week",
}
HEADERS = ["figure", "predicted", "95 % interval", "actual", "covered"]

_FEW_POINTS = 10.0
"""Points of per cent by which a predicted change may be off before it counts as wrong."""


@dataclass(frozen=True)
class Changed:
    """A change that the log has, with the predicted and the actual change of the mean cycle time in %."""

    points: list[ChangePoint]  # volume, staffing, or both
    day: str  # date of the change
    prediction: Prediction | None  # None if it cannot be predicted
    reason: str = ""  # why not

    @property
    def came_true(self) -> bool:
        """Whether the prediction is near the actual change, and its interval holds it."""
        p = self.prediction
        return p is not None and p.held and abs(p.predicted - p.actual) <= max(_FEW_POINTS, 0.5 * abs(p.actual))

    @property
    def kind(self) -> str:
        """What changed."""
        return " and ".join(point.what for point in self.points)

    def sentence(self) -> str:
        """Return what changed, and what was predicted of it."""
        what = " and ".join(_of_a_week(point) for point in self.points)
        if self.prediction is None:
            return f"From {self.day} on the log has {what}. It is not predicted: {self.reason}."
        p = self.prediction
        return (
            f"From {self.day} on the log has {what}. Mean cycle time from the part before: predicted "
            f"{p.predicted:+.1f} % (95 % interval {p.low:+.1f} to {p.high:+.1f} %), actual {p.actual:+.1f} %."
        )


def _of_a_week(point: ChangePoint) -> str:
    noun = "cases" if point.what == "volume" else "people"
    return f"{format_number(point.after, 3)} {noun} a week in place of {format_number(point.before, 3)}"


def rows(found: Mapping[str, Prediction]) -> list[list[str]]:
    """Return a row of text for each figure."""
    scale = scale_of("hours", found["mean"].actual)

    def show(name: str, value: float) -> str:
        if name in TIMES:
            return scale.show(value, 3)
        return f"{100.0 * value:.1f} %" if name in SHARES else format_number(value, 3)

    return [
        [
            _NAMES[name],
            show(name, p.predicted),
            f"{show(name, p.low)} to {show(name, p.high)}",
            show(name, p.actual),
            "yes" if p.held else "no",
        ]
        for name in FIGURES
        for p in [found[name]]
    ]


def is_near(name: str, prediction: Prediction, tolerance: float) -> bool:
    """Return whether a prediction is within the tolerance: of a share in points, else of the actual figure."""
    size = 1.0 if name in SHARES else abs(prediction.actual)
    return abs(prediction.predicted - prediction.actual) <= tolerance * max(size, 1e-9)


def trust(found: Mapping[str, Prediction], changes: Sequence[Changed], tolerance: float) -> str:
    """Return for which questions the log can be trusted."""
    near = [name for name in FIGURES if is_near(name, found[name], tolerance)]
    vague = [name for name in FIGURES if name not in near and found[name].held]
    missed = [name for name in FIGURES if name not in near and not found[name].held]
    limit = f"within {100.0 * tolerance:g} % (shares: points)"
    said = [f"This log can be trusted for {_listed(near)}, which came {limit}." if near else f"No figure came {limit}."]
    if vague:
        said.append(f"It says little about {_listed(vague)}: off by more, but within a wide interval.")
    if missed:
        said.append(f"Do not trust it for {_listed(missed)}, which it missed.")
    true = [change.kind for change in changes if change.came_true]
    wrong = [change.kind for change in changes if change.prediction is not None and not change.came_true]
    if true:
        said.append(
            f"A change of {' and of '.join(true)} came true as predicted, so questions of that kind are tested."
        )
    if wrong:
        said.append(f"A change of {' and of '.join(wrong)} did not come true, so do not trust what-ifs of that kind.")
    if not true and not wrong:
        said.append("No change of volume or staffing in it tests a what-if.")
    return " ".join(said)


def _listed(names: Sequence[str]) -> str:
    words = [f"the {_NAMES[name]}" for name in names]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def as_json(
    about: Mapping[str, Any], found: Mapping[str, Prediction], changes: Sequence[Changed], sentences: Sequence[str]
) -> dict[str, Any]:
    """Return the content of backtest.json; times are in hours, changes in per cent."""
    return {
        **about,
        "figures": {name: prediction.as_json() for name, prediction in found.items()},
        "changes": [
            {
                "day": change.day,
                "points": [vars(point) for point in change.points],
                "mean_cycle_time_percent": change.prediction.as_json() if change.prediction else None,
                "reason": change.reason,
            }
            for change in changes
        ],
        "sentences": list(sentences),
    }


def markdown(title: str, found: Mapping[str, Prediction], sentences: Sequence[str]) -> str:
    """Return the backtest as Markdown."""
    lines = [HEADERS, ["---", "---:", "---:", "---:", "---"], *rows(found)]
    table = [f"| {' | '.join(map(markdown_text, row) if i != 1 else row)} |" for i, row in enumerate(lines)]
    return (
        "\n".join([f"# {markdown_text(title)}", "", *table, "", *(f"* {markdown_text(s)}" for s in sentences)]) + "\n"
    )


def days(count: float) -> str:
    """Return a number of days as text."""
    return counted(round(count), "day")
