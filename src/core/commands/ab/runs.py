"""The runs of a comparison: made once, each in its folder, and kept when the command is given again.

Each runs in a fresh process: it starts as a user's would, with nothing left from the one before.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import core
from core.commands.ab.report import Records, played_the_same, run_figures
from core.commands.ab.side import Side
from core.errors import UserError
from core.training.run_directory.files import write_json
from core.training.run_directory.lock import RunLock
from core.training.run_directory.metrics_log import read_metrics

_COMMAND = "import sys; from core.commands.cli import main; sys.exit(main())"


@dataclass(frozen=True)
class SideRun:
    """The run of one side in one pair."""

    side: Side
    pair: int  # number of the pair, from 1
    seed: int
    comparison: Path  # folder of the comparison

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self.comparison / f"pair-{self.pair}" / self.side.name

    @property
    def result_file(self) -> Path:
        """The file that exists once the run has ended well."""
        return self.directory.with_suffix(".json")

    @property
    def done(self) -> bool:
        """Whether the run has ended well."""
        return self.result_file.is_file()

    def train(self) -> None:
        """Train in a fresh process; the rest of an interrupted attempt is removed, because its times are spoilt.

        Raises:
            UserError: the run failed, or another process still trains in its folder.
        """
        if self.directory.exists():
            RunLock(self.directory).release()
            shutil.rmtree(self.directory)
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        log = self.directory.with_suffix(".log")
        arguments = self.side.arguments("train", self.directory, seed=str(self.seed))
        code, seconds = run_fresh(arguments, log)
        if code:
            failed = f"Side {self.side.name.upper()} failed in pair {self.pair}"
            raise UserError(f"{failed}: {last_words(code, log)} All of it: {log}.")
        write_json(self.result_file, {"arguments": arguments, "seconds": seconds})

    def plan(self) -> dict[str, Any]:
        """Return the content of the run's plan.json."""
        return dict(json.loads((self.directory / "plan.json").read_text(encoding="utf-8")))

    def read(self, metric: str) -> tuple[dict[str, Any], Records]:
        """Return the figures and the records of a finished run of a simulator with this main metric.

        Raises:
            UserError: the run has no iteration that counts.
        """
        records = read_metrics(self.directory)
        if len(records) < 2:
            raise UserError(
                f"Side {self.side.name.upper()} has {len(records)} iteration(s) in pair {self.pair}, and the first one "
                "warms up; let it train for longer."
            )
        seconds = json.loads(self.result_file.read_text(encoding="utf-8"))["seconds"]
        return run_figures(records, seconds, metric, self.plan()["batch_size"]), records


def probe(side: Side, directory: Path) -> None:
    """Plan a side in a fresh process, which finds what this machine or simulator will refuse.

    Raises:
        UserError: the plan is refused; the message is its own.
    """
    folder = directory / "plans"
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{side.name}.log"
    code, _ = run_fresh(side.arguments("plan", folder / side.name, time_budget=""), log)
    if code:
        raise UserError(f"--{side.name}: {last_words(code, log)}")


def read_pair(a: SideRun, b: SideRun, metrics: tuple[str, str]) -> dict[str, Any]:
    """Return JSON values about a finished pair, from the main metric of each side's simulator.

    Raises:
        UserError: a run has no iteration that counts.
    """
    (figures_a, records_a), (figures_b, records_b) = a.read(metrics[0]), b.read(metrics[1])
    same = played_the_same(records_a, records_b)
    return {"seed": a.seed, "first": order(a.pair)[0], "a": figures_a, "b": figures_b, "played_the_same": same}


def order(pair: int) -> str:
    """Return which side runs first in a pair: they alternate, so that a machine that slows down favours neither."""
    return "ab" if pair % 2 else "ba"


def run_fresh(arguments: Sequence[str], log: Path) -> tuple[int, float]:
    """Run a command in a process of its own, its output in ``log``; return its exit code and its seconds.

    If this process is interrupted or terminated, so is that one.
    """
    sources = str(Path(core.__file__).parents[1])
    path = os.pathsep.join(filter(None, (sources, os.environ.get("PYTHONPATH"))))
    begin = time.perf_counter()
    with _terminated_by_exception(), log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C comes to us alone: a run that is measured is not finished gently
        )
        try:
            return process.wait(), time.perf_counter() - begin
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()


def last_words(code: int, log: Path) -> str:
    """Return why a command failed: its error, else its signal (a negative code), or its exit code and last line."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if errors:
        return errors[-1]
    if code < 0:
        return f"signal {-code} ended it."
    return f"exit code {code}{f', {lines[-1]}' if lines else ''}."


@contextmanager
def _terminated_by_exception() -> Iterator[None]:
    """Let SIGTERM and a closed terminal do what Ctrl-C does, so that no child process stays behind."""
    names = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    previous = {n: signal.getsignal(n) for n in numbers if signal.getsignal(n) is not signal.SIG_IGN}  # nohup
    for number in previous:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
