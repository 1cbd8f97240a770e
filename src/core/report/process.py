"""What a trained policy does in a process: queues, cycle times, a day, and when it postpones."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from core.report.charts import STYLE, draw
from core.report.page import Block, Cell, Figure, Section, Table, Text
from core.report.people import hours_table, work_table
from core.simulators.process.simulator import ProcessSimulator
from core.text import scale_of
from core.training.evaluation.process_trace import Trace

_POINTS, _PERIODS = 6000, 120
"""Times at which a queue is looked at, and periods that are shown."""

_HOURS_OF_A_DAY = 24.0

Traces = Mapping[str, Trace]


def process_section(simulator: ProcessSimulator, traces: Traces) -> Section:
    """Return the figures of one episode, the same cases under every policy; the first policy is the trained one."""
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
    """Return int64[times], the tasks that wait at each time, of one activity or of all."""
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
    """Return float64[cases], the time of each case that arrived after the warm-up; open cases with their age."""
    counted = trace.arrivals >= warmup
    ends = np.where(np.isnan(trace.completions), trace.end, trace.completions)
    return np.asarray((ends - trace.arrivals)[counted])


def _axis(simulator: ProcessSimulator, end: float) -> tuple[float, str]:
    """Return what times are multiplied by for an axis, and its label."""
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
            axes.plot(middle, waiting, color=colour, linewidth=1.4, label=f"{name}, mean {waiting.mean():,.3g}")
            axes.set_xlabel(label)
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
            left.hist(values, bins=bins, weights=weights, histtype="step", color=colour, linewidth=1.4, label=name)
            shares = 100.0 * np.arange(1, len(values) + 1) / max(len(values), 1)
            step = max(1, len(values) // 400)
            right.plot(values[::step], shares[::step], color=colour, linewidth=1.4, label=name)
        for axes, label in ((left, "% of the cases"), (right, "% of the cases done within")):
            axes.set_xlim(0.0, longest)
            axes.set_xlabel(f"cycle time{scale.suffix and f', {scale.unit}'}")
            axes.set_ylabel(label)
            axes.grid(color=STYLE.grid, linewidth=0.6)
        right.legend(fontsize="small", frameon=False)

    means = ", ".join(f"{name} {scale.show(float(of.mean()))}" for name, of in times.items() if len(of))
    caption = f"Mean of this episode: {means}. The longest 2 % are not shown."
    return Figure("Distribution of cycle times", draw("cycle-times", 3.0, paint), caption)


def day_of(simulator: ProcessSimulator, trace: Trace) -> tuple[float, float, str]:
    """Return begin and end of the stretch that is shown task by task, and its name.

    It is the first day of the second half on which the most time is on duty, or with an abstract unit of time a
    stretch of twenty mean service times.
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


def _days(simulator: ProcessSimulator, traces: Traces) -> list[Block]:
    """Return who worked on what when in a day, a picture for each policy."""
    begin, end, name = day_of(simulator, next(iter(traces.values())))
    return [
        _gantt(simulator, trace, (begin, end), f"{name} under {policy}", i)
        for i, (policy, trace) in enumerate(traces.items())
    ]


def _gantt(simulator: ProcessSimulator, trace: Trace, stretch: tuple[float, float], title: str, number: int) -> Figure:
    scenario, (begin, end) = simulator.scenario, stretch
    with_hours = scenario.time_unit != "abstract"
    factor = 1.0 / scenario.hour if with_hours else 1.0
    inside = trace.tasks[(trace.tasks["finish"] > begin) & (trace.tasks["start"] < end)]

    def paint(figure: Any) -> None:
        axes, people = figure.add_subplot(), scenario.resources
        for shift in trace.on_duty[(trace.on_duty["end"] > begin) & (trace.on_duty["start"] < end)]:
            span = np.clip((shift["start"], shift["end"]), begin, end) - begin
            axes.broken_barh(
                [(span[0] * factor, (span[1] - span[0]) * factor)],
                (shift["resource"] - 0.45, 0.9),
                color=STYLE.grid,
                alpha=0.6,
            )
        for a, activity in enumerate(scenario.activities):
            own = inside[inside["activity"] == a]
            starts, ends = (np.clip(own[name], begin, end) - begin for name in ("start", "finish"))
            for resource in np.unique(own["resource"]):
                at = own["resource"] == resource
                bars = list(zip(starts[at] * factor, (ends - starts)[at] * factor, strict=True))
                label = activity if resource == own["resource"].min() else None
                colour = STYLE.series[a % len(STYLE.series)]
                hatch = "////" if a >= len(STYLE.series) else None
                axes.broken_barh(bars, (resource - 0.36, 0.72), color=colour, hatch=hatch, label=label, linewidth=0)
        axes.set_yticks(range(len(people)), people, fontsize="small")
        axes.set_ylim(len(people) - 0.4, -0.6)
        if with_hours:
            _limit_to_duty(axes, trace, begin, end, factor)
        axes.set_xlabel("hour of the day" if with_hours else "time")
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize="x-small", frameon=False)

    height = 1.4 + 0.19 * len(scenario.resources) + 0.16 * -(-len(scenario.activities) // 5)
    caption = f"{len(inside):,} tasks, a colour for each activity; grey is time on duty." if number == 0 else ""
    return Figure(title, draw(f"day{number}", height, paint), caption)


def _limit_to_duty(axes: Any, trace: Trace, begin: float, end: float, factor: float) -> None:
    """Show the hours in which somebody is on duty or at work, half an hour more at each end."""
    shifts = trace.on_duty[(trace.on_duty["end"] > begin) & (trace.on_duty["start"] < end)]
    tasks = trace.tasks[(trace.tasks["finish"] > begin) & (trace.tasks["start"] < end)]
    starts = np.concatenate([shifts["start"], tasks["start"]])
    ends = np.concatenate([shifts["end"], tasks["finish"]])
    if len(starts):
        low, high = (float(np.clip(t, begin, end) - begin) * factor for t in (starts.min(), ends.max()))
        axes.set_xlim(max(0.0, low - 0.5), min(24.0, high + 0.5))


_WAITING = ((1, 1), (2, 3), (4, 7), (8, 15), (16, 31), (32, 10**9))
_FREE = ((1, 1), (2, 2), (3, 3), (4, 5), (6, 10**9))
"""Ranges of the tasks that wait, and of the people who are free, at a decision."""


def _postponing(simulator: ProcessSimulator, trace: Trace) -> list[Block]:
    """Return when the trained policy leaves work undone although somebody could do it."""
    decisions = trace.decisions
    postponed = decisions["pair"] < 0
    share = 100.0 * postponed.mean() if len(decisions) else 0.0
    sentence = (
        f"The trained policy postpones {share:.1f} % of its {len(decisions):,} decisions in this episode: somebody is "
        "free who could work on a task that waits, and the policy waits for somebody better."
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
