"""Figures about a trained policy in a process: queues, cycle times, a day, and postponed decisions."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from longstride.escaping import plot_text
from longstride.process.report.people import hours_table, work_table
from longstride.process.report.trace import Trace
from longstride.process.simulator import ProcessSimulator
from longstride.report.charts import STYLE, draw
from longstride.report.page import Block, Cell, Figure, Section, Table, Text
from longstride.text import scale_of

_POINTS, _PERIODS = 6000, 120
"""Times at which queues are sampled, and periods that are shown."""

_HOURS_OF_A_DAY = 24.0

Traces = Mapping[str, Trace]


def process_section(simulator: ProcessSimulator, traces: Traces) -> Section:
    """Return the figures of one episode with the same cases under every policy; the first policy is the trained one."""
    blocks: list[Block] = [
        Text([f"One episode of the evaluation, with the same cases under {', '.join(traces)}."]),
        hours_table(simulator, traces),
        _queue_figure(simulator, traces),
        _queue_table(simulator, traces),
        _cycle_time_figure(simulator, traces),
        *_days(simulator, traces),
        work_table(simulator, traces),
        *_postponing(simulator, next(iter(traces.values()))),
    ]
    return Section("process", "People and cases", blocks)


def waiting_tasks(trace: Trace, times: np.ndarray, activity: int | None = None) -> np.ndarray:
    """Return int64[times], the number of waiting tasks at each time, of one activity or of all."""
    tasks, left = trace.tasks, trace.waiting
    if activity is not None:
        tasks, left = tasks[tasks["activity"] == activity], left[left["activity"] == activity]
    enabled = np.sort(np.concatenate([tasks["enabled"], left["enabled"]]))
    return np.searchsorted(enabled, times, "right") - np.searchsorted(np.sort(tasks["start"]), times, "right")


def mean_waiting(trace: Trace, activity: int) -> float:
    """Return the mean number of tasks that wait for an activity, over the whole episode."""
    tasks = trace.tasks[trace.tasks["activity"] == activity]
    left = trace.waiting[trace.waiting["activity"] == activity]
    waited = (tasks["start"] - tasks["enabled"]).sum() + (trace.end - left["enabled"]).sum()
    return float(waited / trace.end)


def cycle_times(trace: Trace, warmup: float) -> np.ndarray:
    """Return float64[cases], the cycle time of each case that arrived after the warm-up; open cases have their age."""
    counted = trace.arrivals >= warmup
    ends = np.where(np.isnan(trace.completions), trace.end, trace.completions)
    return np.asarray((ends - trace.arrivals)[counted])


def _axis(simulator: ProcessSimulator, end: float) -> tuple[float, str]:
    """Return the factor of times for an axis, and the axis's label."""
    if simulator.scenario.time_unit == "abstract":
        return 1.0, "time"
    days = end / simulator.scenario.hour / _HOURS_OF_A_DAY
    return (1.0 / simulator.scenario.hour / 24.0, "day") if days > 3 else (1.0 / simulator.scenario.hour, "hour")


def _queue_figure(simulator: ProcessSimulator, traces: Traces) -> Figure:
    def paint(figure: Any) -> None:
        axes = figure.add_subplot()
        for colour, (name, trace) in zip(STYLE.series, traces.items(), strict=False):
            factor, label = _axis(simulator, trace.end)
            times = (np.arange(_POINTS) + 0.5) * trace.end / _POINTS
            waiting = waiting_tasks(trace, times).reshape(_PERIODS, -1).mean(axis=1)
            middle = times.reshape(_PERIODS, -1).mean(axis=1) * factor
            axes.plot(
                middle, waiting, color=colour, linewidth=1.4, label=plot_text(f"{name}, mean {waiting.mean():,.3g}")
            )
            axes.set_xlabel(plot_text(label))
        axes.set_ylabel("tasks that wait")
        axes.set_ylim(bottom=0)
        axes.grid(color=STYLE.grid, linewidth=0.6)
        axes.legend(fontsize="small", frameon=False)

    caption = f"All queues together; the episode is cut into {_PERIODS} periods, and each point is the mean of one."
    return Figure("Queues over time", draw("queues", 3.0, paint), caption)


def _queue_table(simulator: ProcessSimulator, traces: Traces) -> Table:
    """Return the mean queue of each activity under each policy."""
    means = {
        name: [mean_waiting(t, a) for a in range(len(simulator.scenario.activities))] for name, t in traces.items()
    }
    most = max(max(values) for values in means.values()) or 1.0
    rows = [
        [Cell(activity), *(Cell(f"{of[a]:.2f}", heat=of[a] / most) for of in means.values())]
        for a, activity in enumerate(simulator.scenario.activities)
    ]
    return Table("Mean number of waiting tasks by activity", ["activity", *means], rows)


def _cycle_time_figure(simulator: ProcessSimulator, traces: Traces) -> Figure:
    warmup = simulator.scenario.warmup
    times = {name: cycle_times(trace, warmup) for name, trace in traces.items()}
    first = next(iter(times.values()))
    scale = scale_of(simulator.unit_of("mean_cycle_time"), float(first.mean()) if len(first) else 0.0)

    def paint(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        longest = max(np.quantile(of, 0.98) for of in times.values() if len(of)) * scale.factor
        bins = np.linspace(0.0, longest, 49)
        for colour, (name, of) in zip(STYLE.series, times.items(), strict=False):
            values = np.sort(of) * scale.factor
            weights = np.full(len(values), 100.0 / max(len(values), 1))
            left.hist(
                values, bins=bins, weights=weights, histtype="step", color=colour, linewidth=1.4, label=plot_text(name)
            )
            shares = 100.0 * np.arange(1, len(values) + 1) / max(len(values), 1)
            step = max(1, len(values) // 400)
            right.plot(values[::step], shares[::step], color=colour, linewidth=1.4, label=plot_text(name))
        for axes, label in ((left, "% of the cases"), (right, "% of the cases done within")):
            axes.set_xlim(0.0, longest)
            axes.set_xlabel(scale.header("cycle time"))
            axes.set_ylabel(label)
            axes.grid(color=STYLE.grid, linewidth=0.6)
        right.legend(fontsize="small", frameon=False)

    means = ", ".join(f"{name} {scale.show(float(of.mean()))}" for name, of in times.items() if len(of))
    caption = f"Mean of this episode: {means}. The longest 2 % are not shown."
    return Figure("Distribution of cycle times", draw("cycle-times", 3.0, paint), caption)


def day_of(simulator: ProcessSimulator, trace: Trace) -> tuple[float, float, str]:
    """Return begin, end and name of the stretch that is shown task by task.

    It is the day of the second half with the most time on duty, the first of several; with an abstract unit of time it
    is a stretch of twenty mean service times.
    """
    scenario = simulator.scenario
    if scenario.time_unit == "abstract":
        begin = trace.end / 2
        return begin, min(trace.end, begin + 20.0 * float(simulator.parameters.service_unit)), "A stretch of time"
    day = _HOURS_OF_A_DAY * scenario.hour
    first = int(trace.end / 2 / day)
    days = [d for d in range(first, first + 7) if (d + 1) * day <= trace.end] or [0]

    def on_duty(d: int) -> float:
        shifts = trace.on_duty
        overlap = np.minimum(shifts["end"], (d + 1) * day) - np.maximum(shifts["start"], d * day)
        return float(np.maximum(overlap, 0.0).sum())

    chosen = max(days, key=on_duty)
    names = "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"
    return chosen * day, (chosen + 1) * day, f"{names[chosen % 7]} of week {chosen // 7 + 1}"


class _Stretch(NamedTuple):
    """A stretch of time that is shown task by task; times in the scenario's unit."""

    begin: float
    end: float
    shown: tuple[float, float]  # limits of the axis, in hours since the begin, or in time units

    def inside(self, rows: np.ndarray, end: str) -> np.ndarray:
        """Return the records that lie in the stretch at least in part; ``end`` is the name of their end's field."""
        return rows[(rows[end] > self.begin) & (rows["start"] < self.end)]

    def clip(self, times: np.ndarray) -> np.ndarray:
        """Return times since the begin, clipped to the stretch."""
        return np.asarray(np.clip(times, self.begin, self.end) - self.begin)


def _days(simulator: ProcessSimulator, traces: Traces) -> list[Block]:
    """Return a picture of people's tasks in a day for each policy, with the same axis."""
    begin, end, name = day_of(simulator, next(iter(traces.values())))
    whole = _Stretch(begin, end, (0.0, 0.0))
    factor = _hours(simulator)
    edges = [
        whole.clip(np.concatenate([rows["start"], rows[ends]])) * factor
        for trace in traces.values()
        for rows, ends in ((whole.inside(trace.on_duty, "end"), "end"), (whole.inside(trace.tasks, "finish"), "finish"))
    ]
    at = np.concatenate(edges)
    shown = (max(0.0, at.min() - 0.3), min((end - begin) * factor, at.max() + 0.3)) if len(at) else (0.0, 1.0)
    stretch = whole._replace(shown=shown)
    return [_gantt(simulator, t, stretch, f"{name} under {policy}", i) for i, (policy, t) in enumerate(traces.items())]


def _hours(simulator: ProcessSimulator) -> float:
    """Return the hours of a time unit; 1 if the unit is abstract."""
    return 1.0 if simulator.scenario.time_unit == "abstract" else 1.0 / simulator.scenario.hour


def _gantt(simulator: ProcessSimulator, trace: Trace, stretch: _Stretch, title: str, number: int) -> Figure:
    scenario, factor = simulator.scenario, _hours(simulator)
    tasks, work = stretch.inside(trace.tasks, "finish"), stretch.inside(trace.work, "end")

    def bars(rows: np.ndarray, end: str) -> list[tuple[float, float]]:
        starts, ends = stretch.clip(rows["start"]) * factor, stretch.clip(rows[end]) * factor
        return list(zip(starts.tolist(), (ends - starts).tolist(), strict=True))

    def paint(figure: Any) -> None:
        axes = figure.add_subplot()
        shifts = stretch.inside(trace.on_duty, "end")
        for r in np.unique(shifts["resource"]):
            own = bars(shifts[shifts["resource"] == r], "end")
            axes.broken_barh(own, (r - 0.45, 0.9), color=STYLE.grid, alpha=0.6)
        for a, activity in enumerate(scenario.activities):
            label: str | None = plot_text(activity)
            hatch = "////" if a >= len(STYLE.series) else None
            for r in np.unique(work["resource"][work["activity"] == a]):
                own = bars(work[(work["activity"] == a) & (work["resource"] == r)], "end")
                colour = STYLE.series[a % len(STYLE.series)]
                axes.broken_barh(own, (r - 0.36, 0.72), color=colour, hatch=hatch, label=label, linewidth=0)
                label = None
        axes.set_yticks(range(len(scenario.resources)), list(map(plot_text, scenario.resources)), fontsize="small")
        axes.set_ylim(len(scenario.resources) - 0.4, -0.6)
        axes.set_xlim(*stretch.shown)
        axes.set_xlabel("time" if scenario.time_unit == "abstract" else "hour of the day")
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize="x-small", frameon=False)

    height = 1.4 + 0.19 * len(scenario.resources) + 0.16 * -(-len(scenario.activities) // 5)
    caption = f"{len(tasks):,} tasks, a colour for each activity; grey is time on duty." if number == 0 else ""
    return Figure(title, draw(f"day{number}", height, paint), caption)


_WAITING = ((1, 1), (2, 3), (4, 7), (8, 15), (16, 31), (32, 10**9))
_FREE = ((1, 1), (2, 2), (3, 3), (4, 5), (6, 10**9))
"""Ranges of the numbers of waiting tasks and of free people at a decision."""


def _postponing(simulator: ProcessSimulator, trace: Trace) -> list[Block]:
    """Return a sentence and tables about decisions at which the trained policy postpones feasible work."""
    decisions = trace.decisions
    postponed = decisions["pair"] < 0
    share = 100.0 * postponed.mean() if len(decisions) else 0.0
    sentence = (
        f"The trained policy postpones {share:.1f} % of its {len(decisions):,} decisions in this episode: a free "
        "person could work on a waiting task, but the policy waits for a better person."
    )
    if not postponed.any():
        return [Text([f"The trained policy never postpones in this episode of {len(decisions):,} decisions."])]
    rows = []
    for least, most in _WAITING:
        waiting = (decisions["waiting"] >= least) & (decisions["waiting"] <= most)
        if waiting.any():
            free = [waiting & (decisions["free"] >= a) & (decisions["free"] <= b) for a, b in _FREE]
            rows.append(
                [Cell(_range(least, most)), *(_share(postponed, at) for at in free), _share(postponed, waiting)]
            )
    headers = ["tasks that wait", *(f"{_range(a, b)} free" for a, b in _FREE), "all"]
    caption = (
        "Share of the decisions that postpone, by the tasks that wait and the people who are free; below it the number "
        "of decisions."
    )
    return [Text([sentence]), Table("When the policy postpones", headers, rows, caption), *_by_hour(simulator, trace)]


def _by_hour(simulator: ProcessSimulator, trace: Trace) -> list[Block]:
    if simulator.scenario.time_unit == "abstract":
        return []
    hours = (trace.decisions["time"] / simulator.scenario.hour % _HOURS_OF_A_DAY).astype(np.int64)
    postponed = trace.decisions["pair"] < 0
    used = [h for h in range(24) if (hours == h).any()]
    row = [Cell("postponed"), *(_share(postponed, hours == h) for h in used)]
    return [Table("Postponed decisions by hour of the day", ["", *(f"{h}" for h in used)], [row])]


def _share(postponed: np.ndarray, where: np.ndarray) -> Cell:
    if not where.any():
        return Cell("-")
    share = float(postponed[where].mean())
    return Cell(f"{100 * share:.0f} %", heat=share, note=f"{where.sum():,}")


def _range(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least} or more" if most >= 10**9 else f"{least} to {most}"
