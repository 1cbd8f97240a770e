"""Content of sweep.html: a sweep as a page for a browser."""

from collections.abc import Sequence
from typing import Any

from longstride.commands.sweep.report import (
    Outcome,
    held_out_cells,
    importance_line,
    recommended,
    scale_for,
    sentences,
    shown_values,
    train_again,
    trial_cells,
)
from longstride.commands.sweep.space import Dimension
from longstride.commands.sweep.study import RUNGS, Trial, pareto_front
from longstride.commands.sweep.sweep import BASE, Sweep
from longstride.escaping import plot_text
from longstride.report.charts import STYLE, cautions, draw
from longstride.report.page import Block, Cell, Code, Figure, Page, Section, Table, Text, plain
from longstride.text import Scale, counted, format_duration, in_words

_COLUMNS = 3
"""Pictures in a row, of scores against values."""

_FEW_LABELS_FROM = 50.0
"""High over low end of a logarithmic axis from which only powers of ten have labels."""


def build_page(sweep: Sweep, outcome: Outcome) -> Page:
    """Return the content of a sweep's page."""
    metric = in_words(sweep.settings.metric)
    winner = outcome.held_out.winner(sweep.aim.lower_is_better)
    better = "lower" if sweep.aim.lower_is_better else "higher"
    title = f"{counted(len(outcome.trials), 'trial')} of {counted(len(sweep.space), 'setting')}"
    sections = [
        *_held_out(sweep, outcome),
        Section("importance", "Which setting matters", _importance(outcome)),
        Section("values", "Scores against values", _values(sweep, outcome)),
        Section("search", "The search", _search(sweep, outcome)),
        Section("trials", "Trials", _trials(sweep, outcome)),
        *_commands(sweep, outcome),
    ]
    return Page(
        title=f"Sweep in {sweep.directory.resolve().name}",
        subtitle=f"{title}, by {metric} ({better} is better)",
        verdict=_verdict(sweep, outcome),
        tone="" if winner is None else "better",
        tiles=[],
        words=sentences(sweep, outcome),
        warnings=cautions(),
        sections=sections,
    )


def _verdict(sweep: Sweep, outcome: Outcome) -> str:
    if not outcome.held_out.finalists:
        return ""
    winner = outcome.held_out.winner(sweep.aim.lower_is_better)
    if winner is None:
        return f"No trial is shown to be better than the {BASE} on seeds that no trial had."
    return f"Trial {winner.trial.number} is better than the {BASE} on seeds that no trial had, too."


def _held_out(sweep: Sweep, outcome: Outcome) -> list[Section]:
    if not outcome.held_out.finalists:
        return []
    headers, rows = held_out_cells(sweep, outcome, scale_for(sweep, outcome.base))
    seeds = counted(len(sweep.held_out_seeds), "seed")
    caption = (
        f"Trained again with {seeds} that no trial used, and evaluated on their episodes. Differences are paired by "
        "seed; means and differences have 95 % intervals, not corrected for multiple trials. The last column is the "
        "difference with the seed of the search, which is optimistic for the trials that it chose."
    )
    table = Table("The best trials on other seeds", headers, [plain(*row) for row in rows], caption)
    return [Section("held_out", "Held-out seeds", [table])]


def _importance(outcome: Outcome) -> list[Block]:
    shares = outcome.importances

    def paint(figure: Any) -> None:
        axes = figure.add_subplot()
        names = list(shares)[::-1]
        axes.barh(names, [100 * shares[name] for name in names], color=STYLE.series[0], height=0.6)
        axes.set_xlabel("share, %")
        axes.grid(axis="x", color=STYLE.grid, linewidth=0.6)
        axes.set_axisbelow(True)

    if not shares:
        return [Text([importance_line(outcome)], "missing")]
    caption = (
        "How much the values of the best quarter of the complete trials differ from those of all complete ones "
        "(PED-ANOVA). It says where the search found good trials, not how large the gain is; of few trials it says "
        "little."
    )
    return [Figure("Importance of the settings", draw("importance", 0.6 + 0.4 * len(shares), paint), caption)]


def _values(sweep: Sweep, outcome: Outcome) -> list[Block]:
    scale, known = scale_for(sweep, outcome.base), [trial for trial in outcome.trials if _shown(trial) is not None]
    rows = -(-len(sweep.space) // _COLUMNS)

    def paint(figure: Any) -> None:
        grid = figure.subplots(rows, min(_COLUMNS, len(sweep.space)), squeeze=False, sharey=True)
        for axes, dimension in zip(grid.ravel(), sweep.space, strict=False):
            _scatter(axes, dimension, known, scale)
            axes.set_xlabel(plot_text(dimension.name))
        for axes in grid.ravel()[len(sweep.space) :]:
            axes.set_visible(False)
        for row in grid:
            row[0].set_ylabel(plot_text(scale.header(sweep.settings.metric)))
        grid[0][0].legend(fontsize="small", frameon=False)

    caption = "Each point is a trial; a cross is one that was given up, at its score until then."
    return [Figure("Score against each setting", draw("values", 2.8 * rows, paint), caption)]


def _scatter(axes: Any, dimension: Dimension, trials: Sequence[Trial], scale: Scale) -> None:
    """Draw the trials' scores against a setting."""
    for state, marker, colour in (("complete", "o", STYLE.series[0]), ("pruned", "x", STYLE.muted)):
        of = [trial for trial in trials if trial.state == state]
        values = [trial.params[dimension.name] for trial in of]
        if dimension.choices:
            values = [dimension.choices.index(value) for value in values]
        scores = [(_shown(trial) or 0.0) * scale.factor for trial in of]
        label = {"complete": "complete", "pruned": "given up"}[state]
        axes.scatter(values, scores, marker=marker, color=colour, s=22, label=label if of else None)
    if dimension.choices:
        axes.set_xticks(range(len(dimension.choices)), [plot_text(str(choice)) for choice in dimension.choices])
    elif dimension.log:
        _logarithmic(axes, dimension)
    axes.grid(color=STYLE.grid, linewidth=0.6)


def _logarithmic(axes: Any, dimension: Dimension) -> None:
    """Make the horizontal axis logarithmic, with as many labels as do not overlap."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    wide = dimension.high / dimension.low > _FEW_LABELS_FROM
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _shown(trial: Trial) -> float | None:
    """Return the score of a trial, or the last one before it was given up."""
    if trial.score is not None:
        return trial.score
    return trial.so_far[max(trial.so_far)] if trial.state == "pruned" and trial.so_far else None


def _search(sweep: Sweep, outcome: Outcome) -> list[Block]:
    scale = scale_for(sweep, outcome.base)
    complete = [trial for trial in outcome.trials if trial.score is not None]
    front = pareto_front(outcome.trials, sweep.aim.lower_is_better)
    base = (outcome.base.score or 0.0) * scale.factor

    def paint(figure: Any) -> None:
        over_time, over_seconds = figure.subplots(1, 2, sharey=True)
        scores = [(trial.score or 0.0) * scale.factor for trial in complete]
        over_time.plot([trial.number for trial in complete], scores, "o", color=STYLE.series[0], markersize=4)
        over_time.axhline(base, color=STYLE.muted, linestyle="--", linewidth=1, label=BASE)
        over_time.set_xlabel("trial")
        over_time.set_ylabel(plot_text(scale.header(sweep.settings.metric)))
        seconds = [trial.seconds or 0.0 for trial in complete]
        over_seconds.plot(seconds, scores, "o", color=STYLE.series[0], markersize=4)
        ends = [(trial.seconds or 0.0, (trial.score or 0.0) * scale.factor) for trial in front]
        over_seconds.step(*zip(*ends, strict=True), where="post", color=STYLE.series[1], linewidth=1.2, label="front")
        over_seconds.plot([outcome.base.seconds], [base], "s", color=STYLE.muted, markersize=6, label=BASE)
        over_seconds.set_xlabel("training, s")
        for axes in (over_time, over_seconds):
            axes.grid(color=STYLE.grid, linewidth=0.6)
            axes.legend(fontsize="small", frameon=False)

    if not complete:
        return [Text(["No trial is complete."], "missing")]
    caption = (
        "Left in the order of the trials, right against the time of training. The line joins those than which none "
        "is both better and faster."
    )
    return [Figure("Scores of the complete trials", draw("search", 3.2, paint), caption)]


def _trials(sweep: Sweep, outcome: Outcome) -> list[Block]:
    headers, rows = trial_cells(sweep, outcome, scale_for(sweep, outcome.base), len(outcome.trials))
    blocks: list[Block] = [Table("Complete trials, the best first", headers, [plain(*row) for row in rows])]
    rest = [trial for trial in outcome.trials if trial.score is None or trial.same_as is not None]
    if rest:
        cells = [
            [Cell(str(t.number)), Cell(_fate(t)), Cell(shown_values(t.params)), Cell(format_duration(t.took))]
            for t in rest
        ]
        blocks.append(Table("Other trials", ["trial", "what became of it", "settings", "took"], cells, numeric=False))
    return blocks


def _commands(sweep: Sweep, outcome: Outcome) -> list[Section]:
    best = recommended(sweep, outcome)
    if best is None:
        return []
    code = Code(f"Train with the settings of trial {best.number}", [train_again(sweep, best)])
    return [Section("commands", "Commands", [code])]


def _fate(trial: Trial) -> str:
    if trial.same_as is not None:
        return f"the same values as trial {trial.same_as}"
    if trial.state == "failed":
        return trial.error
    return f"given up after {100 * max(trial.so_far, default=0) // RUNGS} %"
