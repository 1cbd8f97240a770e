"""What a trained policy changes, in plain words: for the cases and people of a process, or for any metrics."""

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from longstride.simulators.simulator import Simulator
from longstride.text import format_number, in_words, scale_of
from longstride.training.evaluation.comparison import Verdict, compare
from longstride.training.evaluation.evaluate import Evaluation, best_heuristic

_ROUNDING = 1e-9
"""Relative difference of two means that are equal but for rounding."""

_MOST_ALIKE = 2
"""Metrics without a difference that have a sentence each; more share one."""

_MUCH = 0.25
"""Rise of a share, 0 .. 1, that is a warning unless something is shown to become better."""

_NOTABLE = 0.03
"""Change of a share, 0 .. 1, from which a person is named."""


def plain_words(result: Evaluation, simulator: Simulator) -> list[str]:
    """Return sentences about what changes where the trained policy takes the place of the best heuristic.

    Only differences whose paired 95 % interval leaves out 0 are called differences.
    """
    best = best_heuristic(result.records, simulator)
    if best is None or "trained" not in result.records or simulator.hooks.withheld(simulator):
        return []
    names = [name for name in _scalars(result) if name != "return" or simulator.main_metric == "return"]
    names.sort(key=lambda name: name != simulator.main_metric)
    compared = [compare(result, simulator, "trained", best, name) for name in names]
    found = [verdict for verdict in compared if verdict is not None]
    found = [verdict for verdict in found if verdict.metric != "decisions"]
    alike = [verdict for verdict in found if _is_alike(verdict)]
    alike = alike if len(alike) > _MOST_ALIKE else []
    sentences = [_case_sentence(v) if v.metric in _CASES else _sentence(v) for v in found if v not in alike]
    if alike:
        sentences.append(f"No difference to {best} is shown in {', '.join(in_words(v.metric) for v in alike)}.")
    is_better = any(verdict.metric == simulator.main_metric and verdict.word == "better" for verdict in found)
    for metric, labels in simulator.metric_labels.items():
        sentences += _who_changes(result, best, metric, labels, is_better)
    return [*sentences, *_way(result, simulator, best)]


_CASES = {
    "mean_cycle_time": "A case takes {value} on average",
    "median_cycle_time": "Half of the cases are done within {value}",
    "p90_cycle_time": "Nine cases in ten are done within {value}",
    "p95_cycle_time": "Nineteen cases in twenty are done within {value}",
    "mean_tardiness": "A case ends {value} after its due date on average",
    "share_late": "The late cases are {value} of all",
    "share_beyond_target": "The cases beyond the target are {value} of all",
    "cost_per_case": "A case costs {value}",
    "cases_finished": "The cases that are finished in an episode number {value}",
    "cases_open": "The cases that are still open at its end number {value}",
    "mean_utilisation": "People are at work {value} of their time on duty",
}
"""How sentences about the metrics of a process begin."""


def _scalars(result: Evaluation) -> list[str]:
    records = result.records["trained"]
    return list(dict.fromkeys(name for record in records for name in record if not isinstance(record[name], list)))


def _case_sentence(verdict: Verdict) -> str:
    scale = scale_of(verdict.unit, verdict.value)
    value = scale.show(verdict.value, 3).removesuffix(" cases")
    return f"{_CASES[verdict.metric].format(value=value)}{_change(verdict)}."


def _sentence(verdict: Verdict) -> str:
    value = scale_of(verdict.unit, verdict.value).show(verdict.value, 3)
    name = in_words(verdict.metric)
    return f"{name[:1].upper()}{name[1:]}: {value}{_change(verdict)}."


def _is_alike(verdict: Verdict) -> bool:
    return verdict.low <= 0.0 <= verdict.high


def _change(verdict: Verdict) -> str:
    """Return the clause about the difference: more or less, or that none was shown."""
    if _is_alike(verdict):
        return f"; no difference to {verdict.against} is shown"
    scale, percent = scale_of(verdict.unit, verdict.difference), verdict.percent(verdict.difference)
    size = scale.show(abs(verdict.difference), 3).removesuffix(" cases")
    if scale.unit == "%":
        size, percent = f"{size.removesuffix(' %')} points", None
    words = "more" if verdict.difference > 0 else "less"
    share = f" ({format_number(abs(percent), 2)} %)" if percent is not None else ""
    return f", {size}{share} {words} than under {verdict.against}"


def _who_changes(
    result: Evaluation, best: str, metric: str, labels: Sequence[str], is_better: bool = True
) -> list[str]:
    """Return a sentence about the labelled shares that rise and fall most, such as the utilisation of people.

    A warning follows where one rises much, and the policy is not shown to be better.
    """
    means = {
        name: np.mean([record[metric] for record in result.records[name] if metric in record] or [[]], axis=0)
        for name in ("trained", best)
    }
    if any(len(mean) != len(labels) for mean in means.values()):
        return []
    change = means["trained"] - means[best]
    order = np.argsort(change)
    less = [i for i in order[:3] if change[i] <= -_NOTABLE]
    more = [i for i in order[::-1][:3] if change[i] >= _NOTABLE]

    def named(indices: list[int]) -> str:
        return ", ".join(f"{labels[i]} {100 * means[best][i]:.0f} → {100 * means['trained'][i]:.0f} %" for i in indices)

    parts = [f"{word} {named(of)}" for word, of in (("less for", less), ("more for", more)) if of]
    title = in_words(metric).capitalize()
    sentence = f"{title} changes most: {'; '.join(parts)}." if parts else f"{title} stays as it is for each of them."
    much = [] if is_better else [i for i in more if change[i] >= _MUCH]
    return [sentence, *([f"Warning: {named(much)} without a shown gain."] if much else [])]


def _possible(best: float, bound: float) -> float:
    """Return by how much the best heuristic could be beaten, 0 if that is only rounding."""
    return best - bound if abs(best - bound) > _ROUNDING * max(abs(best), abs(bound)) else 0.0


def _way(result: Evaluation, simulator: Simulator, best: str) -> list[str]:
    """Return sentences about what learning changed, and how far a bound is away."""
    sentences, main = [], simulator.main_metric
    learned = compare(result, simulator, "trained", "untrained") if "untrained" in result.records else None
    if learned is not None:
        scale = scale_of(learned.unit, learned.other)
        verdict = "did not show a difference" if learned.word == "no difference shown" else f"made it {learned.word}"
        sentences.append(f"Untrained, the policy had {scale.show(learned.other)}; training {verdict}.")
    for bound in (name for name in simulator.bounds if name in result.records):
        of = {name: [r[main] for r in result.records[name] if main in r] for name in ("trained", best, bound)}
        if all(of.values()) and (possible := _possible(fmean(of[best]), fmean(of[bound]))):
            share = min(max((fmean(of[best]) - fmean(of["trained"])) / possible, 0.0), 1.0)
            limit = scale_of(simulator.unit_of(main), fmean(of[bound])).show(fmean(of[bound]))
            sentences.append(
                f"No policy can be better than {limit} ({bound}); this one covers {100 * share:.0f} % of the way there "
                f"from {best}."
            )
    return sentences
