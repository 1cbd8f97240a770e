"""Input and results of the doctor's checks: plain data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from longstride.config import Config
from longstride.hardware.diagnostics import Diagnostics
from longstride.hardware.planning.plan import Plan
from longstride.hardware.types import Gpu, Machine

Level = Literal["ok", "warning", "broken", "not measured"]


@dataclass(frozen=True)
class Finding:
    """The result of a check."""

    check: str
    level: Level  # `broken` where a run cannot work as asked, `warning` where it wastes something
    measured: str  # what was measured, with its figures
    remedy: str = ""  # what to do; empty if nothing


def warn_if(problem: bool, check: str, measured: str, remedy: str) -> Finding:
    """Return a warning with its remedy where there is a problem, else ``ok``."""
    return Finding(check, "warning", measured, remedy) if problem else Finding(check, "ok", measured)


def needs_run(check: str) -> Finding:
    """Return the finding of a check that reads a run's metrics and has none."""
    return Finding(check, "not measured", "needs a run", "name one that was trained here with --run-directory")


@dataclass(frozen=True)
class DoctorInput:
    """A run on a machine, as the checks see it."""

    config: Config
    machine: Machine
    samples: int  # expected samples of a rollout
    plan: Plan | None  # None where settings and machine contradict each other
    plan_error: str  # reason for having no plan
    checkpoint_bytes: int  # of one checkpoint
    diagnostics: Diagnostics  # state of the process and of the system around it
    records: Sequence[dict[str, Any]] = ()  # records of the run's metrics.jsonl; empty where there is none
    another: str = (
        ""  # sentence about a second GPU like the first; empty where the run uses none, or its time is not known
    )
    another_pays: bool = False  # whether updates would be noticeably shorter with it

    @property
    def gpu(self) -> Gpu | None:
        """The GPU that the run would use; None on the CPU."""
        return self.machine.gpu if self.plan is not None and self.plan.device == "cuda" else None

    def figures(self, name: str) -> list[float]:
        """Return a figure of every record that has it."""
        return [float(record[name]) for record in self.records if record.get(name) is not None]

    def update_figures(self, name: str) -> list[float]:
        """Return a figure of the GPU during updates, of every record that has it."""
        phases = [(record.get("gpu") or {}).get("updating") or {} for record in self.records]
        return [float(phase[name]) for phase in phases if phase.get(name) is not None]

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the entries of a list in all records, such as ``out_of_memory`` or ``fallbacks``."""
        return [event for record in self.records for event in record.get(name) or ()]
