"""Runs tests that need a GPU, one after the other in one process, and counts them while they run."""

import re
import subprocess
from collections.abc import Iterable, Sequence

from benchmarks.gpu_report.markdown import table
from benchmarks.gpu_report.parts import Figures, Task
from benchmarks.gpu_report.process import ROOT, environment, python

_RESULT = re.compile(r"(?P<test>\S+::.+?) (?P<state>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b")
_SUMMARY = re.compile(r"(FAILED|ERROR) (?P<test>\S+::.+?)(?: - (?P<why>.*))?$")

NOTHING_RAN = 5
"""Exit code of pytest where it found no test."""


def measure(task: Task, arguments: Sequence[str], marked: str = "gpu") -> Figures:
    """Run tests with a mark; return how many passed, and why others did not."""
    command = python("-m", "pytest", "-v", "-p", "no:cacheprovider", "--color=no", "-m", marked, *arguments)
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**environment(), "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    figures = counted(_echoed(process.stdout), task.keep)
    code = process.wait()
    return {**figures, "exit_code": code, "problem": problem(figures, code)}


def counted(output: Iterable[str], keep) -> Figures:
    """Return the tests by what became of them, kept after each; failures have their reason once pytest ends."""
    states: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for line in output:
        if match := _RESULT.search(line):
            states[match["test"]] = match["state"]
            keep(_figures(states, reasons))
        elif match := _SUMMARY.match(line.strip()):
            states[match["test"]] = "FAILED"
            reasons[match["test"]] = match["why"] or ""
    return _figures(states, reasons)


def problem(figures: Figures, code: int) -> str:
    """Return why the tests did not all pass; empty if they did."""
    if figures["failed"]:
        return f"{len(figures['failed'])} of {sum(figures['counts'].values())} tests failed"
    if code == NOTHING_RAN:
        return "pytest found no test"
    return f"pytest ended with exit code {code}" if code else ""


def lines(figures: Figures) -> list[str]:
    """Return the figures as Markdown."""
    counts = ", ".join(f"{count} {state.lower()}" for state, count in figures.get("counts", {}).items())
    failed = figures.get("failed", {})
    rows = [(test.partition("::")[2], why or None) for test, why in failed.items()]
    return [f"Tests: {counts or 'none ended'}.", *(["", *table(("failed", "why"), rows)] if rows else [])]


def _figures(states: dict[str, str], reasons: dict[str, str]) -> Figures:
    counts = {state: [*states.values()].count(state) for state in dict.fromkeys(states.values())}
    failed = [test for test, state in states.items() if state in ("FAILED", "ERROR")]
    return {"counts": counts, "failed": {test: reasons.get(test, "") for test in failed}}


def _echoed(output: Iterable[str]) -> Iterable[str]:
    for line in output:
        print(line, end="", flush=True)
        yield line
