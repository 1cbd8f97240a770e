"""gpu_report.json: what each part found, kept after each of them."""

import json
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

from longstride.errors import UserError

FORMAT = 1
"""Counts up when a name in the file changes its meaning."""

State = Literal["done", "failed", "timed out", "skipped", "no time left"]
Facts = dict[str, Any]

SAME = ("card", "driver", "torch", "python", "rehearsal")
"""Facts of a machine without which figures do not belong in one report."""


class Result(NamedTuple):
    """What became of a part: why it is not done, its seconds, what it measured, and that as lines of Markdown."""

    state: State
    why: str = ""
    seconds: float = 0.0
    figures: dict[str, Any] = {}  # noqa: RUF012 - a NamedTuple's default, never changed
    lines: tuple[str, ...] = ()
    date: str = ""


class Report(NamedTuple):
    """The facts of a machine, and the results by the names of their parts."""

    facts: Facts
    results: dict[str, Result]


def open_report(path: Path, facts: Facts, fresh: bool) -> Report:
    """Return the report that a file holds of this machine, or a new one.

    A report of a machine without a GPU has no figures to lose: another machine's takes its place.

    Raises:
        UserError: the file is damaged, or of another card, driver, torch or Python.
    """
    if fresh or not path.exists():
        return Report(facts, {})
    before = _read(path)
    changed = [name for name in SAME if before.facts.get(name) != facts.get(name)]
    if not changed:
        return Report(facts, before.results)
    if not before.facts.get("card"):
        return Report(facts, {})
    name = changed[0]
    raise UserError(
        f"{path} is of another machine ({name}: {before.facts.get(name) or 'none'} there, {facts.get(name) or 'none'} "
        "here); name another --directory, or add --fresh to replace it."
    )


def write_report(path: Path, report: Report) -> None:
    """Replace the file, so that readers see the old content or the new."""
    parts = {name: result._asdict() for name, result in report.results.items()}
    write_json(path, {"format": FORMAT, "facts": report.facts, "parts": parts})


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace a file of JSON as a whole; what JSON cannot hold becomes text."""
    write_text(path, json.dumps(content, indent=1, default=str) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace a file as a whole."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def _read(path: Path) -> Report:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        results = {name: _result(values) for name, values in content["parts"].items()}
        report = Report(dict(content["facts"]), results)
        if content["format"] != FORMAT:
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(
            f"{path} is damaged or of another version; name another --directory, or add --fresh to replace it."
        ) from None
    return report


def _result(values: dict[str, Any]) -> Result:
    return Result(**{**values, "lines": tuple(values["lines"])})
