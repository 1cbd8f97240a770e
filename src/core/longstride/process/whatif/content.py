"""The comparison of several scenarios as a table and as JSON values."""

from collections.abc import Mapping, Sequence
from typing import Any

from longstride.process.changes.people import people_at_work
from longstride.process.fidelity.base import NOT_JUDGED
from longstride.process.fidelity.base import Base as LogBase
from longstride.process.whatif.compare import Played, across
from longstride.process.whatif.equivalent import Equivalent
from longstride.text import format_half, format_number, scale_of
from longstride.training.evaluation.evaluate import summarise

Cells = tuple[str, list[str], list[list[str]]]
"""The title, the headers and the rows of a table."""


def cells(played: Sequence[Played], judged: bool = True) -> Cells:
    """Return a row for each policy and a column for each scenario; unless ``judged``, the title says so."""
    simulator = played[0].simulator
    metric = simulator.main_metric
    means = {
        (i, name): summarise(of.result.records[name]).get(metric)
        for i, of in enumerate(played)
        for name in _names([of])
    }
    known = sorted(abs(mean["mean"]) for mean in means.values() if mean)
    scale = scale_of(simulator.unit_of(metric), known[len(known) // 2] if known else 0.0)

    def cell(mean: dict[str, Any] | None) -> str:
        if mean is None:
            return "-"
        value, half = (scale.factor * number for number in (mean["mean"], (mean["high"] - mean["low"]) / 2))
        return f"{format_number(value)} ± {format_half(half, value)}"

    rows = [[name, *(cell(means.get((i, name))) for i in range(len(played)))] for name in _names(played)]
    rows.append(["people", *(str(people_at_work(of.variant.scenario)) for of in played)])
    name = scale.header(metric)
    title = f"{name[0].upper()}{name[1:]}: mean and 95 % interval over {played[0].result.episodes} episodes"
    title += "" if judged else f". {NOT_JUDGED}"
    return title, ["policy", *(of.variant.name for of in played)], rows


def _names(played: Sequence[Played]) -> list[str]:
    return list(dict.fromkeys(name for of in played for name in of.result.records))


def as_json(
    played: Sequence[Played],
    equivalents: Sequence[Equivalent],
    sentences: Mapping[str, Sequence[str]],
    cost: float,
    against_log: LogBase | None = None,
) -> dict[str, Any]:
    """Return the content of whatif.json; times are in the scenario's unit."""
    judged = not (against_log and against_log.misses)
    base, (title, headers, rows) = played[0], cells(played, judged)
    return {
        "episodes": base.result.episodes,
        "seed": base.result.seed,
        "main_metric": base.simulator.main_metric,
        "unit": base.simulator.unit_of(base.simulator.main_metric),
        "cost_per_person": cost or None,
        "base_against_log": against_log.as_json() if against_log else None,
        "scenarios": [_scenario(base, of, cost, judged) for of in played],
        "worth": [equivalent.as_json() for equivalent in equivalents],  # documented key
        "sentences": {name: list(lines) for name, lines in sentences.items()},
        "table": {"title": title, "headers": headers, "rows": rows},
    }


def _scenario(base: Played, played: Played, cost: float, judged: bool) -> dict[str, Any]:
    metric, people = played.simulator.main_metric, people_at_work(played.variant.scenario)
    verdicts = {
        name: verdict.as_json()
        for name in played.result.records
        if judged and name in base.result.records and (verdict := across((played, name), (base, name))) is not None
    }
    return {
        "name": played.variant.name,
        "file": played.variant.file,
        "changes": played.variant.changes,
        "people": people,
        "cost": people * cost if cost else None,
        "best_heuristic": played.best or None,
        "not_reused": played.not_reused,
        "policies": {name: summarise(records) for name, records in played.result.records.items()},
        "against_the_first": verdicts,
        "per_episode": {name: [r.get(metric) for r in records] for name, records in played.result.records.items()},
    }
