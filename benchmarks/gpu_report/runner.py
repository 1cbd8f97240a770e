"""Runs parts one after the other, each in a process of its own, within the time that there is."""

import importlib.util
import json
import shutil
import tarfile
import time
from collections.abc import Callable, Collection, Iterable
from datetime import date
from pathlib import Path
from typing import NamedTuple

from benchmarks.gpu_report.markdown import markdown
from benchmarks.gpu_report.parts import Part
from benchmarks.gpu_report.process import last_words, python, run
from benchmarks.gpu_report.report_file import Facts, Report, Result, write_json, write_report, write_text
from longstride.text import Say

FACTS_SECONDS = 120.0
"""Time limit for asking what machine this is: torch is imported, CUDA starts."""

FINAL = ("done", "failed", "timed out")
"""States in which a part has run."""


class Files(NamedTuple):
    """Where a report lies."""

    directory: Path

    @property
    def json(self) -> Path:
        """All figures."""
        return self.directory / "gpu_report.json"

    @property
    def packed(self) -> Path:
        """The report and the output of its parts in one file."""
        return self.directory / "gpu_report.tgz"

    @property
    def markdown(self) -> Path:
        """The same for people."""
        return self.directory / "gpu_report.md"

    def log(self, name: str) -> Path:
        """Return the file of a part's output."""
        return self.directory / "parts" / f"{name}.log"

    def part(self, name: str) -> Path:
        """Return the file that a part writes."""
        return self.directory / "parts" / f"{name}.json"

    def folder(self, name: str) -> Path:
        """Return a folder for what else a part makes."""
        return self.directory / "parts" / name


def ask_facts(files: Files, rehearsal: bool) -> Facts:
    """Return the facts of this machine, asked for in another process: this one takes no memory of the card."""
    file, log = files.part("facts"), files.log("facts")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    ended = run(python("-m", "benchmarks.gpu_report.child", "facts", str(file)), log, FACTS_SECONDS)
    if ended.code == 0:
        return {**json.loads(file.read_text(encoding="utf-8")), "rehearsal": rehearsal}
    why = last_words(ended.code, log, FACTS_SECONDS)
    return {"card": None, "no_gpu": f"nothing could be asked of torch: {why}", "rehearsal": rehearsal}


class Runner:
    """Runs parts and keeps the report after each of them.

    ``seconds`` are those for all parts together; the clock returns seconds.
    """

    def __init__(
        self, report: Report, files: Files, seconds: float, say: Say, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.report, self._files, self._say, self._clock = report, files, say, clock
        self._end = clock() + seconds

    def run(self, parts: Iterable[Part], again: Collection[str] = ()) -> None:
        """Run the parts that are not done, or are to run again."""
        for part in parts:
            before = self.report.results.get(part.name)
            if before and before.state == "done" and part.name not in again:
                self._say(f"{part.name}: done before ({before.date}).")
                continue
            result = self._result(part)
            if result.state == "no time left" and before and before.state in FINAL:
                self._say(f"{part.name}: {result.state}; {before.state} before.")
                continue
            self.report.results[part.name] = result._replace(date=date.today().isoformat())
            self.write()
            self._say(sentence(part, result))

    def write(self) -> None:
        """Write the report as JSON and as Markdown."""
        write_report(self._files.json, self.report)
        write_text(self._files.markdown, markdown(self.report))

    def pack(self) -> None:
        """Write one file of everything but checkpoints."""
        with tarfile.open(self._files.packed, "w:gz") as packed:
            for file in filter(Path.exists, (self._files.json, self._files.markdown, self._files.log("").parent)):
                packed.add(file, f"gpu_report/{file.name}", filter=_without_checkpoints)

    def _result(self, part: Part) -> Result:
        if why := why_skipped(part, self.report.facts):
            return Result("skipped", why)
        left = self._end - self._clock()
        if left < part.seconds:
            return Result("no time left", f"it may take {part.seconds} s, and {max(left, 0):.0f} s were left")
        self._say(f"{part.name}: {part.title}, at most {part.seconds} s ...")
        return run_part(part, self.report.facts, self._files)


def _without_checkpoints(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if {"checkpoints", "best"} & {*Path(member.name).parts} else member


def run_part(part: Part, facts: Facts, files: Files) -> Result:
    """Run a part in a process of its own."""
    device = "cuda" if facts.get("card") else "cpu"
    file, log, folder = files.part(part.name), files.log(part.name), files.folder(part.name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_json(file, {"figures": {}, "lines": [], "problem": ""})
    small = ["--small"] if facts.get("rehearsal") else []
    arguments = ["part", part.module, json.dumps(dict(part.arguments)), device, str(file), str(folder), *small]
    # On busy cores several threads of torch wait for one another, longer than a rehearsal's small tensors take.
    more = {"OMP_NUM_THREADS": "1"} if device == "cpu" else {}
    ended = run(python("-m", "benchmarks.gpu_report.child", *arguments), log, part.seconds, more)
    found = json.loads(file.read_text(encoding="utf-8"))
    result = Result("done", "", ended.seconds, found["figures"], tuple(found["lines"]))
    if ended.code == 0:
        return result
    why = last_words(ended.code, log, part.seconds)
    if ended.code == 1 and found["problem"]:
        why = found["problem"]
    return result._replace(state="timed out" if ended.code is None else "failed", why=why)


def why_skipped(part: Part, facts: Facts) -> str:
    """Return why a part cannot run here; empty if it can."""
    rehearsed = facts.get("rehearsal") and part.rehearses
    if part.needs_gpu and not facts.get("card") and not rehearsed:
        return f"it needs an NVIDIA GPU, and {facts.get('no_gpu') or 'there is none'}"
    if not rehearsed and part.needs_gpu and facts.get("cards", 1) < part.cards:
        return f"it needs {part.cards} GPUs, and there is one"
    missing = [name for name in part.packages if importlib.util.find_spec(name) is None]
    return f"it needs {' and '.join(missing)}, not installed here" if missing else ""


def sentence(part: Part, result: Result) -> str:
    """Return what became of a part."""
    if result.state == "done":
        return f"{part.name}: done in {result.seconds:.0f} s."
    return f"{part.name}: {result.state}: {result.why.rstrip('.')}."
