"""What a sweep found, as JSON, tables and sentences."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from longstride.commands.sweep.held_out import Finalist, HeldOut
from longstride.commands.sweep.runs import Result
from longstride.commands.sweep.study import RUNGS, Trial, best_first, pareto_front
from longstride.commands.sweep.sweep import BASE, Sweep, trial_name
from longstride.errors import this_command
from longstride.escaping import shell_command
from longstride.text import Scale, counted, format_duration, format_half, format_number, in_words, scale_of
from longstride.training.evaluation.statistics import mean_and_margin

SHOWN = 10
"""Trials in the table of a terminal; sweep.html has all."""

_PADDING = 3
"""Letters that a column takes beside its text."""


@dataclass(frozen=True)
class Outcome:
    """What a sweep has found so far."""

    base: Result  # of the base settings, with the seed of the trials
    base_values: dict[str, Any]  # every setting of that training, defaults included
    trials: list[Trial]  # that have ended, in the order of their beginnings
    importances: dict[str, float]  # setting -> share; empty where it is not known
    held_out: HeldOut  # empty until it is made, and where there is nothing to compare


def result_json(sweep: Sweep, outcome: Outcome) -> dict[str, Any]:
    """Return what sweep.json holds beside what identifies the sweep."""
    lower = sweep.aim.lower_is_better
    ranked = best_first(outcome.trials, lower)
    return {
        "metric": sweep.settings.metric,
        "unit": sweep.simulator.unit_of(sweep.settings.metric),
        "lower_is_better": lower,
        "base_result": outcome.base._asdict(),
        "trials": [{**asdict(trial), "directory": trial_name(trial.number)} for trial in outcome.trials],
        "best": ranked[0].number if ranked else None,
        "pareto_front": [trial.number for trial in pareto_front(outcome.trials, lower)],
        "importances": outcome.importances,
        "held_out": outcome.held_out.as_json(),
    }


def scale_for(sweep: Sweep, base: Result) -> Scale:
    """Return the scale in which scores are shown, which suits that of the base settings."""
    return scale_of(sweep.simulator.unit_of(sweep.settings.metric), base.score or 0.0)


def shown_value(value: Any) -> str:
    """Return a value of a setting for people: numbers with three digits."""
    return format_number(value, 3) if isinstance(value, float) else str(value)


def shown_values(params: Mapping[str, Any]) -> str:
    """Return settings with their values for people."""
    return ", ".join(f"{name} {shown_value(value)}" for name, value in params.items())


def against_base(score: float | None, base: Result) -> str:
    """Return the difference of a score to that of the base settings, in per cent where both are positive."""
    if score is None or base.score is None:
        return "-"
    difference = score - base.score
    if score > 0 and base.score > 0:
        return f"{'+' * (difference >= 0.0)}{format_number(100.0 * difference / base.score, 2)} %"
    return f"{'+' * (difference >= 0.0)}{format_number(difference, 3)}"


def trial_line(sweep: Sweep, trials: list[Trial], base: Result) -> str:
    """Return a line about the trial that began last."""
    trial, ended = max(trials, key=lambda each: each.number), f"({len(trials)} of {sweep.limits.trials})"
    name, values = f"Trial {trial.number} {ended}", shown_values(trial.params)
    if trial.state == "failed":
        return f"{name} failed: {trial.error} {values}"
    if trial.state == "pruned":
        part = max(trial.so_far, default=0)
        return f"{name}: worse than the median after {100 * part // RUNGS} % of it, given up. {values}"
    if trial.same_as is not None:
        return f"{name}: the same values as trial {trial.same_as}, so the same score. {values}"
    scale = scale_for(sweep, base)
    best = best_first(trials, sweep.aim.lower_is_better)[0]
    words = "the best so far" if best is trial else f"best so far {scale.show(best.score or 0.0)}, trial {best.number}"
    shown, took = scale.show(trial.score or 0.0), format_duration(trial.seconds or 0.0)
    return f"{name}: {in_words(sweep.settings.metric)} {shown} after {took} of training, {words}. {values}"


def trial_tables(sweep: Sweep, outcome: Outcome, width: int) -> list[Table]:
    """Return the best trials and, where it was made, the comparison on held-out seeds, for a terminal.

    What is too wide for ``width`` letters continues in a further table below.
    """
    scale = scale_for(sweep, outcome.base)
    tables = _fitting(f"The best trials, seed {sweep.aim.seed}", *trial_cells(sweep, outcome, scale, SHOWN), width)
    if outcome.held_out.finalists:
        title = f"On {counted(len(sweep.held_out_seeds), 'seed')} that no trial had"
        tables += _fitting(title, *held_out_cells(sweep, outcome, scale), width)
    return tables


def _fitting(title: str, headers: list[str], rows: list[list[str]], width: int) -> list[Table]:
    """Return cells as tables with as many columns as fit; the first column is in each."""
    widths = [max(map(len, column)) + _PADDING for column in zip(headers, *rows, strict=True)]
    parts, left = list[list[int]](), 0
    for column in range(1, len(headers)):
        if not parts or widths[column] > left:
            parts.append([0])
            left = width - widths[0] - 1
        parts[-1].append(column)
        left -= widths[column]
    tables = []
    for number, part in enumerate(parts):
        table = Table(title=None if number else title)
        for column in part:
            table.add_column(headers[column], justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*(row[column] for column in part))
        tables.append(table)
    return tables


def trial_cells(sweep: Sweep, outcome: Outcome, scale: Scale, most: int) -> tuple[list[str], list[list[str]]]:
    """Return headers and rows: the base settings, then the best complete trials."""
    names = [dimension.name for dimension in sweep.space]
    front = {trial.number for trial in pareto_front(outcome.trials, sweep.aim.lower_is_better)}
    base, ranked = outcome.base, best_first(outcome.trials, sweep.aim.lower_is_better)[:most]
    shown = format_number((base.score or 0.0) * scale.factor)
    of_base = [shown_value(outcome.base_values.get(name, "-")) for name in names]
    rows = [[BASE, shown, "-", format_duration(base.seconds), "", *of_base]]
    for trial in ranked:
        values = [shown_value(trial.params[name]) for name in names]
        score, seconds = format_number((trial.score or 0.0) * scale.factor), format_duration(trial.seconds or 0.0)
        mark = "yes" if trial.number in front else ""
        rows.append([str(trial.number), score, against_base(trial.score, base), seconds, mark, *values])
    return ["trial", scale.header(sweep.settings.metric), f"against {BASE}", "training", "on the front", *names], rows


def held_out_cells(sweep: Sweep, outcome: Outcome, scale: Scale) -> tuple[list[str], list[list[str]]]:
    """Return headers and rows of the comparison on held-out seeds."""
    rows = [[BASE, _mean(outcome.held_out.base, scale), "-", "-"]]
    for finalist in outcome.held_out.finalists:
        verdict = finalist.verdict.short if finalist.verdict else "too few seeds"
        searched = against_base(finalist.trial.score, outcome.base)
        rows.append([f"trial {finalist.trial.number}", _mean(finalist.scores, scale), verdict, searched])
    return ["settings", scale.header(sweep.settings.metric), f"against {BASE}", "that in the search"], rows


def closing_lines(sweep: Sweep, outcome: Outcome) -> list[str]:
    """Return the lines below the tables: what was found, and the command to give next."""
    return [*sentences(sweep, outcome), *_command_lines(sweep, outcome)]


def sentences(sweep: Sweep, outcome: Outcome) -> list[str]:
    """Return what was found."""
    found = [*_counts(outcome), *_front_line(sweep, outcome), importance_line(outcome)]
    return [*found, *held_out_lines(sweep, outcome)]


def _counts(outcome: Outcome) -> list[str]:
    states = [trial.state for trial in outcome.trials]
    parts = [("complete", "complete"), ("pruned", "given up early"), ("failed", "failed")]
    found = ", ".join(f"{states.count(state)} {words}" for state, words in parts if state in states)
    failed = [trial for trial in outcome.trials if trial.state == "failed"]
    return [f"{counted(len(states), 'trial')}: {found or 'none'}."] + [
        f"Trial {trial.number} failed: {trial.error}" for trial in failed[:3]
    ]


def _front_line(sweep: Sweep, outcome: Outcome) -> list[str]:
    """Return which trials are not both worse and slower than another one."""
    scale, front = scale_for(sweep, outcome.base), pareto_front(outcome.trials, sweep.aim.lower_is_better)
    each = [f"trial {t.number} ({scale.show(t.score or 0.0)} in {format_duration(t.seconds or 0.0)})" for t in front]
    return [f"No trial is both better and faster than these: {', '.join(each)}."] if each else []


def importance_line(outcome: Outcome) -> str:
    """Return what told the best trials from the others."""
    if not outcome.importances:
        return "Too few complete trials (or a single setting) to say which setting matters."
    shares = ", ".join(f"{name} {share:.0%}" for name, share in outcome.importances.items())
    return f"What tells the best quarter of the complete trials from all of them: {shares}."


def held_out_lines(sweep: Sweep, outcome: Outcome) -> list[str]:
    """Return what the comparison on held-out seeds shows, a sentence for each trial."""
    if not outcome.held_out.finalists:
        return ["Nothing was compared on other seeds, so the best score of the search flatters its trial."]
    return [_verdict_line(sweep, outcome, finalist) for finalist in outcome.held_out.finalists]


def _verdict_line(sweep: Sweep, outcome: Outcome, finalist: Finalist) -> str:
    number, verdict = finalist.trial.number, finalist.verdict
    if verdict is None:
        return f"Trial {number}: too few of its trainings on other seeds succeeded to compare it."
    words = {"better": "better than", "worse": "worse than", "no difference shown": "no difference shown to"}
    found = f"Trial {number} on seeds that no trial had: {words[verdict.word]} the {BASE} ({verdict.long})."
    return f"{found} In the search it was {against_base(finalist.trial.score, outcome.base)}."


def train_again(sweep: Sweep, trial: Trial) -> str:
    """Return the command that trains with the settings of a trial, as a user types it."""
    values = {**trial.params, **sweep.fixed, "run_directory": str(sweep.directory / f"best-{trial.number:04d}")}
    return f"{this_command()} --mode train {shell_command(sweep.settings.flags(values))}"


def recommended(sweep: Sweep, outcome: Outcome) -> Trial | None:
    """Return the trial that is better on other seeds too, else the best of the search; None without any."""
    winner = outcome.held_out.winner(sweep.aim.lower_is_better)
    ranked = best_first(outcome.trials, sweep.aim.lower_is_better)
    return winner.trial if winner else next(iter(ranked), None)


def _command_lines(sweep: Sweep, outcome: Outcome) -> list[str]:
    trial = recommended(sweep, outcome)
    if trial is None:
        return []
    lines, held_out = [], outcome.held_out
    if held_out.finalists and held_out.winner(sweep.aim.lower_is_better) is None:
        lines.append(f"No trial is shown to be better than the {BASE}: keep those.")
    return [*lines, f"To train with the settings of trial {trial.number}: {train_again(sweep, trial)}"]


def _mean(scores: Mapping[int, float], scale: Scale) -> str:
    """Return the mean over seeds with half its 95 % interval."""
    if not scores:
        return "-"
    import numpy as np

    mean, half = mean_and_margin(np.array(list(scores.values())) * scale.factor)
    return f"{format_number(float(mean))} ± {format_half(float(half), float(mean))}"
