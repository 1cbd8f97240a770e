"""A callback that sends a run to a service while it trains, or afterwards."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from longstride.errors import UserError
from longstride.text import Say, counted
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.files import write_json
from longstride.training.run_directory.read_json import TRACKING, read_json

PROJECT = "longstride"
"""Project or experiment of runs, where the service's own environment variable names none."""


class TrackingError(UserError):
    """A service cannot be reached, or refuses what it is given; ``--mode track`` sends it again."""


class Service(Protocol):
    """A run in a service. Its methods raise TrackingError."""

    run: str  # the service's name of the run
    iteration: int  # last iteration that the service has

    def send(self, record: Mapping[str, Any]) -> None:
        """Send the numbers of a record of metrics.jsonl, and their units."""

    def send_file(self, path: Path) -> None:
        """Send a file, in place of an earlier one of its name."""

    def close(self) -> list[str]:
        """Wait until everything is there; return lines for people."""


OpenService = Callable[[Path, Mapping[str, Any], str], Service]
"""Begins a run by its directory and settings, or continues the one of a name that is not empty."""


class Tracking:
    """Sends a run in a thread of its own, so that training never waits for a network.

    After a failure nothing more is sent; ``failure`` is its error.
    """

    def __init__(self, name: str, open_service: OpenService, target: str, say: Say) -> None:
        self._name, self._open, self._target, self._say = name, open_service, target, say
        self._thread = ThreadPoolExecutor(1, "tracking")
        self.failure: TrackingError | None = None

    def on_start(self, directory: Path, settings: Mapping[str, Any]) -> None:
        """Begin the run, or continue it.

        Raises:
            UserError: the service's package is not installed, or the service refuses the run.
        """
        self._paths = RunDirectory(directory)
        file = self._paths.tracking(self._name)
        known = _read(file)
        self._service = self._open(directory, settings, known.get(self._target, {}).get("run", ""))
        self._before = self._service.iteration
        write_json(file, {**known, self._target: {"run": self._service.run}})

    def on_iteration(self, record: Mapping[str, Any]) -> None:
        """Send a record that the service does not have."""
        self._thread.submit(self._attempt, self._send, record)

    def on_end(self) -> None:
        """Send the report, the pictures and the evaluation, and say what was sent."""
        paths = self._paths
        for path in filter(Path.is_file, (paths.report, paths.learning_curve, paths.evaluation)):
            self._thread.submit(self._attempt, self._service.send_file, path)
        closing = self._thread.submit(self._attempt, self._close)
        closing.result()
        self._thread.shutdown()

    def _send(self, record: Mapping[str, Any]) -> None:
        if record["iteration"] > self._service.iteration:
            self._service.send(record)

    def _close(self) -> None:
        lines, sent = self._service.close(), self._service.iteration
        self._say(f"Sent {counted(sent - self._before, 'iteration')}; {counted(sent, 'iteration')} are there.")
        for line in lines:
            self._say(line)

    def _attempt(self, send: Callable[..., None], *arguments: Any) -> None:
        """Do a thing unless an earlier one has failed."""
        try:
            if self.failure is None:
                send(*arguments)
        except TrackingError as error:
            self.failure = error
            self._say(f"{error} Nothing more is sent; --mode track sends the rest of a run that has ended.")


def _read(path: Path) -> dict[str, Any]:
    """Return the runs that a file names, by target.

    Raises:
        UserError: it is damaged.
    """
    try:
        return read_json(path, TRACKING)
    except FileNotFoundError:
        return {}
    except ValueError:
        raise UserError(f"{path} is damaged; remove it to send the run again.") from None
