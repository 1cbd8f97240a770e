"""--mode track: send a run's metrics.jsonl, settings and report to a service that shows runs, during it or after."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from longstride.commands.track.to_mlflow import MlflowRun, mlflow_target
from longstride.commands.track.to_wandb import WandbRun, wandb_target
from longstride.commands.track.tracker import RunFacts, Sent, Tracker, TrackingError, read_sent, write_sent
from longstride.errors import UserError
from longstride.text import Say, counted
from longstride.training.assembly.run_settings import values_of_a_run
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.lock import RunLock, is_locked
from longstride.training.run_directory.metrics_log import NewRecords

SERVICES: dict[str, tuple[Callable[[RunFacts, Sent], Tracker], Callable[[], str]]] = {
    "wandb": (WandbRun, wandb_target),
    "mlflow": (MlflowRun, mlflow_target),
}
"""What sends a run to each service, and where to."""

_POLL = 5.0
"""Seconds between two looks at a run that is followed."""

_REPORT_WAIT = 60.0
"""Seconds after the end of a training in which its report may still be written."""


def run_track(directory: str, service: str | None, follow: bool, say: Say) -> int:
    """Send what the service does not have yet, with ``follow`` until the training ends; return the exit code.

    The training knows nothing of it: this process reads its files.

    Raises:
        UserError: the directory holds no run, another process sends it, or the service's package is not installed.
        TrackingError: the service cannot be reached.
    """
    if not directory or service is None:
        raise UserError("--mode track needs --run-directory DIR and --to wandb or --to mlflow.")
    path = Path(directory)
    new, first = NewRecords(path), list[dict[str, Any]]()
    while not (first := new.read()) and follow and is_locked(path):
        time.sleep(_POLL)  # its first iteration is not over
    if not first:
        raise UserError(
            f"{path} has no {RunDirectory(path).metrics.name} with an iteration; name the directory of a run."
        )
    file = RunDirectory(path).tracking(service).with_suffix(".lock")
    lock = RunLock(path, file, f"sends it to {service}; wait for it, or stop it")
    try:
        return _send(path, service, new, first, follow, say)
    finally:
        lock.release()


def _send(path: Path, service: str, new: NewRecords, first: list[dict[str, Any]], follow: bool, say: Say) -> int:
    """Send the records ``first`` and those after them, unless the service has them; return the exit code."""
    open_run, target_of = SERVICES[service]
    file, target = RunDirectory(path).tracking(service), target_of()
    sent = read_sent(file, target)
    if not follow and sent.closed and first[-1]["iteration"] <= sent.iteration and not _changed_files(path, sent):
        say(f"Everything is there: {counted(sent.iteration, 'iteration')} in run {sent.run} of {target}.")
        return 0
    replay = _Replay(open_run(_facts(path, first), sent), sent, lambda: write_sent(file, target, sent), say)
    try:
        replay.send(first, retry=follow)
        was_training = follow and is_locked(path)
        while follow and is_locked(path):
            time.sleep(_POLL)
            replay.send(new.read(), retry=True)
        replay.send(new.read(), retry=False)
        if was_training:
            _wait_for_report(path)
        replay.send_files(_changed_files(path, sent))
    except BaseException:
        replay.close(ended=False)
        raise
    replay.close(ended=not is_locked(path))
    return 0


def _facts(directory: Path, records: list[dict[str, Any]]) -> RunFacts:
    """Return what a service is told of a run beside its metrics."""
    units = {name: unit for record in records for name, unit in record.get("units", {}).items()}
    return RunFacts(directory.resolve().name, directory, values_of_a_run(directory), units)


def _changed_files(directory: Path, sent: Sent) -> dict[Path, str]:
    """Return the report, the pictures and the evaluation that a service does not have as they are, with digests."""
    paths, changed = RunDirectory(directory), dict[Path, str]()
    for path in (paths.report, paths.learning_curve, paths.evaluation):
        if path.is_file():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if sent.files.get(path.name) != digest:
                changed[path] = digest
    return changed


class _Replay:
    """Sends records and files in their order, and remembers what was sent."""

    def __init__(self, tracker: Tracker, sent: Sent, remember: Callable[[], None], say: Say) -> None:
        self._tracker, self._sent, self._remember, self._say = tracker, sent, remember, say
        self._waiting, self._before, self._told = list[dict[str, Any]](), tracker.iteration, ""
        sent.run, sent.closed = tracker.run, False
        remember()

    def send(self, records: list[dict[str, Any]], retry: bool) -> None:
        """Send records that the service does not have; with ``retry`` a failure is a line, and the next call repeats.

        Raises:
            TrackingError: it failed.
        """
        self._waiting += records
        new = [record for record in self._waiting if record["iteration"] > self._tracker.iteration]
        try:
            if new:
                self._tracker.send(new)
        except TrackingError as error:
            if not retry:
                raise
            if str(error) != self._told:
                self._say(f"{error} Trying again.")
            self._told = str(error)
        else:
            self._waiting = []
        if self._sent.iteration != self._tracker.iteration:
            self._sent.iteration = self._tracker.iteration
            self._remember()

    def send_files(self, files: dict[Path, str]) -> None:
        """Send files, which have these digests."""
        for path, digest in files.items():
            self._tracker.send_file(path)
            self._sent.files[path.name] = digest
            self._remember()

    def close(self, ended: bool) -> None:
        """Wait until everything is there, and say what was sent."""
        lines = self._tracker.close(ended)
        self._sent.closed = True
        self._remember()
        sent = self._tracker.iteration - self._before
        self._say(f"Sent {counted(sent, 'iteration')}; {counted(self._tracker.iteration, 'iteration')} are there.")
        for line in lines:
            self._say(line)


def _wait_for_report(directory: Path) -> None:
    """Wait for the report of a training that has just ended, which is written after its last iteration."""
    paths, end = RunDirectory(directory), time.monotonic() + _REPORT_WAIT
    while time.monotonic() < end and not _is_newer(paths.report, paths.metrics):
        time.sleep(1.0)


def _is_newer(path: Path, than: Path) -> bool:
    return path.is_file() and path.stat().st_mtime >= than.stat().st_mtime
