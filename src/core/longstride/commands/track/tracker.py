"""What a service that shows runs is given, and what is remembered of what it has."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from longstride.errors import UserError
from longstride.training.run_directory.files import write_json
from longstride.training.run_directory.read_json import TRACKING, read_json

PROJECT = "longstride"
"""Project or experiment of runs, where the service's own environment variable names none."""

Records = Sequence[dict[str, Any]]


class TrackingError(UserError):
    """A service cannot be reached, or refuses what it is given; the same command sends it again."""


@dataclass
class Sent:
    """What a service has of a run."""

    run: str = ""  # the service's name of the run; empty before it has one
    iteration: int = 0  # last iteration that it was given
    closed: bool = True  # whether it has all of them; not where the command that sent them was stopped
    files: dict[str, str] = field(default_factory=dict)  # file name -> digest of the content that it has


@dataclass(frozen=True)
class RunFacts:
    """What a service is told of a run beside its metrics."""

    name: str  # of the run directory
    directory: Path
    settings: dict[str, Any]  # values of config.json
    units: dict[str, str]  # metric -> unit


class Tracker(Protocol):
    """A run in a service. Its methods raise TrackingError."""

    target: str  # where the run goes; without passwords
    run: str  # the service's name of the run
    iteration: int  # last iteration that the service has

    def send(self, records: Records) -> None:
        """Send the numbers of records of metrics.jsonl, whose iterations come after those that were sent."""

    def send_file(self, path: Path) -> None:
        """Send a file, in place of an earlier one of its name."""

    def close(self, ended: bool) -> list[str]:
        """Wait until everything is there; return lines for people. ``ended``: whether the training is over."""


def read_sent(path: Path, target: str) -> Sent:
    """Return what a service has of a run at a target, from its file; nothing where nothing is remembered.

    Raises:
        UserError: the file is damaged.
    """
    return Sent(**_all(path).get(target, {}))


def write_sent(path: Path, target: str, sent: Sent) -> None:
    """Remember what a service has.

    Raises:
        UserError: the file cannot be written.
    """
    write_json(path, {**_all(path), target: asdict(sent)})


def _all(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path, TRACKING)
        for entry in content.values():
            Sent(**entry)
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError):
        raise UserError(f"{path} is damaged; remove it to send the run anew.") from None
    return content
