"""How a run learned: the learning curve, and what the updates say of themselves."""

from typing import Any

import numpy as np

from longstride.report.charts import STYLE, draw, whole_iterations
from longstride.report.page import Block, Figure, Section, Text
from longstride.report.run_data import RunData
from longstride.text import counted, in_words
from longstride.training.learning_advice import signs
from longstride.training.run_directory.plots import baselines_of, draw_curve

_DIAGNOSTICS = {
    "entropy": "entropy of the policy, nats",
    "approx_kl": "KL divergence of an update, nats",
    "clip_fraction": "share of clipped samples",
    "explained_variance": "share that the critic explains",
    "learning_rate": "learning rate of the actor",
    "steps": "steps of an iteration",
}
"""Figures of metrics.jsonl that an engineer looks at first."""


def learning_section(run: RunData) -> Section:
    """Return the learning curve for everybody, with a sentence on how to read it."""
    curve = run.curve
    lines = baselines_of(run.evaluation_file, curve.metric)

    def paint(figure: Any) -> None:
        draw_curve(figure.add_subplot(), {"": curve}, lines, curve.scale, STYLE)

    lower = run.simulator.main_metric_lower_is_better if run.simulator is not None else None
    better = "" if lower is None else f"; {'lower' if lower else 'higher'} is better"
    sentences = [f"Each point is an iteration, played while the policy still tries things out{better}."]
    if curve.metric != run.main_metric:
        sentences = [f"Too few episodes ended for {in_words(run.main_metric)}; this is the {in_words(curve.metric)}."]
    if curve.window:
        sentences.append(f"The line is the mean of {curve.window} iterations, the band its 95 % interval.")
    if curve.evaluations:
        sentences.append("Diamonds are evaluations while the run trained, with 95 % intervals.")
    if not lines:
        sentences.append("Lines of the heuristics and bounds appear after --mode evaluate.")
    title = f"{in_words(curve.metric).capitalize()} over the iterations"
    return Section("learning", "Learning", [Figure(title, draw("learning", 4.2, paint), " ".join(sentences))])


def diagnostics_section(run: RunData) -> Section:
    """Return the figures of the updates for engineers, with signs of trouble and failures."""
    names = [name for name in _DIAGNOSTICS if any(record.get(name) is not None for record in run.records)]

    def paint(figure: Any) -> None:
        grid = figure.subplots(2, -(-len(names) // 2), squeeze=False).ravel()
        for axes, name in zip(grid, names, strict=False):
            values = [np.nan if record.get(name) is None else record[name] for record in run.records]
            axes.plot([record["iteration"] for record in run.records], values, color=STYLE.series[0], linewidth=1.2)
            axes.set_title(_DIAGNOSTICS[name], fontsize="small")
            axes.grid(color=STYLE.grid, linewidth=0.6)
            axes.tick_params(labelsize="small")
            whole_iterations(axes, fontsize="small")
        for axes in grid[len(names) :]:
            axes.set_visible(False)

    blocks: list[Block] = [Figure("Updates over the iterations", draw("diagnostics", 4.0, paint))]
    blocks.append(Text([*_trouble(run)] or ["Nothing failed, and no sign of trouble was found."]))
    return Section("diagnostics", "Updates in detail", blocks)


def _trouble(run: RunData) -> list[str]:
    """Return sentences about failures, and the sign of trouble of the highest rank at its end."""
    totals = {
        name: sum(len(record.get(name) or []) for record in run.records) for name in ("out_of_memory", "fallbacks")
    }
    skipped = sum(record.get("skipped_steps") or 0 for record in run.records)
    sentences = []
    if totals["out_of_memory"]:
        sentences.append(f"Memory ran out {counted(totals['out_of_memory'], 'time')}; the microbatch became smaller.")
    if totals["fallbacks"]:
        sentences.append(f"Training went back to good parameters {counted(totals['fallbacks'], 'time')}.")
    if skipped:
        sentences.append(f"{counted(skipped, 'step')} of the optimiser were skipped because something was not finite.")
    return sentences + [sign.sentence for sign in signs(run.records)[:1]]
