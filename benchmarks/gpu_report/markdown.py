"""gpu_report.md: the report for people, to be put in place of the section on GPUs of docs/benchmarks.md."""

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.gpu_report.parts import PARTS
from benchmarks.gpu_report.report_file import Facts, Report, Result
from longstride.text import format_bytes


def markdown(report: Report) -> str:
    """Return the whole report."""
    lines = ["# Figures of a GPU", *_machine(report.facts), "", *table(("part", "state", "s", "why"), _states(report))]
    for part in PARTS:
        result = report.results.get(part.name)
        if result is not None and result.lines:
            lines += ["", f"## {part.title}", *_source(part.name, result), "", *result.lines]
    return "\n".join(lines) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return a Markdown table; what is None is a dash."""
    lines = [list(head), ["---"] * len(head), *([_cell(value) for value in row] for row in rows)]
    first, second, *rest = ("| " + " | ".join(line) + " |" for line in lines)
    return [first, second.replace(" ", ""), *rest]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    text = f"{value:.3g}" if isinstance(value, float) and abs(value) < 1000 else str(value)
    return " ".join(text.replace("|", "\\|").split())


def _machine(facts: Facts) -> list[str]:
    if facts.get("rehearsal"):
        return ["**A rehearsal on the CPU, at small sizes: no figure here is one of a GPU.**"]
    if not facts.get("card"):
        return [f"**Nothing of a GPU was measured here: {facts.get('no_gpu') or 'there is none'}.**"]
    size, others = facts.get("card_bytes"), facts.get("other_processes")
    card = f"{facts['card']} ({format_bytes(size)})" if size else facts["card"]
    busy = f", {others} other processes on the card" if others else ""
    return [
        f"`python scripts/gpu_report.py`: {card}, driver {facts.get('driver') or 'unknown'}, torch {facts['torch']}, "
        f"Python {facts['python']}, {facts['cores']} cores{busy}."
    ]


def _states(report: Report) -> Iterable[Sequence[Any]]:
    for part in PARTS:
        result = report.results.get(part.name)
        if result is None:
            yield part.name, "not run", None, None
        else:
            yield part.name, result.state, f"{result.seconds:.0f}" if result.seconds else None, result.why or None


def _source(name: str, result: Result) -> list[str]:
    unfinished = "" if result.state == "done" else f" **{result.state.capitalize()}**: {result.why.rstrip('.')}."
    return [f"`python scripts/gpu_report.py --only {name}`, {result.date}.{unfinished}"]
