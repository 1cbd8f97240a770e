"""A mode of the command line: its name, its flags and what it does; and the flags that several modes have."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from longstride.config import Config
from longstride.setting_groups.event_log import EventLog
from longstride.setting_groups.service import Service
from longstride.setting_groups.simulator import Simulation
from longstride.settings import Settings
from longstride.text import Say

if TYPE_CHECKING:
    from argparse import _ArgumentGroup as Group


OF_A_TRAINING = frozenset(Config.model_fields.keys() - Service.model_fields.keys())
"""Settings that a training reads."""

OF_SIMULATOR = frozenset(Simulation.model_fields.keys() | EventLog.model_fields.keys())
"""Settings that say what is played."""

OF_EPISODES = OF_SIMULATOR | {
    *("seed", "evaluation_episodes", "run_directory", "simulation_threads", "episode_time_limit"),
}
"""Settings that whole episodes of fixed policies read."""

OF_A_RUN = frozenset({"run_directory"})
"""Settings of what only looks at a run."""


@dataclass(frozen=True)
class Call:
    """A call of a mode.

    Attributes:
        settings: settings, with the origin of each: ``"default"``, ``"file"`` or ``"flag"``.
        own: values of the mode's own flags.
        options: settings that the command line names, as text or bool.
        named: hyperparameters file that the command line names.
        file: hyperparameters file that was read, named or not.
        console: console of the standard output.
        say: prints a line there.
    """

    settings: Settings
    own: dict[str, Any]
    options: dict[str, Any]
    named: Path | None
    file: Path | None
    console: Console
    say: Say

    @property
    def config(self) -> Config:
        """Values of the settings."""
        return self.settings.config


def _never(own: Mapping[str, Any]) -> bool:
    return False


def always(own: Mapping[str, Any]) -> bool:
    """Return True, whatever the flags are."""
    return True


def without_checkpoint(own: Mapping[str, Any]) -> bool:
    """Return whether the command line names no checkpoint."""
    return not own["checkpoint"]


@dataclass(frozen=True)
class Mode:
    """A mode of the command line.

    Attributes:
        name: value of ``--mode``.
        purpose: what it does, for ``--help``.
        add_flags: adds its own flags, those beside hyperparameters.
        run: does it and returns the exit code. It imports what takes seconds.
        reads_settings: whether it reads a hyperparameters file that the command line does not name, by its own flags.
        has_a_result: whether its work is complete even if its output cannot be written.
        several: the setting of which it takes several values, the others as ``further_...``.
        is_slow: whether seconds pass before it has something to say, so that a line says what it does.
        settings: settings that it reads. Flags of others are taken, too, and said to have no effect.
    """

    name: str
    purpose: str
    add_flags: Callable[["Group"], None]
    run: Callable[[Call], int]
    reads_settings: Callable[[Mapping[str, Any]], bool] = _never
    has_a_result: Callable[[Mapping[str, Any]], bool] = _never
    several: str = ""
    is_slow: bool = False
    settings: frozenset[str] = OF_A_TRAINING


def add_checkpoint(group: "Group") -> None:
    """Add the flag of a run or checkpoint."""
    group.add_argument("--checkpoint", metavar="DIR", help="a run directory or one of its checkpoints")


def add_policies(group: "Group", default: str = "all") -> None:
    """Add the flag of heuristics; ``default`` names those without it."""
    group.add_argument("--policy", metavar="NAME,...", help=f"heuristics to compare (default: {default})")


def add_no_report(group: "Group") -> None:
    """Add the flag of a run that writes no report."""
    group.add_argument("--no-report", action="store_true", help="do not write report.html")


def add_trust(group: "Group") -> None:
    """Add the flag of a simulator that runs in any case."""
    trust = "run the simulator source named by the run directory, even if it has changed or is not yours"
    group.add_argument("--trust-simulator", action="store_true", help=trust)


def add_verbose(group: "Group") -> None:
    """Add the flag of a plan in words."""
    group.add_argument(
        "--verbose", action="store_true", help="print every choice of the plan with its reason, and the speeds"
    )
